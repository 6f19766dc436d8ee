"""Lanes of a warp that differ in plain accesses alone are one class, and races are found in it."""

from __future__ import annotations

import numpy as np
import pytest

from xttir.analyses.build import Kernel
from xttir.analyses.layout import lay_out
from xttir.analyses.project import project
from xttir.analyses.state import State
from xttir.analyses.verify import verify_trace

THREADS = 5


@pytest.mark.parametrize("seed", range(60))
def test_single_lanes_between_barriers(seed: int) -> None:
    """A pair races if it meets between two barriers; each pair of lines is reported."""
    random = np.random.default_rng(seed)
    k = Kernel(threads=THREADS)
    places = [k.shared(f"x{n}", 4) for n in range(3)]
    done: list[tuple[int, int, int, bool, int]] = []
    era = 0
    for _ in range(12):
        if random.random() < 0.4:
            k.everybody().sync() if random.random() < 0.5 else k.everybody().warp_sync(0x1F)
            era += 1
            continue
        lane, place, writes = (
            int(random.integers(THREADS)),
            int(random.integers(3)),
            random.random(),
        )
        agent = k.agent(lane)
        event = (agent.write if writes < 0.4 else agent.read)(places[place])
        done.append((era, lane, place, writes < 0.4, event.ins))
    wanted = {
        frozenset((a[4], b[4]))
        for a in done
        for b in done
        if a[0] == b[0] and a[1] != b[1] and a[2] == b[2] and (a[3] or b[3])
    }
    trace = k.trace()
    order = State(project(trace, 0, 1), lambda blocks: lay_out(blocks, None))
    assert len(order.classes.members) == 1
    line = {s.locations[0].line: i for i, s in enumerate(trace.instructions)}
    found = {frozenset(line[p.line] for p in f.locations) for f in verify_trace(trace).faults}
    assert found <= wanted
    assert bool(found) == bool(wanted)


@pytest.mark.parametrize("lanes", [(0, 1), (1, 0), (2, 1), (1, 3)])
def test_witness_of_a_pair_in_one_class(lanes: tuple[int, int]) -> None:
    """The later one runs first, after what is before it, whichever lanes of the class they are."""
    k = Kernel(threads=THREADS)
    x = k.shared("x", 4)
    k.everybody().sync()
    k.agent(lanes[0]).write(x)
    k.agent(lanes[1]).read(x)
    (fault,) = verify_trace(k.trace()).faults
    steps = fault.witness["steps"]
    assert steps[0] == {"lanes": [0, THREADS - 1], "events": 1}
    assert [s["lanes"][0] for s in steps[1:]] == [lanes[1], lanes[0]]
