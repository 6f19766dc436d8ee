"""Mutants are what they say, and the verifier misses none (`python -m tests.mutation`: all)."""

from __future__ import annotations

import pytest

from tests.conftest import shared_root
from tests.mutation.__main__ import kernels
from tests.mutation.mutants import mutants
from tests.mutation.score import HandWritten, score

KERNEL = """
	mbarrier.init.shared::cta.b64 [%r1], 1;
	bar.sync 0;
	@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r5;
	mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], 0;
	cp.async.wait_group 0;
	ld.shared.u32 %r2, [%r1];
"""


def test_mutants():
    found = [(m.line, m.what) for m in mutants(KERNEL)]
    assert found == [
        (2, "one more expected by"),
        (3, "delete"),
        (4, "delete"),
        (4, "+1 bytes in"),
        (4, "-1 bytes in"),
        (4, "+16 bytes in"),
        (4, "-16 bytes in"),
        (5, "delete"),
        (5, "flip the parity of"),
        (6, "delete"),
        (6, "one group more pending after"),
    ]


def test_a_deleted_wait_leaves_a_true_predicate():
    (wait,) = [m for m in mutants(KERNEL) if m.line == 5 and m.what == "delete"]
    assert "setp.eq.u32 p, 0, 0;" in wait.text
    assert "try_wait" not in wait.text


def test_a_number_in_a_register_is_changed_in_another():
    (more,) = [m for m in mutants(KERNEL) if m.what == "+16 bytes in"]
    assert "add.s32 %mutant, %r5, 16;" in more.text
    assert "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %mutant;" in more.text


def _kernels() -> list:
    root = shared_root()
    if root is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no folder of shared cases"))]
    fast = ("bulk_sm90", "generic_fill_sm90")
    return [
        pytest.param(p, id=p.name, marks=() if p.name in fast else (pytest.mark.slow,))
        for p in kernels(root)
    ]


@pytest.mark.parametrize("kernel", _kernels())
def test_no_mutant_is_missed(kernel: HandWritten):
    result = score(kernel)
    print(f"\n{result}")
    assert result.outcomes
    fine = ("reported", "warned", "redundant")
    assert not [(str(m), word, why) for m, word, why in result.outcomes if word not in fine]
