"""Tensor maps made on the device: each needs an acquire of its own before it is used."""

from dataclasses import replace

import numpy as np
import pytest

from xttir.analyses import events as ev
from xttir.analyses.assumptions import choices
from xttir.analyses.build import Agent, Kernel, Region
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Verdict


def fence(agent: Agent, sem: Sem, *maps: Region) -> None:
    """`maps`: one for all lanes, or one for each."""
    address = np.array([m.start for m in maps], np.int64) if maps else None
    if address is not None:
        address = np.broadcast_to(address, agent.lanes.shape)
    ins = agent.kernel.instruction(f"fence.proxy.tensormap::generic.{sem.value}")
    spaces = frozenset({Space.GLOBAL})
    agent.kernel.events.append(
        ev.ProxyFence(ins, agent.lanes, Proxy.TENSORMAP, spaces, sem, Scope.GPU, address)
    )


def load(agent: Agent, *maps: Region) -> None:
    """A tensor copy that uses a map; nothing else of it matters here."""
    print_ = agent.footprint(list(maps) * (len(agent.lanes) // len(maps)), Mode.READ)
    print_ = replace(print_, proxy=Proxy.TENSORMAP)
    ins = agent.kernel.instruction("cp.async.bulk.tensor")
    agent.kernel.events.append(ev.AsyncOp(ins, agent.lanes, "bulk", 1, (print_,), ev.ByGroup()))
    agent.commit_group("bulk")
    agent.wait_group(engine="bulk")


def verdict(k: Kernel) -> set[Kind] | Verdict:
    report = verify_trace(k.trace())
    return {f.kind for f in report.faults} or report.verdict


@pytest.mark.parametrize("named", ["both", "first", "second", "neither"])
def test_each_map_needs_its_own_acquire(named: str):
    k = Kernel(threads=64)
    maps = k.tensor("first", 128), k.tensor("second", 128)
    a, b = k.agent(0), k.agent(32)
    for m in maps:
        a.write(m)
    fence(a, Sem.RELEASE)
    k.everybody().sync()
    for m, name in zip(maps, ("first", "second"), strict=True):
        if named in (name, "both"):
            fence(b, Sem.ACQUIRE, m)
    load(b, *maps[:1])
    load(b, *maps[1:])
    assert verdict(k) == (Verdict.VERIFIED if named == "both" else {Kind.PROXY})


@pytest.mark.parametrize("released", [True, False])
def test_the_release_comes_first(released: bool):
    k = Kernel(threads=64)
    m = k.tensor("map", 128)
    a, b = k.agent(0), k.agent(32)
    a.write(m)
    if released:
        fence(a, Sem.RELEASE)
    k.everybody().sync()
    fence(b, Sem.ACQUIRE, m)
    load(b, m)
    assert verdict(k) == (Verdict.VERIFIED if released else {Kind.PROXY})


@pytest.mark.parametrize("swapped", [True, False])
def test_lanes_that_name_different_maps(swapped: bool):
    """Two threads of different warps, one event: each uses its own map, or that of the other."""
    k = Kernel(threads=64)
    maps = [k.tensor("first", 128), k.tensor("second", 128)]
    a, both = k.agent(0), k.agent([1, 32])
    for m in maps:
        a.write(m)
    fence(a, Sem.RELEASE)
    k.everybody().sync()
    fence(both, Sem.ACQUIRE, *maps)
    load(both, *(maps[::-1] if swapped else maps))
    assert verdict(k) == ({Kind.PROXY} if swapped else Verdict.VERIFIED)


@pytest.mark.parametrize("right", [True, False])
def test_clusters_with_maps_of_their_own(right: bool):
    """Two blocks that do the same with different maps are one class; the second one may name the
    wrong map."""
    k = Kernel(threads=32, ctas=2)
    maps = [k.tensor("first", 128), k.tensor("second", 128)]
    makers = Agent(k, np.array([0, 32], np.int32))
    makers.write(maps)
    fence(makers, Sem.RELEASE)
    fence(makers, Sem.ACQUIRE, maps[0], maps[1 if right else 0])
    load(makers, *maps)
    assert verdict(k) == (Verdict.VERIFIED if right else {Kind.PROXY})


def test_dependent_grids_are_assumed():
    texts = ["griddepcontrol.wait;", "griddepcontrol.launch_dependents;"]
    assert len(choices([ev.Source(t, ()) for t in texts])) == 2
    assert choices([ev.Source("ret;", ())]) == []
