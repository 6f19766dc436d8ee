"""Which ops of Triton's dialects run: all but those that the documentation names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.ir import Dialect, Operation
from xdsl.traits import IsTerminator

from xttir.dialects import tt
from xttir.dialects.gluon import GLUON
from xttir.dialects.nvws import NVWS
from xttir.dialects.ttg import TTG
from xttir.dialects.tti import TTI
from xttir.dialects.ttng import TTNG
from xttir.interp.registry import implementations

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "dialects.md"
CONTAINERS = ("tt.func",)
"""Ops that are called, not run."""


def documented() -> list[str]:
    """The ops that the page says do not run."""
    section = PAGE.read_text().split("## What does not run")[1].split("In part only")[0]
    return re.findall(r"^- `([\w.]+)`", section, re.MULTILINE)


def without_meaning(dialect: Dialect) -> list[str]:
    """The ops of a dialect that nothing runs."""
    table = implementations()
    found: list[str] = []
    for kind in dialect.operations:
        op: Operation = kind.__new__(kind)
        terminates = kind.has_trait(IsTerminator)
        if not terminates and table.builder(op) is None and table.find(op) is None:
            found.append(kind.name)
    return found


@pytest.mark.parametrize(
    "dialect", [tt.TT, TTG, TTNG, NVWS, GLUON, TTI], ids=lambda dialect: dialect.name
)
def test_ops_that_do_not_run_are_documented(dialect: Dialect) -> None:
    told = [name for name in documented() if name.split(".")[0] == dialect.name]
    assert sorted(without_meaning(dialect)) == sorted(
        [*told, *(name for name in CONTAINERS if name.split(".")[0] == dialect.name)]
    )
