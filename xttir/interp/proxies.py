"""Which generic writes of shared memory asynchronous operations see.

Tensor cores and bulk copies read shared memory through the async proxy. They see what an agent has
stored in the ordinary way only if a proxy fence came after the store (PTX ISA, memory consistency
model, proxies). What is fenced is known like everything else, by epochs: the component
`fences_of(agent)` of a clock says up to which epoch the agent's stores are.
"""

from __future__ import annotations

from collections.abc import Hashable

from xttir.interp.cells import Access
from xttir.interp.machine import Machine
from xttir.interp.order import Stamp


def fences_of(agent: Hashable) -> Hashable:
    """The component that counts the fenced epochs of `agent`."""
    return (agent, "fenced")


def fence(m: Machine) -> None:
    """A proxy fence by the agent of `m`: for the stores it has made, and for those of others that
    are ordered before it."""
    clock, at = m.clock, m.positions()
    for component in list(clock.components.rows):
        if is_agent(component):
            for who, epoch in clock.known.epochs(component, at):
                clock.known.see_for(fences_of(component), epoch, who)
    clock.publish(at)


def is_agent(component: Hashable) -> bool:
    """Whether `component` is an agent, whose stores go through the generic proxy."""
    from xttir.interp.agents import AgentId

    return isinstance(component, AgentId | str)


def side_by_side(component: Hashable, other: Hashable) -> bool:
    """Whether two agents are different partitions of one op. Between what they do Triton's compiler
    puts no proxy fence; within one of them, and to and from what surrounds the op, it does
    (`triton-gpu-proxy-fence-insertion`, on the way to LLVM)."""
    from xttir.interp.agents import AgentId

    if not isinstance(component, AgentId) or not isinstance(other, AgentId):
        return False
    return component.serial == other.serial and component != other


def fenced_as(access: Access) -> Stamp | None:
    """What an agent must have seen so that operations which it issues then see what `access` did;
    None if that is no generic write."""
    component, epoch = access.stamp
    if access.kind != "write" or not is_agent(component):
        return None
    return Stamp(fences_of(component), epoch)
