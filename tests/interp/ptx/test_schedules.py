"""Schedules: random ones repeat themselves, a witness lets lanes and operations go as it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address
from xttir.diagnostics import InputError

RACE = (
    "setp.ne.u32 %p1, %r0, 0; @%p1 bra other; st.global.u32 [%a0], 1; ret;"
    "other: st.global.u32 [%a0], 2; ret;"
)
COPY = (
    ".shared .align 16 .b8 tile[16]; setp.ne.u32 %p1, %r0, 0; @%p1 bra out; mov.u32 %r1, tile;"
    "st.shared.u32 [tile], 77; cp.async.ca.shared.global [%r1], [%a0], 4; cp.async.commit_group;"
    "ld.shared.u32 %r2, [tile]; cp.async.wait_group 0; ld.shared.u32 %r3, [tile];"
    "st.global.v2.u32 [%a1], {%r2, %r3}; out: ret;"
)


def test_a_random_schedule_repeats_itself() -> None:
    body = "atom.global.add.u32 %r1, [%a0], 1;"
    body += f"{address('%rd1', base='%a1')} st.global.u32 [%rd1], %r1; ret;"
    kernel = Kernel(body, {"n": np.zeros(1, np.uint32), "out": ("u32", 128)}, threads=128)
    outs = [kernel.values("out", f"random:{seed}").tolist() for seed in (1, 1, 2, 3, 4)]
    assert outs[0] == outs[1]
    assert any(out != outs[0] for out in outs[2:])
    assert all(sorted(out) == list(range(128)) for out in outs)


@pytest.mark.parametrize(("first", "value"), [(0, 2), (1, 1)])
def test_a_witness_orders_lanes(first: int, value: int, tmp_path: Path) -> None:
    lanes = [[0, 0], [1, 1]] if first == 0 else [[1, 1], [0, 0]]
    schedule = {"steps": [{"lanes": pair, "events": 1} for pair in lanes]}
    kernel = Kernel(RACE, {"out": ("u32", 1)}, threads=2)
    assert kernel.run(schedule).tensors["out"].tolist() == [value]
    path = tmp_path / "witness.json"
    path.write_text(json.dumps(schedule))
    assert kernel.run(str(path)).tensors["out"].tolist() == [value]


def test_a_witness_says_when_a_copy_lands() -> None:
    kernel = Kernel(COPY, {"a": np.array([5], np.uint32), "out": ("u32", 2)})
    late = {"steps": [{"lanes": [0, 0], "events": 6}]}
    early = {
        "steps": [
            {"lanes": [0, 0], "events": 2},
            {"complete": {"lane": 0, "op": 0}},
            {"lanes": [0, 0], "events": 4},
        ]
    }
    assert kernel.run(late).tensors["out"].tolist() == [77, 5]
    assert kernel.run(early).tensors["out"].tolist() == [5, 5]
    assert kernel.run("adversarial").tensors["out"].tolist() == [77, 5]
    assert kernel.run("first").tensors["out"].tolist() == [5, 5]


def test_rounds_of_a_loop_that_waits_are_no_events_of_a_witness() -> None:
    body = (
        "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p9, %r9, 1; @%p9 bra writer;"
        "again: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"
        "st.global.u32 [%a1], 1; st.global.u32 [%a1], 2; ret;"
        "writer: st.release.gpu.global.u32 [%a0], 1; st.global.u32 [%a1], 3; ret;"
    )
    tensors = {"flag": np.zeros(1, np.uint32), "out": ("u32", 1)}
    kernel = Kernel(body, tensors, threads=1, blocks=2)
    steps = [
        {"lanes": [0, 0], "events": 2},
        {"lanes": [1, 1], "events": 1},
        {"lanes": [1, 1], "events": 1},
        {"lanes": [0, 0], "events": 1},
    ]
    assert kernel.run({"steps": steps}).tensors["out"].tolist() == [2]
    steps = [{"lanes": [0, 0], "events": 3}, {"lanes": [1, 1], "events": 1}]
    assert kernel.run({"steps": steps}).tensors["out"].tolist() == [3]


@pytest.mark.parametrize("text", ["nothing.json", '{"steps": 3}', '{"steps": [{"lanes": [1]}]}'])
def test_bad_schedules(text: str, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    if text.startswith("{"):
        path.write_text(text)
    with pytest.raises(InputError):
        Kernel(RACE, {"out": ("u32", 1)}).run(str(path))
