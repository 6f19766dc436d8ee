"""`xttir verify --every-size` and `xttir-opt --verify-races` on TTIR, as commands."""

from __future__ import annotations

import json
import re
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


EMBEDDING = """
import torch, triton, triton.language as tl

@triton.jit
def embed(table, idx, o, n, dim, words, BN: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BN + tl.arange(0, BN)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    which = tl.load(idx + rows, mask=rows < n, other=0)
    mask = (rows < n)[:, None] & (cols < dim)[None, :]
    v = tl.load(table + which[:, None] * dim + cols[None, :], mask=mask)
    tl.store(o + rows[:, None].to(tl.int64) * dim + cols[None, :], v, mask=mask)

n, dim, words = 77, 100, 1000
idx = torch.randint(0, words, (n,), device="cuda")
table, o = torch.rand(words, dim, device="cuda"), torch.empty(n, dim, device="cuda")
embed[(triton.cdiv(n, 16), triton.cdiv(dim, 32))](table, idx, o, n, dim, words, BN=16, BD=32)
"""


def test_an_embedding_is_proved_where_words_say_what_its_indices_are(tmp_path: Path) -> None:
    code, report = verify(tmp_path, EMBEDDING, "--assume", "0 <= values(idx) < words")
    assert code == 0, report
    (outcome,) = report["outcomes"]
    assert outcome["seconds"] < 20
    assert "0 <= values(idx) < words" in outcome["result"][0]
    assert len(outcome["result"]) == 1, "the words are no accident of the launch"
    code, report = verify(tmp_path, EMBEDDING, "--assume", "0 <= values(idx) <= words")
    assert code == 1
    assert {f["kind"] for f in report["faults"]} == {"out-of-bounds"}
    launch = report["faults"][0]["witness"]["launch"]
    assert launch["every value of idx"] == launch["words"]


PAGES = """
import torch, triton, triton.language as tl

@triton.jit
def pages(table, kv, o, stride, D: tl.constexpr):
    t = tl.program_id(0)
    page = tl.load(table + t){widened}
    v = tl.load(kv + page * stride + tl.arange(0, D))
    tl.store(o + t * D + tl.arange(0, D), v)

stride = 276480
table = torch.tensor([3, 0, 2], device="cuda", dtype=torch.int32)
kv, o = torch.zeros(4 * stride, device="cuda", dtype=torch.float16), torch.empty(192, device="cuda")
pages[(3,)](table, kv, o, stride, D=64)
"""


def test_a_page_that_lies_far_away_is_found_without_words(tmp_path: Path) -> None:
    """No argument says how many pages there are: 32 bits are too few for some that there may be."""
    code, report = verify(tmp_path, PAGES.format(widened=""))
    assert code == 1
    assert "int-overflow" in {f["kind"] for f in report["faults"]}
    launch = report["faults"][0]["witness"]["launch"]
    assert launch["every value of table"] * launch["stride"] >= 2**31 - 64
    code, report = verify(tmp_path, PAGES.format(widened=".to(tl.int64)"))
    assert not report["faults"]
    assert code == 3
    assert any("data of table" in n["what"] for n in report["not_checked"]), report["not_checked"]


SLOW = """
import torch, triton, triton.language as tl

@triton.jit
def slow{n}(x, a, b, c, BLOCK: tl.constexpr):
    p, q = tl.program_id(0), tl.program_id(1)
    i = (p * a % b * c + q * b // a * q) * p % (a + b) + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < a * b // c)

x = torch.empty(12 * 35, device="cuda")
slow{n}[(12, 35)](x, 12, 35, 3, BLOCK=16)
"""


def test_the_timeout_holds_for_every_kernel(tmp_path: Path) -> None:
    source = "".join(SLOW.format(n=n) for n in range(3))
    code, report = verify(tmp_path, source, "--timeout", "2")
    assert code != 0
    assert len(report["outcomes"]) == 3
    for outcome in report["outcomes"]:
        assert outcome["seconds"] <= 2.2 + 0.3, "a tenth, and what a loaded machine takes"
    whats = [n["what"] for n in report["not_checked"]]
    assert all(re.search(r"slow\d at script.py:\d+: ", w) for w in whats), whats
    assert any("race: write and write of x: the time is over (--timeout)" in w for w in whats), (
        whats
    )
