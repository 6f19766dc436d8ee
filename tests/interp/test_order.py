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
EVERYONE = 0b111
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
                epochs = {k: data.draw(st.integers(0, 4)) for k in programs(at)}
                known.see(name, tuple((1 << k, epoch) for k, epoch in epochs.items()), at)
                for k, epoch in epochs.items():
                    table[name, k] = max(table.get((name, k), NEVER), epoch)
            case "learn":
                known.learn(clocks[1 - n].within(components.who(at)))
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
    second = first.fork("second", None)
    before = first.now()
    told = first.publish(np.array([1]))
    after = first.now()
    assert second.unordered(before, EVERYONE) == EVERYONE
    second.learn(told)
    assert second.unordered(before, EVERYONE) == 0b101
    assert second.unordered(after, EVERYONE) == EVERYONE
    second.learn(first.publish(np.array([0, 2])))
    assert second.unordered(before, EVERYONE) == 0
    assert second.unordered(after, EVERYONE) == 0b010
    assert second.unordered(after, 0b001) == 0
    assert first.unordered(Stamp("second", 0), EVERYONE) == EVERYONE


def test_who_closed_a_phase_for_some_programs_need_not_know_the_rest_of_it() -> None:
    """An update that completes a phase knows the phase only if it knows of all other updates, for
    the programs whose phase that is."""
    components = Components(2)
    barrier = MBarrier("b", ModuleOp([]), components)
    agents = [AgentClock(name, 2, Known(components)) for name in ("one", "two")]
    barrier.init(2, agents[0].now(), None)
    at = np.array([0])

    def arrive(agent: AgentClock) -> np.ndarray:
        ((_, released),) = agent.publish(at)
        ((_, state),) = barrier.changed(0b01)
        state.update(1, 0, released)
        return released

    arrive(agents[0])
    released = arrive(agents[1])
    assert [barrier.seen(who)[0][1].phase for who in (0b01, 0b10)] == [1, 0]
    state = barrier.seen(0b01)[0][1]
    assert not state.alone(released)
    agents[1].see("one", 0, at)
    assert state.alone(agents[1].known.within(0b01)[0][1])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_groups_of_programs_commit_and_wait_as_each_would(data: st.DataObject) -> None:
    clock = AgentClock("agent", BATCH)
    engine = clock.engine("copies")
    committed, done = [0] * BATCH, [NEVER] * BATCH
    for _ in range(data.draw(st.integers(1, 10))):
        at = data.draw(AT)
        if data.draw(st.booleans()):
            engine.commit(at)
            for k in programs(at):
                committed[k] += 1
        else:
            outstanding = data.draw(st.integers(0, 2))
            engine.wait(outstanding, at)
            for k in programs(at):
                done[k] = max(done[k], committed[k] - outstanding - 1)
        known = np.broadcast_to(clock.known.get(engine.component), BATCH)
        assert known.tolist() == done
        late = clock.unordered(engine.stamp(), EVERYONE)
        assert late == sum((done[k] < committed[k]) << k for k in range(BATCH))
