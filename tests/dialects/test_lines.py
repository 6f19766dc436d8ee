"""Ops read at once are the ops read token by token, and errors are found all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import InputError
from xttir.dialects.context import make_context
from xttir.dialects.syntax import parser
from xttir.frontends.mlir import read_module

FOLDERS = (Path(__file__).parent.parent / "data", Path(__file__).parent.parent / "filecheck")
TEXTS = {
    path.name: path.read_text()
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.tt*ir"))
    if "generic" not in path.name and "invalid" not in path.name
}
SAMPLE = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
  tt.func @f(%p: tensor<128x!tt.ptr<f32>, #b>, %m: tensor<128xi1, #b>, %n: i32) {
    %c = arith.constant dense<1.5> : tensor<128xf32, #b>
    %0 = tt.load %p, %m, %c {a = [1, 2], tt.b = "}"} : tensor<128x!tt.ptr<f32>, #b>
    %1 = tt.load %p, %m : tensor<128x!tt.ptr<f32>, #b>
    %2 = arith.addf %0, %1 fastmath<fast> : tensor<128xf32, #b>
    %3 = arith.cmpf olt, %2, %c : tensor<128xf32, #b>
    %4 = tt.get_program_id x {a = {b = 1 : i32}} : i32
    %5 = arith.addi %4, %n {x} : i32
    tt.store %p, %2, %3 : tensor<128x!tt.ptr<f32>, #b>
    tt.return
  }
}
"""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every op class is read at once from its second op on; gives the names of ops so read."""
    monkeypatch.setattr(parser, "OFTEN", 1)
    monkeypatch.setattr(parser, "_PLANS", {})
    monkeypatch.setattr(parser, "_LINES", {})
    read: list[str] = []
    line = parser.TTParser._line  # pyright: ignore[reportPrivateUsage]

    def noted(self: parser.TTParser, start: int) -> object:
        op = line(self, start)
        if op is not None:
            read.append(op.name)
        return op

    monkeypatch.setattr(parser.TTParser, "_line", noted)
    return read


def token_by_token(text: str) -> ModuleOp | InputError:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser.TTParser, "_line", lambda *_: None)
        return outcome(text)


def outcome(text: str) -> ModuleOp | InputError:
    try:
        return read_module(make_context(), text, "text")
    except InputError as error:
        return error


def same(a: ModuleOp | InputError, b: ModuleOp | InputError) -> bool:
    if isinstance(a, InputError) or isinstance(b, InputError):
        return isinstance(a, InputError) and isinstance(b, InputError)
    places = [[op.location for op in module.walk()] for module in (a, b)]
    hints = [[r.name_hint for op in module.walk() for r in op.results] for module in (a, b)]
    return (
        a.is_structurally_equivalent(b)
        and str(a) == str(b)
        and places[0] == places[1]
        and hints[0] == hints[1]
    )


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_module(name: str, at_once: list[str]) -> None:
    text = TEXTS[name]
    want = token_by_token(text)
    outcome(text)
    assert same(outcome(text), want)


def test_most_ops_are_read_at_once(at_once: list[str]) -> None:
    outcome(SAMPLE)
    at_once.clear()
    module = outcome(SAMPLE)
    assert isinstance(module, ModuleOp)
    assert at_once == [
        "arith.constant",
        "tt.load",
        "tt.load",
        "arith.cmpf",
        "arith.addi",
        "tt.store",
    ]
    assert same(module, token_by_token(SAMPLE))


def test_any_change_has_the_same_outcome(at_once: list[str]) -> None:
    """Characters put in anywhere: both ways of reading fail, or give the same module."""
    outcome(SAMPLE)
    start = SAMPLE.index("%c = ")
    for position in range(start, len(SAMPLE), 5):
        for character in ("%", "{", "x", ",", "\n", "<", "// "):
            text = SAMPLE[:position] + character + SAMPLE[position:]
            assert same(outcome(text), token_by_token(text)), text
