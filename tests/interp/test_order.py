"""Clocks of agents: arrays of epochs behave as a table of epochs by program and component does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from xttir.interp.mbarriers import MBarrier
from xttir.interp.order import NEVER, AgentClock, Components, Known, Stamp

BATCH = 3
COMPONENTS = [f"c{n}" for n in range(40)]
"""More than a clock begins with."""
AT = st.sampled_from([None, *(np.array(at) for at in ([0], [1, 2], [0, 1, 2]))])
NAMES = st.sampled_from(COMPONENTS[:3] + COMPONENTS[-3:])

Table = dict[tuple[str, int], int]


def programs(at: Any) -> list[int]:
    return list(range(BATCH)) if at is None else at.tolist()


def same(known: Known, table: Table) -> bool:
    return all(
        np.broadcast_to(known.get(name), BATCH)[k] == table.get((name, k), NEVER)
        for name in COMPONENTS
        for k in range(BATCH)
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_arrays_are_tables(data: st.DataObject) -> None:
    components = Components(BATCH)
    clocks, tables = [Known(components), Known(components)], [Table(), Table()]
    for _ in range(data.draw(st.integers(1, 12))):
        n = data.draw(st.integers(0, 1))
        known, table, at = clocks[n], tables[n], data.draw(AT)
        match data.draw(st.sampled_from(["see", "see", "each", "learn", "forget", "put"])):
            case "see":
                name, epoch = data.draw(NAMES), data.draw(st.integers(0, 4))
                known.see(name, epoch, at)
                table |= {(name, k): max(table.get((name, k), NEVER), epoch) for k in programs(at)}
            case "each":
                name = data.draw(NAMES)
                epochs = np.array([data.draw(st.integers(0, 4)) for _ in programs(at)])
                known.see(name, epochs, at)
                for k, epoch in zip(programs(at), epochs.tolist(), strict=True):
                    table[name, k] = max(table.get((name, k), NEVER), epoch)
            case "learn":
                known.learn(clocks[1 - n], at)
                for (name, k), epoch in tables[1 - n].items():
                    if k in programs(at):
                        table[name, k] = max(table.get((name, k), NEVER), epoch)
            case "put":
                name, epoch = data.draw(NAMES), data.draw(st.integers(0, 4))
                known.put(name, epoch)
                table |= {(name, k): epoch for k in range(BATCH)}
            case _:
                at = np.array([0]) if at is None else at
                known.forget(at)
                for name, k in list(table):
                    if k in programs(at):
                        del table[name, k]
        at = data.draw(AT)
        assert all(same(k, t) for k, t in zip(clocks, tables, strict=True))
        assert clocks[0].holds(clocks[1], at) is all(
            tables[0].get(place, NEVER) >= epoch
            for place, epoch in tables[1].items()
            if place[1] in programs(at)
        )


def test_what_is_published_is_not_what_comes_after() -> None:
    first = AgentClock("first", BATCH)
    second = AgentClock("second", BATCH, first.publish(None))
    before = first.now()
    told = first.publish(np.array([1]))
    after = first.now()
    assert second.ordered(before) is False
    second.learn(told, None)
    assert second.ordered(before) is True
    assert np.asarray(second.ordered(after)).tolist() == [True, False, True]
    assert not np.any(first.ordered(Stamp("second", 0)))


def test_who_closed_a_phase_for_some_programs_need_not_know_the_rest_of_it() -> None:
    """An update that completes a phase knows the phase only if it knows of all other updates, for
    the programs whose phase that is."""
    components = Components(2)
    barrier = MBarrier("b", ModuleOp([]), components)
    agents = [AgentClock(name, 2, Known(components)) for name in ("one", "two")]
    barrier.init(2, agents[0].now(), None)
    at = np.array([0])
    barrier.update(1, 0, agents[0].publish(at), at)
    last = agents[1].publish(at)
    barrier.update(1, 0, last, at)
    assert np.asarray(barrier.phase).tolist() == [1, 0]
    assert not barrier.alone(last, at)
    last.see("one", 0, at)
    assert barrier.alone(last, at)
