"""Witnesses in which a copy must have landed for the event that they are about to run."""

from __future__ import annotations

import pytest

from xttir.analyses.build import Agent, Kernel
from xttir.analyses.schedules import replay
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind


def meet(*agents: Agent) -> None:
    for agent in agents:
        agent.cluster_arrive()
    for agent in agents:
        agent.cluster_wait()


@pytest.mark.parametrize("blocks", [[0, 1], [1]])
def test_a_copy_to_several_blocks_has_landed_for_who_waits_in_any_of_them(blocks: list[int]):
    """The consumer of block 1 waits for its part of the copy, and then arrives before that of
    block 0 has arrived twice, and completed the phase alone."""
    k = Kernel(threads=2, ctas=2, cluster=2)
    a, c = k.agent(0, 0), k.agent(0, 1)
    own, far = k.agent(1, 0), k.agent(1, 1)
    full, empty = k.barrier("full"), k.barrier("empty")
    x, g = k.shared("x", 32), k.tensor("g", 32)
    for agent in (a, c):
        agent.init(full, 1)
        agent.init(empty, 2)
    meet(a, c, own, far)
    for agent, block in ((a, 0), (c, 1)):
        agent.arrive(full, expect=32 if block in blocks else 0)
    a.copy(x, g, full.of(1) if blocks == [1] else full, multicast=blocks)
    own.arrive(empty.of(0))
    own.arrive(empty.of(0))
    far.wait(full, 0)
    far.read(x)
    far.arrive(empty.of(0))
    meet(a, c, own, far)
    trace = k.trace()
    faults = [f for f in verify_trace(trace).faults if f.kind is Kind.PHASE]
    assert faults
    for fault in faults:
        assert {"complete": {"lane": 0, "op": 0}} in fault.witness["steps"]
        assert replay(trace, fault.witness).findings, fault.message
