"""Volatile accesses to shared memory order nothing: data passed between lanes needs a barrier."""

import pytest

from xttir.analyses.build import Kernel
from xttir.analyses.events import Mode, Sem
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind


@pytest.mark.parametrize("synced", [False, True])
def test_lanes_in_step(synced: bool):
    k = Kernel(threads=32)
    word, warp = k.shared("word", 4), k.everybody()
    for lane in (0, 1):
        k.agent(lane).access(word, Mode.WRITE, sem=Sem.VOLATILE)
        if synced:
            warp.warp_sync()
        warp.access(word, Mode.READ, sem=Sem.VOLATILE)
        if synced:
            warp.warp_sync()
    found = {f.kind for f in verify_trace(k.trace()).faults}
    assert found == (set() if synced else {Kind.RACE})
