"""Triton kernels as people write them, and correct and faulty twins, asked about every size."""
# pyright: reportArgumentType=false

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tests.analyses.sizes.capture import Case, decide
from tests.analyses.sizes.kernels_access import ACCESS
from tests.analyses.sizes.kernels_models import MODELS
from tests.analyses.sizes.kernels_named import NAMED
from tests.analyses.sizes.kernels_pairs import PAIRS, padded_kernel, rand
from tests.analyses.sizes.kernels_programs import PROGRAMS
from xttir.analyses.sizes import deadline, solver
from xttir.diagnostics import Verdict


@pytest.mark.parametrize("case", NAMED.cases.values(), ids=lambda c: c.name)
def test_kernels_that_are_right_for_every_size(case: Case) -> None:
    with deadline.cpu_time():
        found = decide(case, 20)
    assert found.verdict is Verdict.VERIFIED, (found.faults, found.open)
    assert found.asked["out-of-bounds"] >= 2
    assert found.contract


@pytest.mark.parametrize("seed", [1000, 2000])
def test_a_proof_is_no_matter_of_luck(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches end or not by the order in which the solver tries things."""
    monkeypatch.setattr(solver, "FIRST_SEED", seed)
    with deadline.cpu_time():
        found = decide(NAMED.cases["attention_forward"], 20)
    assert found.verdict is Verdict.VERIFIED, found.open


HARD = (
    "batches_of_a_large_tensor_bad",
    "diagonal_bad",
    "grid_of_three_axes_bad",
    "offsets_of_large_tensors_bad",
    "output_of_every_other_column_bad",
    "rows_of_a_triangle",
    "three_ids_of_one_bad",
)
"""Products that z3 settles in some runs, or in none: unknown will do, a wrong verdict will not."""

TWINS = [c for table in (PAIRS, ACCESS, PROGRAMS, MODELS) for c in table.cases.values()]


@pytest.mark.parametrize("case", TWINS, ids=lambda c: c.name)
def test_twins(case: Case) -> None:
    with deadline.cpu_time():
        found = decide(case, 5 if case.name in HARD else 20)
    if case.name in HARD and found.verdict is Verdict.UNKNOWN:
        return
    if case.kinds:
        assert found.verdict is Verdict.FAULT, (found.only, found.open)
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
