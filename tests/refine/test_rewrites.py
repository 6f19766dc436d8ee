"""Rewrites of small kernels: what passes may do, what they may not, and what is off by rounding;
undefined values, NaN, signed zeros, memory outside of a mask, atomics, prints, loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from xttir.refine.stages import Stage, validate
from xttir.refine.status import MATCH, MISMATCH, ROUNDING

DATA = Path(__file__).parents[1] / "data" / "refine" / "rewrites.txt"
STATUS = {"right": MATCH, "wrong": MISMATCH, "rounding": ROUNDING}


def read() -> list[tuple[str, str, str, str]]:
    """(verdict, name, module before, module after) for every rewrite."""
    _, prelude, *blocks = DATA.read_text().strip().split("\n\n")
    lines = prelude.split("\n", 1)[1]
    found: list[tuple[str, str, str, str]] = []
    for block in blocks:
        head, rest = block.split("\nbefore: ", 1)
        verdict, name = head.split(": ", 1)
        modules = [_module(part, lines) for part in rest.split("\nafter: ")]
        found.append((verdict, name, modules[0], modules[1]))
    return found


def _module(part: str, prelude: str) -> str:
    arguments, _, body = part.partition("\n")
    body = body.replace("...", prelude)
    return f"tt.func public @k({arguments}) {{\n{body}\ntt.return\n}}\n"


REWRITES = read()


@pytest.mark.parametrize(
    ("verdict", "name", "before", "after"), REWRITES, ids=[r[1] for r in REWRITES]
)
def test_a_rewrite_is_judged(
    verdict: str, name: str, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = validate([Stage("", before, file="a.mlir"), Stage("", after, file="b.mlir")])
    assert not found.unsupported
    assert found.cases
    assert found.rows[1].status == STATUS[verdict], (name, found.rows[1].findings)
    assert capsys.readouterr().out == ""  # what kernels print is compared, not shown


def test_there_are_rewrites() -> None:
    assert len(REWRITES) >= 55
