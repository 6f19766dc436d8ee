"""`xttir verify` and `xttir run` on a small kernel, and on what is none."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from xttir.diagnostics import Fault, Kind, Location, Policy
from xttir.policy import RunPolicy
from xttir.tools import cli, json_report, render, render_static
from xttir.tools.places import Places, main_place
from xttir.tools.static_report import StaticReport

DATA = Path(__file__).parent.parent / "data/verify"
PTX = (DATA / "reverse.ptx").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the kernel, its source and its launch; the current directory."""
    for name in ("reverse.ptx", "reverse.cu", "reverse.json"):
        (tmp_path / name).write_text((DATA / name).read_text())
    (tmp_path / "racy.ptx").write_text(PTX.replace("\tbar.sync 0;\n", ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report_of(*words: str) -> tuple[int, dict[str, Any]]:
    """(exit code, JSON report)"""
    code = cli.main([words[0], "--format", "json", "-o", "report.json", *words[1:]])
    report = json.loads(Path("report.json").read_text())
    jsonschema.validate(report, json_report.schema())
    assert report["exit_code"] == code
    return code, report


def test_verified(folder: Path) -> None:
    code, report = report_of("verify", "reverse.ptx", "--launch", "reverse.json")
    assert (code, report["verdict"], report["faults"]) == (0, "verified", [])
    (outcome,) = report["outcomes"]
    assert (outcome["kernel"], outcome["blocks"], outcome["threads"]) == ("reverse", 1, 64)
    assert outcome["finished"]


def test_a_race_with_its_witness(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("racy.ptx", "--launch", "reverse.json")
    code, report = report_of("verify", *words, "--witness", "w", "--confirm")
    assert code == 1
    (fault,) = report["faults"]
    assert (fault["kind"], fault["confirmed"]) == ("race", True)
    places = [(os.path.basename(x["file"]), x["line"]) for x in fault["locations"]]
    assert sorted(places) == [
        ("racy.ptx", 29), ("racy.ptx", 37), ("reverse.cu", 4), ("reverse.cu", 7),
    ]  # fmt: skip
    assert places[0][0] == "reverse.cu"
    text = capsys.readouterr().err
    assert "y[t] = stage[63 - t];" in text
    assert "Verdict: fault." in text
    (file,) = Path("w").iterdir()
    assert f"replay: xttir run racy.ptx --launch reverse.json --schedule {file}" in text
    code, report = report_of("run", *words, "--schedule", str(file))
    assert code == 1
    assert "mismatch" in {f["kind"] for f in report["faults"]}


def test_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    code, report = report_of("run", "reverse.ptx", "--launch", "reverse.json")
    assert code == 0
    assert report["outcomes"][0]["result"] == ["y (f32[64]): equal to the reference"]
    assert "Result: right in this schedule." in capsys.readouterr().err
    for schedule in ("random:3", "adversarial"):
        words = ("reverse.ptx", "--launch", "reverse.json", "--schedule", schedule)
        assert report_of("run", *words)[0] == 0


def test_a_wrong_result(folder: Path) -> None:
    pytest.importorskip("torch")
    launch = json.loads(Path("reverse.json").read_text())
    launch["ref"] = {"y": "x"}
    Path("wrong.json").write_text(json.dumps(launch))
    code, report = report_of("run", "reverse.ptx", "--launch", "wrong.json")
    assert code == 1
    (fault,) = report["faults"]
    assert fault["kind"] == "mismatch"
    assert "`y` differs from its reference" in fault["message"]


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--explain", "reverse.ptx", "--launch", "reverse.json"]) == 0
    assert "barrier 0" in capsys.readouterr().err


def test_explain_two_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reverse.ptx", "--launch", "reverse.json"]
    for flag in (["--explain", "29:38"], ["--explain=4:7"]):
        assert cli.main(["verify", *flag, *words]) == 0
        text = capsys.readouterr().err
        assert "bar.sync at line 31 (reverse.cu:5) meets thread" in text
    assert cli.main(["verify", "--explain", "29:37", "racy.ptx", *words[1:]]) == 1
    assert "nothing orders them" in capsys.readouterr().err
    assert cli.main(["verify", "--explain=2:", *words]) == 2


def test_sarif(folder: Path) -> None:
    words = ["racy.ptx", "--launch", "reverse.json"]
    assert cli.main(["verify", "--format", "sarif", "-o", "out.sarif", *words]) == 1
    (run,) = json.loads(Path("out.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "race"
    flows = result["codeFlows"][0]["threadFlows"]
    assert len(flows) >= 2


def test_without_a_reference_no_result_is_called_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = json.loads(Path("reverse.json").read_text())
    assert launch.pop("ref")
    Path("alone.json").write_text(json.dumps(launch))
    assert cli.main(["run", "reverse.ptx", "--launch", "alone.json"]) == 0
    told = capsys.readouterr().err
    assert "right" not in told
    assert "Result: no fault in this schedule." in told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not PTX"),
        (b"\x7fELF\x02\x01", "not PTX"),
        (b"\xff\xfe\xfd", "not a text file"),
        (PTX[:400].encode(), "reverse.ptx:"),
        (PTX.replace("bar.sync", "bar.snyc").encode(), "near: bar"),
        (PTX.replace("sm_80", "sm_90a").encode(), "the PTX is for sm_90a"),
        (PTX.replace(".target sm_80", "").encode(), "the PTX names no target"),
        (PTX.replace("bar.sync", "bar.sync 1, 2,").encode(), "does not take these operands"),
    ],
    ids=[
        "empty",
        "elf",
        "binary",
        "truncated",
        "misspelt",
        "other device",
        "no target",
        "operands",
    ],
)
@pytest.mark.parametrize("command", ["verify", "run"])
def test_input_that_is_wrong(
    folder: Path, command: str, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("reverse.ptx").write_bytes(content)
    assert cli.main([command, "reverse.ptx", "--launch", "reverse.json"]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert "Traceback" not in text
    assert "erified" not in text


def test_addresses_of_32_bits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = PTX.replace(".address_size 64", ".address_size 32")
    assert narrow != PTX
    Path("reverse.ptx").write_text(narrow)
    assert cli.main(["verify", "reverse.ptx", "--launch", "reverse.json"]) == 3
    assert "addresses of 32 bits" in capsys.readouterr().err


def test_without_a_launch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "reverse.ptx"]) == 2
    text = capsys.readouterr().err
    assert "verify needs a launch description" in text
    assert '"pointer": "t0"' in text
    assert cli.main(["verify", "reverse.ptx", "--init-launch"]) == 0
    blank = capsys.readouterr().out
    Path("blank.json").write_text(blank)
    assert json.loads(blank)["entry"] == "reverse"
    assert cli.main(["verify", "-q", "reverse.ptx", "--launch", "blank.json"]) in (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify"], "verify needs a PTX file or a script"),
        (["verify", "reverse.ptx", "--lunch", "x"], "did you mean '--launch'"),
        (["verify", "reverse.ptx", "--launch", "reverse.json", "more"], "unexpected 'more'"),
        (["run", "script.py"], "run takes a PTX file"),
        (["run", "reverse.ptx", "--launch", "reverse.json", "--schedule", "rnd"], "no schedule"),
        (["verify", "--launch", "x.json", "script.py"], "are for PTX and modules"),
    ],
)
def test_usage(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


def test_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "launch"]) == 0
    assert "launch description" in capsys.readouterr().out
    assert cli.main(["schema", "lunch"]) == 2


def test_places_in_order() -> None:
    wrapper, kernel = Location("wrap.cuh", 5), Location("k.cu", 40)
    assert main_place([wrapper, kernel]) is kernel
    inner = Location("k.cu", 12)
    assert main_place([wrapper, inner, kernel]) is inner
    from xttir.diagnostics import Fault, Kind

    ptx = Location("k.ptx", 7, 2, "writes")
    fault = Fault(Kind.RACE, "m", locations=(ptx, wrapper, kernel, Location("k.ptx", 9)))
    shown = Places("k.ptx", {7: "st.shared"}).presented(fault).locations
    assert [(p.file, p.line) for p in shown] == [
        ("k.cu", 40), ("wrap.cuh", 5), ("k.ptx", 7), ("k.ptx", 9),
    ]  # fmt: skip
    assert shown[2].role == "st.shared"


def test_findings_at_many_places_are_told_once(folder: Path) -> None:
    from xttir.diagnostics import Fault, Kind
    from xttir.tools import render_static

    faults = [
        Fault(Kind.RACE, f"thread {n} races", "k", (Location("k.ptx", n),)) for n in range(1, 12)
    ]
    (fold,) = render_static.folded(faults)
    assert len(fold) == 11


def test_warnings_take_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    first = Location("k.cu", 3, 1), Location("k.ptx", 30, 2)
    second = Location("k.cu", 4, 1), Location("k.ptx", 40, 2)
    why = "ordered without fences"
    faults = [
        Fault(Kind.RACE, f"st of thread {n} writes: {why}", "k", (*first, *second), Policy.STRICT)
        for n in range(2)
    ] + [Fault(Kind.PROXY, "no fence", "k", second, Policy.STRICT)]
    report = StaticReport(policy=RunPolicy().with_checks("none"), faults=faults)
    text = render.to_plain(render_static.fault_lines(report))
    lines = text.splitlines()
    assert lines[0] == "warning[proxy]: no fence (k.cu:4)"
    assert lines[1].startswith("warning[race]: st of thread 0 writes: ordered without fences (k.")
    assert lines[1].endswith("(k.cu:3 and k.cu:4)")
    assert lines[2] == " = --strict shows these in full, and counts them as faults"
    report.policy = replace(report.policy, strict=True)
    text = render.to_plain(render_static.fault_lines(report))
    assert text.count("error[") == 2
    assert "-->" in text


def test_the_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from xttir.tools.xttir_opt import main

    assert main(["--verify-races", "--launch", "reverse.json", "reverse.ptx"]) == 0
    assert '"ptx.func"' in capsys.readouterr().out
    assert main(["-p", "verify-races", "--launch", "reverse.json", "-t", "ptx", "reverse.ptx"]) == 0
    assert ".visible .entry reverse" in capsys.readouterr().out
    assert main(["--verify-races", "--launch", "reverse.json", "racy.ptx"]) == 1
    shown = capsys.readouterr()
    assert "error[race]" in shown.err
    assert "stage[t] = x[t];" in shown.err
    assert not shown.out
    assert main(["--verify-races", "reverse.ptx"]) == 2
    assert "--launch FILE" in capsys.readouterr().err
    Path("m.mlir").write_text("module {}\n")
    assert main(["--verify-races", "m.mlir"]) == 3
