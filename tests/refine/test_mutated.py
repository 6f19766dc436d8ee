"""Wrong versions of what Triton's passes make are found; right ones are no finding."""

from __future__ import annotations

import pytest

from tests.refine.mutated import Change, all_changes
from xttir.refine.stages import Stage, validate
from xttir.refine.status import MATCH, MISMATCH

CHANGES = list(all_changes())


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c.module}-{c.what}")
def test_a_change_is_found_where_it_changes_the_meaning(change: Change) -> None:
    stages = [
        Stage("", change.source, file="source.mlir"),
        Stage("", change.target, file="target.mlir"),
    ]
    found = validate(stages)
    assert not found.unsupported
    assert found.cases
    assert (found.rows[1].status != MISMATCH) == change.right, found.rows[1].findings


def test_there_are_changes_of_both_kinds() -> None:
    assert sum(not c.right for c in CHANGES) >= 75
    assert sum(c.right for c in CHANGES) >= 15


@pytest.mark.parametrize(
    ("name", "status"), [("canonicalize", MATCH), ("triton-nvidia-gpu-fence-insertion", MISMATCH)]
)
def test_fences_between_partitions_are_due_when_their_pass_has_run(name: str, status: str) -> None:
    change = next(c for c in CHANGES if c.what == "fence between partitions dropped")
    other = change.target.replace("dense<1.0>", "dense<1.000000e+00>")
    stages = [Stage("", change.target), Stage("first", other), Stage(name, change.target)]
    found = validate(stages)
    assert not found.unsupported
    assert found.cases
    assert found.rows[2].status == status
