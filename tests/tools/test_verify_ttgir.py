"""`xttir verify` and `xttir-opt --verify-races` on TTGIR, as commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from xttir.tools import cli, json_report
from xttir.tools.xttir_opt import main as opt

BEFORE = """\
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @swap(%x: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %rounds = tt.load %idx : !tt.ptr<i32>
    %m = ttg.local_alloc : () -> !ttg.memdesc<512xf32, #s, #smem, mutable>
    %i = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #a>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #a>
    %q = tt.addptr %p, %i : tensor<512x!tt.ptr<f32>, #a>, tensor<512xi32, #a>
    %j = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #b>
    %pb = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #b>
    %qb = tt.addptr %pb, %j : tensor<512x!tt.ptr<f32>, #b>, tensor<512xi32, #b>
    %end = arith.addi %n, %ROUNDS : i32
    scf.for %k = %c0 to %end step %c1 : i32 {
      %v = tt.load %q : tensor<512x!tt.ptr<f32>, #a>
BARRIER
      ttg.local_store %v, %m : tensor<512xf32, #a> -> !ttg.memdesc<512xf32, #s, #smem, mutable>
BARRIER
      %w = ttg.local_load %m : !ttg.memdesc<512xf32, #s, #smem, mutable> -> tensor<512xf32, #b>
      tt.store %qb, %w : tensor<512x!tt.ptr<f32>, #b>
    }
    tt.return
  }
}
""".replace("%ROUNDS", "%c0")
"""Before shared memory is allocated. With `%ROUNDS`, data decides how often the loop goes round."""


def allocated(text: str) -> str:
    """The module as it is once shared memory is allocated."""
    return text.replace("ttg.local_alloc :", "ttg.local_alloc {allocation.offset = 0 : i32} :")


RACY = allocated(BEFORE.replace("BARRIER\n", ""))
RIGHT = allocated(BEFORE.replace("BARRIER\n", "      ttg.barrier local\n"))
STORE, LOAD = (
    1 + next(n for n, line in enumerate(RACY.splitlines()) if word in line)
    for word in ("ttg.local_store", "ttg.local_load")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("right", RIGHT), ("racy", RACY), ("before", BEFORE)):
        (tmp_path / f"{name}.ttgir").write_text(text.replace("BARRIER\n", ""))
    return tmp_path


def report_of(*words: str) -> tuple[int, dict[str, Any]]:
    """(exit code, JSON report)"""
    code = cli.main(["verify", "--format", "json", "-o", "report.json", *words])
    report = json.loads(Path("report.json").read_text())
    jsonschema.validate(report, json_report.schema())
    assert report["exit_code"] == code
    return code, report


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_module_with_its_barriers(folder: Path, rounds: int) -> None:
    code, report = report_of("right.ttgir", "--assume", f"n == {rounds}; grid[0] == 2")
    assert (code, report["verdict"]) == (0, "verified")
    (outcome,) = report["outcomes"]
    assert (outcome["level"], outcome["blocks"]) == ("ttgir", 2)
    assert outcome["launch"] == f"grid (2, 1, 1), n={rounds}"
    assert any("taken as it is" in text for text in report["assumptions"])


def test_a_race_at_both_lines(folder: Path) -> None:
    code, report = report_of("racy.ttgir", "--assume", "n == 1")
    assert code == 1
    (fault,) = report["faults"]
    assert (fault["kind"], fault["confirmed"]) == ("race", False)
    assert {(x["file"], x["line"]) for x in fault["locations"]} == {
        ("racy.ttgir", STORE), ("racy.ttgir", LOAD),
    }  # fmt: skip


def test_no_round_no_race(folder: Path) -> None:
    assert report_of("racy.ttgir", "--assume", "n == 0")[0] == 0


def test_what_control_needs_gets_values(folder: Path) -> None:
    code, report = report_of("right.ttgir")
    assert code == 0
    assert any("not given (n): 1, 2, 3" in text for text in report["assumptions"])
    assert any("holds for every n = " in text for text in report["assumptions"])
    assert report_of("racy.ttgir")[0] == 1


def test_integer_data_can_be_given(folder: Path) -> None:
    for name, text in (("data", RACY), ("good", RIGHT)):
        of_data = text.replace("arith.addi %n, %c0", "arith.addi %n, %rounds")
        Path(f"{name}.ttgir").write_text(of_data)
    assert report_of("data.ttgir", "--assume", "n == 0")[0] == 1
    code, report = report_of("good.ttgir", "--assume", "n == 0")
    assert code == 0
    assert any("as long as data says" in text for text in report["assumptions"])
    assert report_of("data.ttgir", "--assume", "n == 0; idx == [0]")[0] == 0
    assert report_of("data.ttgir", "--assume", "n == 0; idx == [2]")[0] == 1


def test_a_launch_description(folder: Path) -> None:
    launch = {
        "grid": [1, 1, 1],
        "tensors": {"x": {"dtype": "f32", "shape": [512]}, "i": {"dtype": "i32", "shape": [1]}},
        "params": [{"pointer": "x"}, {"pointer": "i"}, {"i32": 1}],
    }
    Path("l.json").write_text(json.dumps(launch))
    code, report = report_of("right.ttgir", "--launch", "l.json")
    assert code == 0
    of_global = [text for text in report["assumptions"] if "global memory" in text]
    assert [text.split()[2] for text in of_global] == ["run"]
    assert report_of("racy.ttgir", "--launch", "l.json")[0] == 1
    del launch["params"][0]
    Path("l.json").write_text(json.dumps(launch))
    code, report = report_of("right.ttgir", "--launch", "l.json")
    assert code == 2
    assert "2 parameters" in report["input_error"]["what"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("m == 1", "no parameter 'm'"),
        ("n >= 1", "gives no value"),
        ("n == 1.5", "`n` is an integer"),
        ("n == 4294967296", "does not fit into 32 bits"),
        ("n == k", "no number is known for 'k'"),
        ("n == 1 // 0", "divides by 0"),
        ("x == 1", "`x` is no number"),
        ("x == [1]", "no pointer to integers"),
        ("grid[3] == 1", "axes 0, 1 and 2"),
        ("grid[0] == 0", "at least 1 program"),
        ("grid[0] == 100000; grid[1] == 1000", "a grid of"),
        ("n == ", "is not NAME == value"),
    ],
)
def test_words_that_give_nothing(folder: Path, words: str, says: str) -> None:
    code, report = report_of("right.ttgir", "--assume", words)
    assert code == 2
    assert says in report["input_error"]["what"]


def test_words_that_compute(folder: Path) -> None:
    code, report = report_of("right.ttgir", "--assume", "n == 3 * 2 - 4; grid[0] == cdiv(n, 2)")
    assert code == 0
    assert report["outcomes"][0]["launch"] == "grid (1, 1, 1), n=2"


def test_before_barriers(folder: Path) -> None:
    pytest.importorskip("triton")
    code, report = report_of("before.ttgir", "--assume", "n == 2")
    assert code == 0
    assert report["outcomes"][0]["launch"] == "grid (1, 1, 1), n=2"
    assert any("barriers are inserted by Triton" in text for text in report["assumptions"])


def test_before_barriers_without_triton(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xttir.refine import after_barriers

    monkeypatch.setattr(after_barriers, "_version", lambda: "")
    code, report = report_of("before.ttgir", "--assume", "n == 2")
    assert code == 3
    (problem,) = report["unsupported"]
    assert "triton-nvidia-gpu-membar" in problem["hint"]


def test_as_a_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt(['--verify-races=assume="n == 1"', "right.ttgir"]) == 0
    assert "ttg.local_store" in capsys.readouterr().out
    assert opt(['--verify-races=assume="n == 1"', "racy.ttgir"]) == 1
    assert f"racy.ttgir:{LOAD}" in capsys.readouterr().err
    assert opt(["--verify-races", "racy.ttgir"]) == 1


def test_ttir_is_for_every_size(folder: Path) -> None:
    text = """module {
  tt.func public @k(%x: !tt.ptr<f32>, %v: f32) {
    %pid = tt.get_program_id x : i32
    %p = tt.addptr %x, %pid : !tt.ptr<f32>, i32
    tt.store %p, %v : !tt.ptr<f32>
    tt.return
  }
}
"""
    Path("k.ttir").write_text(text)
    code, report = report_of("k.ttir")
    assert (code, report["outcomes"][0]["level"]) == (0, "ttir")
    assert report["stats"]["wall_seconds"] > 0
    Path("k.ttir").write_text(
        text.replace("%x, %pid", "%x, %c").replace(
            "%pid = tt.get_program_id x", "%c = arith.constant 0"
        )
    )
    assert report_of("k.ttir", "--assume", "grid[0] == 2")[0] == 1


@pytest.mark.parametrize("flag", ["--init-launch", "--confirm", "--witness=w", "--dump-launch=w"])
def test_what_is_not_for_modules(folder: Path, flag: str) -> None:
    assert cli.main(["verify", "right.ttgir", flag]) == 2


SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def row_sum(x, o, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for k in range(n):
        total += tl.load(x + k * B + offs)
    tl.store(o, tl.sum(total))

x = torch.ones(4, 256, device="cuda")
o = torch.empty(1, device="cuda")
row_sum[(1,)](x, o, 4, B=256)
"""


def test_a_script(folder: Path) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    Path("s.py").write_text(SCRIPT)
    words = ("--every-schedule", "--level", "ttgir", "s.py")
    code, report = report_of(*words)
    assert code == 0
    (outcome,) = report["outcomes"]
    assert (outcome["level"], outcome["kernel"], outcome["index"]) == ("ttgir", "row_sum", 1)
    assert "n=4" in outcome["launch"]
    assert outcome["done"]["events"] > 1
    assert "triton" in sys.modules
