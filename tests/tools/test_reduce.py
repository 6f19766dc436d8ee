"""`xttir reduce`: what scripts give it, bad input, and results that are not lost."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.clean_process import Command, Outcome, xttir
from xttir.tools.cli import main

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

MODULE = """\
module {
  tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %a = arith.addi %n, %c1 : i32
    %b = arith.muli %a, %n : i32
    tt.store %x, %b : !tt.ptr<i32>
    tt.return
  }
}
"""

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.jit
def nested(size, out, m):
    total = 0
    for i in tl.range(0, m, flatten=True):
        n = tl.load(size)
        for j in range(0, n):
            total += j
        tl.store(out, total)

size = torch.full((1,), 3, device="cuda", dtype=torch.int32)
nested[(1,)](size, torch.zeros_like(size), 5)
"""


def reduce(folder: Path, *words: str) -> Outcome:
    return xttir("reduce", *words, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.ttir").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--command", '"'], "No closing quotation"),
        (["--command", " "], "names no command"),
        (["--command", "grep -q muli", "-o", "nowhere/small.mlir"], "cannot write"),
        (["--check", "nonsense"], "is none of"),
        (["--keep", "(", "--command", "true"], "--keep"),
        (["--keep", "nonsense", "--command", "true"], "nothing that matches 'nonsense'"),
    ],
)
def test_bad_words_cost_no_run(
    folder: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(["reduce", "m.ttir", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert not told.out


def test_errors_show_their_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    Path("bad.mlir").write_text("module {\n foo.bar\n}")
    assert main(["reduce", "bad.mlir", "--check", "any"]) == 2
    told = capsys.readouterr().err
    assert "--> bad.mlir:2:2" in told
    assert "2 |  foo.bar" in told


def test_an_existing_output_is_kept_until_there_is_a_better_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("small.mlir").write_text("before")
    assert main(["reduce", "m.ttir", "--command", "grep -q absent", "-o", "small.mlir"]) == 2
    assert Path("small.mlir").read_text() == "before"
    assert main(["reduce", "m.ttir", "--command", "grep -q absent", "-o", "other.mlir"]) == 2
    assert not Path("other.mlir").exists()
    assert main(["reduce", "m.ttir", "--command", "grep -q muli", "-o", "small.mlir"]) == 0
    assert "arith.addi" not in Path("small.mlir").read_text()


def test_what_an_interrupted_search_has_reached_is_written(folder: Path) -> None:
    # The third candidate sends Ctrl-C to the search, and never answers.
    script = (
        "echo x >> count; "
        'if [ $(wc -l < count) -ge 3 ]; then kill -INT $PPID; sleep 60; fi; grep -q muli "$0"'
    )
    words = ["reduce", "m.ttir", "--command", f"sh -c '{script}'", "-o", "small.mlir"]
    done = Command("xttir", words, folder).wait(60)
    assert done.code == 130
    assert "(interrupted: it may get smaller)" in done.stderr
    assert "arith.muli" in (folder / "small.mlir").read_text()


@needs_triton
def test_of_a_script_the_first_bad_pass_is_found(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    done = reduce(folder, "--cc", "100", "-o", "small.mlir", "script.py")
    assert done.code == 0
    assert "`tritongpu-fuse-nested-loops` changes the meaning of nested" in done.stderr
    ops = re.search(r"ops -> (\d+)", done.stderr)
    assert ops is not None
    assert int(ops[1]) <= 25
    (command,) = re.findall("reproduce: xttir (.*)", done.stderr)
    assert xttir(*command.replace("'", "").split(), cwd=folder).code == 1


@needs_triton
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print(1)", "the script launches no kernel"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_a_script_that_shows_nothing_says_why(folder: Path, text: str, said: str) -> None:
    (folder / "script.py").write_text(text)
    done = reduce(folder, "script.py")
    assert done.code == 2
    assert said in done.stderr
