"""`xttir verify --every-size` and `xttir-opt --verify-races` on TTIR, as commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, o, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * {unit} + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(o + offsets, 2 * tl.load(x + offsets, mask), mask)

x = torch.rand(1000, device="cuda")
o = torch.empty_like(x)
double[(triton.cdiv(1000, 128),)](x, o, 1000, BLOCK=128)
"""


def verify(
    tmp_path: Path, source: str, *flags: str, asked: str = "--every-size"
) -> tuple[int, dict]:
    script, out = tmp_path / "script.py", tmp_path / "out.json"
    script.write_text(source)
    command = [sys.executable, "-m", "xttir", "verify", *filter(None, [asked]), *flags]
    command += ["--format", "json", "-o", str(out), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(out.read_text())


def test_a_right_kernel_is_proved_under_its_contract(tmp_path: Path) -> None:
    code, report = verify(tmp_path, SCRIPT.format(unit="BLOCK"))
    assert code == 0, report
    (outcome,) = [o for o in report["outcomes"] if o["every_size"]]
    assert outcome["finished"]
    (contract,) = outcome["result"]
    assert "x.shape[0] == n" in contract
    assert "grid[0] == cdiv(n, BLOCK)" in contract


def test_a_wrong_one_is_refuted_by_a_launch(tmp_path: Path) -> None:
    code, report = verify(tmp_path, SCRIPT.format(unit="(BLOCK - 1)"))
    assert code == 1
    faults = [f for f in report["faults"] if "launch" in f["witness"]]
    assert {f["kind"] for f in faults} == {"race"}
    assert all(f["confirmed"] for f in faults)
    assert faults[0]["witness"]["launch"]["grid"][0] >= 2
    assert any(place["line"] == 8 for place in faults[0]["locations"])


def test_words_that_cannot_be_read_are_an_input_error(tmp_path: Path) -> None:
    code, report = verify(tmp_path, SCRIPT.format(unit="BLOCK"), "--assume", "n >=")
    assert code == 2
    assert "n >=" in report["input_error"]["what"]


CHUNKS = """
import torch, triton, triton.language as tl

@triton.jit
def starts(h, T, B: tl.constexpr):
    for c in range(tl.cdiv(T, B)):
        tl.store(h + c, c)

h = torch.empty(2, dtype=torch.int32, device="cuda")
starts[(1,)](h, 70, B=64)
"""


def test_a_size_that_depends_on_an_argument_unseen_refutes_nothing(tmp_path: Path) -> None:
    """`h` has cdiv(T, 64) elements, which the launch shows as 2 alone."""
    code, report = verify(tmp_path, CHUNKS)
    assert not report["faults"]
    assert code in (0, 3)


def test_both_questions_are_asked_by_default(tmp_path: Path) -> None:
    code, report = verify(tmp_path, SCRIPT.format(unit="BLOCK"), asked="")
    assert code == 0, report
    assert [o["every_size"] for o in report["outcomes"]] == [False, True]
    code, report = verify(tmp_path, SCRIPT.format(unit="BLOCK"), asked="--every-schedule")
    assert code == 0, report
    assert [o["every_size"] for o in report["outcomes"]] == [False]


def test_two_questions_about_one_launch_are_one_launch(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(unit="BLOCK"))
    command = [sys.executable, "-m", "xttir", "verify", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert "\n1 launch in " in done.stdout + done.stderr


def test_what_holds_by_accident_is_told_apart(tmp_path: Path) -> None:
    source = SCRIPT.format(unit="BLOCK").replace("1000", "1024")
    source = source.replace("offsets < n", "offsets < n + 5")
    code, report = verify(tmp_path, source)
    assert code == 0, report
    (outcome,) = report["outcomes"]
    assert outcome["result"][1:] == ["only where, as in the launch: n % 128 == 0 (BLOCK)"]
