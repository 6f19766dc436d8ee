"""The correct hand-written kernels give their reference's values along every schedule tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import shared_root
from xttir.frontends.launch_description import compare, load, materialise, reference
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx import run
from xttir.interp.ptx.trace import trace

pytest.importorskip("torch")

SCHEDULES = ["first", "adversarial", *(f"random:{seed}" for seed in range(20))]


def _correct() -> list[Path]:
    root = shared_root()
    if root is None:
        return []
    folders = sorted((root / "cases/ptx").glob("*/expected.json"))
    return [f.parent for f in folders if json.loads(f.read_text())["verdict"] == "verified"]


@pytest.mark.parametrize("case", _correct(), ids=lambda p: p.name)
def test_values_along_schedules(case: Path) -> None:
    module = parse_ptx((case / "kernel.ptx").read_text(), str(case / "kernel.ptx"))
    launch = load(case / "launch.json")
    before = materialise(launch)
    expected = reference(launch, before)
    few = launch.threads * launch.blocks > 512
    for schedule in SCHEDULES[:7] if few else SCHEDULES:
        after = run(module, launch, schedule, before)
        assert not after.faults, (schedule, [f.message for f in after.faults])
        wrong = [d for d in compare(launch, after.tensors, expected) if not d.ok]
        assert not wrong, (schedule, wrong)


@pytest.mark.parametrize("case", _correct(), ids=lambda p: p.name)
def test_traces_are_complete(case: Path) -> None:
    module = parse_ptx((case / "kernel.ptx").read_text(), str(case / "kernel.ptx"))
    found = trace(module, load(case / "launch.json"))
    assert not found.blocked
    assert not found.faults
