"""`xttir validate`: two modules, passes, dumps; verdicts, formats and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.refine.planted import DATA, read
from xttir.refine.capture import forked
from xttir.tools import json_report, render, sarif
from xttir.tools.cli import main
from xttir.tools.render_validate import subject_lines
from xttir.tools.validate import Settings, validate_files, validate_passes
from xttir.tools.validate_html import page

REPORTS = {
    "01-fuse-unsound-assume": {"buggy": 1, "fixed": 0, "source": 0},
    "02-hoisted-bound-load": {"buggy": 1, "fixed": 0, "source": 0},
}
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")


def write(folder: Path, name: str) -> tuple[str, str, str]:
    planted = read(DATA / f"{name}.mlir")
    paths = []
    for what in ("source", "right", "wrong"):
        path = folder / f"{what}.mlir"
        path.write_text(getattr(planted, what))
        paths.append(str(path))
    return paths[0], paths[1], paths[2]


@pytest.mark.parametrize("case", REPORTS)
def test_public_reports(case: str, shared_dir: Path) -> None:
    folder = shared_dir / "cases" / "reports" / case
    for variant, code in REPORTS[case].items():
        source, target = str(folder / "source.mlir"), str(folder / f"{variant}.mlir")
        report = validate_files(source, target, Settings())
        assert report.exit_code == code, variant


def test_smallest_counter_example_of_an_unsound_fusion(shared_dir: Path) -> None:
    folder = shared_dir / "cases" / "reports" / "01-fuse-unsound-assume"
    source, target = str(folder / "source.mlir"), str(folder / "buggy.mlir")
    (fault,) = validate_files(source, target, Settings()).faults
    assert fault.witness["scalars"] == {"m": 1, "n": 0, "q": 0}
    assert fault.witness["values"] == [["out[0]", "0", "1"]]


def test_json_keeps_the_schema_and_says_what_differs(tmp_path: Path) -> None:
    source, _, wrong = write(tmp_path, "reordered_store")
    report = validate_files(source, wrong, Settings())
    data = json_report.object_json(report)
    jsonschema.validate(data, json_report.schema())
    assert data["verdict"] == "fault"
    assert [s["status"] for s in data["subjects"][0]["stages"]] == ["match", "mismatch"]
    assert sarif.sarif(report)["runs"][0]["results"][0]["ruleId"] == "mismatch"


def test_html_is_whole_and_escaped(tmp_path: Path) -> None:
    source, _, wrong = write(tmp_path, "dropped_store_mask")
    text = page(validate_files(source, wrong, Settings()))
    assert text.count("<table>") == text.count("</table>") > 0
    assert "<f32>" not in text
    assert "&lt;f32&gt;" in text
    assert "src=" not in text


def test_right_twin_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, right, _ = write(tmp_path, "prefetch_past_end")
    assert main(["validate", source, right]) == 0
    assert "Verdict: verified" in capsys.readouterr().err


@needs_triton
def test_passes_are_named(tmp_path: Path, shared_dir: Path) -> None:
    source = shared_dir / "cases" / "reports" / "02-hoisted-bound-load" / "source.mlir"
    out = tmp_path / "out.json"
    words = ["validate", "--format", "json", "-o", str(out), str(source)]
    assert main([*words, "--passes", "tritongpu-fuse-nested-loops,canonicalize"]) == 1
    subject = json.loads(out.read_text())["subjects"][0]
    assert subject["first_bad_pass"] == "tritongpu-fuse-nested-loops"


@needs_triton
@pytest.mark.parametrize("readers", [2, 1])
def test_a_ring_with_too_few_slots_for_an_asynchronous_reader(readers: int, tmp_path: Path) -> None:
    """A tile that is loaded and multiplied by gets a slot less than one that is multiplied by, and
    the copy that is two iterations ahead meets the wgmma of this one."""
    text = (DATA.parent / "ring_of_two_readers.mlir").read_text()
    if readers == 1:
        lines = [x for x in text.splitlines() if "arith.extf" not in x]
        text = "\n".join(lines).replace("arith.addf %arg7, %49", "arith.addf %arg7, %cst_2")
    path = tmp_path / "loop.mlir"
    path.write_text(text)
    settings = Settings(passes="tritongpu-pipeline{num-stages=3}", inputs=4)
    report = validate_passes(str(path), settings)
    assert [str(f.kind) for f in report.faults] == ["race"] * (readers - 1)
    assert report.exit_code == readers - 1
    if report.faults:
        assert "read by ttng.warp_group_dot" in report.faults[0].notes[0]
        # The pass has steps; products become asynchronous after the loop is expanded.
        (subject,) = report.subjects
        assert subject.to_json()["first_bad_step"] == "what comes last"
        text = render.to_plain(subject_lines(subject))
        assert "inside of it: what comes last, the first step after ExpandLoops" in text


@pytest.mark.parametrize("cc", [80, 90])
@needs_triton
def test_descriptors_of_the_host(cc: int, tmp_path: Path) -> None:
    """Before Hopper a launch passes them as numbers, which only a pass makes parameters of."""
    report = validated(tmp_path, "rows_by_descriptor.py", cc)
    assert report["verdict"] == "verified"
    (subject,) = report["subjects"]
    assert subject["inputs"] > 0
    assert subject["inputs_left_out"] == {}


def validated(folder: Path, script: str, cc: int) -> dict[str, Any]:
    """The report on one of the scripts of the tests."""
    out = folder / "report.json"
    path = str(Path(__file__).parents[1] / "data" / "scripts" / script)
    command = [sys.executable, "-m", "xttir", "validate", "--cc", str(cc), "--format", "json"]
    done = subprocess.run(
        [*command, "-o", str(out), path], capture_output=True, text=True, check=False
    )
    assert out.exists(), done.stdout + done.stderr
    return json.loads(out.read_text())


@needs_triton
def test_a_false_promise_is_named_and_need_not_matter(tmp_path: Path) -> None:
    """Every stage does the same whether or not the promise is kept, so there is a verdict."""
    report = validated(tmp_path, "false_promise.py", 90)
    assert report["verdict"] == "verified"
    (note,) = report["notes"]
    assert "tl.multiple_of(..., 16) is false here" in note
    assert "false_promise.py:11" in note


def test_a_false_promise_that_matters_is_no_fault_of_a_pass(tmp_path: Path) -> None:
    """What the target does with it is its right; the source is undefined."""
    source, target = tmp_path / "a.mlir", tmp_path / "b.mlir"
    source.write_text(PROMISE.replace("VALUE", "%0"))
    target.write_text(PROMISE.replace("VALUE", "%c0"))
    report = validate_files(
        str(source), str(target), Settings(launch="", arguments=["x=zeros:[4]", "n=3"], inputs=0)
    )
    assert not report.faults
    assert report.exit_code != 0
    reasons = report.subjects[0].validation.skipped
    assert any("tl.multiple_of(..., 16) is false here" in why for why in reasons)


PROMISE = """\
module {
  tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %0 = arith.addi %n, %c0 {tt.divisibility = dense<16> : tensor<1xi32>} : i32
    tt.store %x, VALUE : !tt.ptr<i32>
    tt.return
  }
}
"""


@needs_triton
@pytest.mark.parametrize("passes", ["no-such-pass", "cse{nothing=1}", "cse)", ","])
def test_wrong_pipelines_are_input_errors(passes: str, tmp_path: Path) -> None:
    source, _, _ = write(tmp_path, "reordered_store")
    assert main(["validate", source, "--passes", passes]) == 2


def test_other_input_errors(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("module { nonsense }")
    assert main(["validate", str(broken), str(broken)]) == 2
    assert main(["validate", str(tmp_path / "absent.mlir"), str(broken)]) == 2
    assert main(["validate", "a.mlir", "b.mlir", "c.mlir"]) == 2
    assert main(["validate"]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("llvm.func @f() {\n llvm.return\n}", "it holds llvm.func: not Triton's IR"),
        ("module {}", "no function"),
        ("module {\n tt.func private @p(i32) -> i32\n}", "no function"),
        ("module {\n func.func @a() { func.return }\n}", "no function"),
        ("module {\n foo.bar\n}", "foo.bar"),
        ("tt.func public @a() { tt.return }\ntt.func public @b() { tt.return }", "a, b"),
        ("tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {\n tt.store %x, %n : !tt.ptr<f32>", "%n"),
    ],
)
@needs_triton
def test_modules_that_cannot_be_run_are_errors_and_no_faults_of_passes(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.ttir"
    path.write_text(text)
    for words in ([], ["--passes", "canonicalize"], [str(path)]):
        assert main(["validate", str(path), *words]) == 2
        told = capsys.readouterr().err
        assert "Assumed" not in told
        assert words[:1] == ["--passes"] or said in told


def test_passes_are_for_one_module(tmp_path: Path) -> None:
    source, right, _ = write(tmp_path, "reordered_store")
    assert main(["validate", source, right, "--passes", "cse"]) == 2
    assert main(["validate", source, "--passes", ""]) == 2


FEW_LANES = "threadsPerWarp = [1, 16]"


def test_a_file_that_does_not_verify_is_a_finding(tmp_path: Path) -> None:
    text = (DATA.parent / "mutated" / "softmax.mlir").read_text()
    wrong = text.replace("threadsPerWarp = [1, 32]", FEW_LANES)
    source, target = tmp_path / "a.mlir", tmp_path / "b.mlir"
    source.write_text(text)
    target.write_text(wrong)
    html = tmp_path / "page.html"
    assert main(["validate", str(source), str(target), "--html", str(html)]) == 1
    assert FEW_LANES in html.read_text()
    report = validate_files(str(source), str(target), Settings())
    assert [str(f.kind) for f in report.faults] == ["misuse"]
    assert "16 threads per warp" in report.faults[0].message
    assert report.faults[0].locations[0].file == str(target)
    assert main(["validate", str(target), str(source)]) == 2  # of a source, an input error


def test_a_wrong_layout_has_a_page(tmp_path: Path) -> None:
    """What is wrong of a module by itself was compared with no other."""
    source, _, wrong = write(tmp_path, "lane_lost")
    html = tmp_path / "page.html"
    assert main(["validate", source, wrong, "--html", str(html)]) == 1
    assert "What it changed" in html.read_text()


@needs_triton
def test_a_pass_that_hangs_is_ended() -> None:
    def work(sink: Any) -> None:
        sink("pass", "any(slow)")
        time.sleep(1000)

    with tempfile.TemporaryFile() as log:
        told = list(forked(work, log.fileno(), timeout=0.5))
    assert told == [("pass", "any(slow)"), ("timed out", "after 0.5 s")]


def test_calls_without_end_are_unsupported(tmp_path: Path) -> None:
    path = tmp_path / "m.ttir"
    path.write_text(
        "tt.func public @a(%n: i32) {\n  tt.call @a(%n) : (i32) -> ()\n  tt.return\n}\n"
    )
    for words in (["run", str(path)], ["validate", str(path), str(path)]):
        assert main(words) == 3


@needs_triton
def test_a_pass_that_fails_says_so_in_the_file_of_the_user(tmp_path: Path) -> None:
    source, _, _ = write(tmp_path, "reordered_store")
    report = validate_passes(source, Settings(passes="convert-triton-to-tritongpu"))
    (fault,) = report.faults
    assert "requires 'target'" in fault.message
    assert fault.notes[0].startswith(f"{source}:")
    assert report.exit_code == 1
