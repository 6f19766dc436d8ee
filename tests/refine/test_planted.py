"""Every planted fault is detected, where it is expected, and its right twin is not."""

from __future__ import annotations

import pytest

from tests.refine.planted import Planted, all_planted
from xttir.refine.stages import Stage, validate

PLANTED = all_planted()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_planted_fault_is_found_at_its_stage(planted: Planted) -> None:
    stages = [
        Stage("", planted.source, file="source.mlir"),
        Stage("right", planted.right),
        Stage("wrong", planted.wrong),
    ]
    found = validate(stages)
    assert not found.unsupported
    assert [row.status for row in found.rows] == ["match", "match", "mismatch"]
    assert found.first is not None
    assert found.first.stage.name == "wrong"
    seen = {f.difference.what for f in found.findings} | (
        {"layout"} if found.first.layouts else set()
    )
    assert seen & set(planted.expected), (seen, [f.difference.message for f in found.findings])


def test_there_are_planted_faults() -> None:
    assert len(PLANTED) >= 25
