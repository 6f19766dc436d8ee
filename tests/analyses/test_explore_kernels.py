"""The explorer on the hand-written kernels, lanes that are alike stepping together.

Every verdict is right, without a happens-before graph. Registers of operations in flight and
faults that are only portability warnings are not the explorer's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import shared_root
from xttir.analyses.explore import explore
from xttir.analyses.explore_classes import collapse
from xttir.frontends.launch_description import load
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.trace import trace

LEFT_OUT = {
    "running_sm90_bug_no_wgmma_fence": "registers in flight",
    "running_sm100_bug_accumulate_first": "a wrong value, no fault of order",
    "cluster_sm90_bug_early_exit": "too many schedules for a fast test",
}
FAST = (
    "bulk_sm90",
    "cp_async_sm80",
    "generic_fill_sm90",
    "named_bar",
    "p_in_tmem_sm100",
    "running_sm100",
    "running_sm90",
    "ws_sm90",
)
"""Kernels, with all their faulty variants, of the fast run."""


def _cases() -> list:
    root = shared_root()
    if root is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no folder of shared cases"))]
    found = []
    for case in sorted((root / "cases" / "ptx").glob("*/expected.json")):
        name = case.parent.name
        if name not in LEFT_OUT:
            marks = () if name.startswith(FAST) else (pytest.mark.slow,)
            found.append(pytest.param(case.parent, id=name, marks=marks))
    return found


@pytest.mark.parametrize("case", _cases())
def test_kernel(case: Path):
    expected = json.loads((case / "expected.json").read_text())
    kernel = case / "kernel.ptx"
    module = parse_ptx(kernel.read_text(), str(kernel))
    events = trace(module, load(str(case / "launch.json")))
    found = explore(events, collapse(events), max_states=20_000)
    faulty = expected["verdict"] == "fault" and expected.get("policy") != "strict"
    if expected.get("arguable"):
        assert found.exhausted
    elif faulty:
        assert found.findings
    else:
        assert found.clean, [f.message for f in found.findings]
