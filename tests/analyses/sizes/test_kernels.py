"""Triton kernels as people write them, and correct and faulty twins, asked about every size."""
# pyright: reportArgumentType=false

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tests.analyses.sizes.capture import Case, decide
from tests.analyses.sizes.kernels_named import NAMED
from tests.analyses.sizes.kernels_pairs import PAIRS, padded_kernel, rand
from xttir.analyses.sizes import deadline
from xttir.diagnostics import Verdict


@pytest.mark.parametrize("case", NAMED.cases.values(), ids=lambda c: c.name)
def test_kernels_that_are_right_for_every_size(case: Case) -> None:
    with deadline.cpu_time():
        found = decide(case, 20)
    assert found.verdict is Verdict.VERIFIED, (found.faults, found.open)
    assert found.asked["out-of-bounds"] >= 2
    assert found.contract


HARD = ("grid_of_three_axes_bad", "offsets_of_large_tensors_bad")
"""Models of products that z3 finds in most runs, not in all: unknown will do, verified will not."""


@pytest.mark.parametrize("case", PAIRS.cases.values(), ids=lambda c: c.name)
def test_twins(case: Case) -> None:
    with deadline.cpu_time():
        found = decide(case, 20)
    if case.name in HARD and found.verdict is Verdict.UNKNOWN:
        return
    if case.kinds:
        assert found.verdict is Verdict.FAULT, found.open
        assert {f.kind for f in found.faults} & case.kinds
        assert all("a launch that shows it" in f.notes[-1] for f in found.faults)
    elif case.unknown:
        assert found.verdict is Verdict.UNKNOWN, found.faults
        assert any(case.unknown in why for _, why in found.open)
    else:
        assert found.verdict is Verdict.VERIFIED, (found.faults, found.open)


def test_what_holds_by_accident_is_named_apart() -> None:
    """No mask, and 1024 is a multiple of the block: proved for such sizes alone."""

    def launch() -> None:
        padded_kernel[(1024 // 64,)](rand(1024), rand(1024), 1024, True, B=64)

    found = decide(Case("divides", launch), 20)
    assert found.verdict is Verdict.VERIFIED, found.open
    assert found.only == ["n % 64 == 0 (B)"]
