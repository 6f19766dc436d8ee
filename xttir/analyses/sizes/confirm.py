"""From a model of a question to a launch, and to what the interpreter finds when it runs it.

Only what a run shows is a fault: a model may rest on a product or on data that the solver was free
to choose. Sizes are asked for as small as they can be; where they must be large (offsets that
wrap), memory is reserved but never touched, and only the programs that matter are run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from xttir.analyses.sizes.contract import GENERAL, Contract, TensorFacts
from xttir.analyses.sizes.deadline import check_now
from xttir.analyses.sizes.questions import Question, loaded
from xttir.analyses.sizes.solver import (
    Answer,
    Budget,
    Fact,
    Values,
    decide,
    decide_for,
    number_of,
    shared_symbols,
)
from xttir.analyses.sizes.terms import (
    And,
    AtMost,
    Cond,
    Leaf,
    Not,
    Opaque,
    Symbol,
    Term,
    Zero,
    at_most,
    condition_leaves,
    less,
    rename_condition,
    term_of,
)
from xttir.diagnostics import Fault, Kind, Unsupported, XttirError
from xttir.dialects.locations import location_of
from xttir.interp.launch import (
    Argument,
    DescriptorArg,
    Launch,
    LaunchResult,
    Storage,
    TensorArg,
)
from xttir.policy import RunPolicy

SCALES = (16, 128, 2048, 1 << 17, None)
"""Upper bounds of sizes, tried in turn: people read small launches better."""

MOST_BYTES = 12 << 30
"""Memory that a confirming launch may reserve."""

MOST_PROGRAMS = 4096
"""Programs up to which a confirming launch is run whole."""


@dataclass(eq=False)
class Witness:
    """A launch that shows a fault: `sizes` are its numbers, `faults` what running it reported."""

    sizes: dict[str, int]
    grid: tuple[int, int, int]
    faults: list[Fault]


def confirm(
    contract: Contract,
    question: Question,
    facts: Sequence[Fact],
    pids: tuple[Symbol, ...],
    loads: dict[tuple[object, ...], str],
    budget: Budget,
) -> Witness | None:
    """A launch that the contract allows and in which `question` goes wrong, if one is found.

    `loads`: as for `questions.ask`. Integers in memory are those of the launch; others only where
    words say what they may be, and the order of programs does not rest on them.
    """
    launch = contract.launch
    if launch is None:
        return None
    # First the launch itself; others only if the launch says what determines their numbers.
    answers = iter([decide_for(question.bad, facts, contract.values, min(2.0, budget.left()))])
    spoken = shared_symbols((*question.bad, *(f.condition for f in facts)))
    read = loaded(question.bad, loads)
    found = frozenset[Leaf]().union(*map(condition_leaves, question.bad))
    others = {a for a in found if not isinstance(a, Symbol) and a not in read}
    said = set(read.values()) <= contract.declared and question.kind is not Kind.RACE
    free = (not read or said) and not (others and loads)
    if contract.guessed.isdisjoint(spoken) and free:
        answers = chain(answers, _others(contract, question, facts, budget))
    for answer in answers:
        if answer.model is not None:
            numbers = {read[a]: n for a, n in answer.model.items() if a in read} if free else {}
            found = _run(contract, launch, question, answer.model, pids, numbers)
            if found is not None:
                return found
    return _pooled(contract, launch, question, read, pids, budget)


def _pooled(
    contract: Contract,
    launch: Launch,
    question: Question,
    read: dict[Opaque, str],
    pids: tuple[Symbol, ...],
    budget: Budget,
) -> Witness | None:
    """The launch as it is, but with a longer pool, where data of the launch names places in it.

    Pages of a cache and rows of a table are named by data, and no argument says how many there
    are: offsets that are computed from them must be right wherever they lead to inside the pool.
    """
    (access,) = question.accesses if len(question.accesses) == 1 else (None,)
    pool = contract.tensors.get(access.base) if access is not None else None
    if access is None or pool is None or question.kind is not Kind.INT_OVERFLOW or not pool.shape:
        return None
    # A size of its own, that is: no argument gives it.
    own = {s for s in contract.values if s.name == f"{access.base}.shape[0]"}
    names = set(read.values())
    if (
        not own
        or access.base in names
        or names & contract.declared
        or not _scaled(question, read, pool)
    ):
        return None
    short = contract.short.get(access.base)
    facts = [f for f in contract.facts if f.level == GENERAL and f is not short]
    pinned = {s: n for s, n in contract.values.items() if s not in own}
    inside = [at_most(0, access.offset), less(access.offset, pool.length)]
    inside += [at_most(0, term_of(a)) for a in read]
    longer = {s: replace(s, high=MOST_BYTES) for s in own}
    seen: dict[object, object] = {}

    def mark(atom: Symbol | Opaque) -> Symbol | None:
        return longer.get(atom) if isinstance(atom, Symbol) else None

    asked = [rename_condition(c, mark, seen) for c in (*question.bad, *inside)]
    facts = [Fact(f.text, rename_condition(f.condition, mark, seen), f.level) for f in facts]
    model = decide_for(asked, facts, pinned, budget.left() / 4).model
    if model is None:
        return None
    model |= {s: model[t] for s, t in longer.items() if t in model}
    numbers = {read[a]: n for a, n in model.items() if a in read}
    return _run(contract, launch, question, model, pids, numbers)


def _scaled(question: Question, read: dict[Opaque, str], pool: TensorFacts) -> bool:
    """Whether loaded integers are multiplied with a number that the shape of the pool does not
    give: rows of a table have its width, and then it is as long as other tensors are."""
    given = {a for size in pool.shape for a in size.atoms()}
    return any(
        any(a in read for a in monomial)
        and any(isinstance(a, Symbol) and a not in given for a in monomial)
        for c in question.bad
        for term in _comparisons(c)
        for monomial in term.parts
    )


def _comparisons(c: Cond) -> Iterator[Term]:
    """The terms that a condition compares."""
    if isinstance(c, AtMost | Zero):
        yield c.term
    elif isinstance(c, Not):
        yield from _comparisons(c.inner)
    elif isinstance(c, And):
        for part in c.parts:
            yield from _comparisons(part)


def _others(
    contract: Contract, question: Question, facts: Sequence[Fact], budget: Budget
) -> Iterator[Answer]:
    """Models at other sizes, the smallest first."""
    for scale in SCALES:
        limits: list[Cond] = []
        if scale is not None:
            limits = [at_most(term_of(s), scale) for s in contract.values]
        if budget.left() > 0:
            yield decide(
                (*question.bad, *contract.agree, *limits), facts, budget, contract.values, 1.0
            )


def _run(
    contract: Contract,
    launch: Launch,
    question: Question,
    model: Values,
    pids: tuple[Symbol, ...],
    numbers: dict[str, int],
) -> Witness | None:
    values = {s: model.get(s, n) for s, n in contract.values.items()}
    built = build(contract, launch, values, numbers)
    if built is None:
        return None
    gx, gy, _ = built.grid
    programs: set[int] = set()
    for mark in ("", "'"):
        x, y, z = (model.get(replace(p, name=p.name + mark), 0) for p in pids)
        programs.add(x + gx * (y + gy * z))
    if math.prod(built.grid) > MOST_PROGRAMS:
        built = replace(built, programs=tuple(sorted(programs)))
    result = run_quietly(built)
    if result is None:
        return None
    wanted = {location_of(a.op) for a in question.accesses}
    kinds = {question.kind}
    if question.kind is Kind.INT_OVERFLOW and all(t.bounded for t in contract.tensors.values()):
        kinds |= {Kind.OUT_OF_BOUNDS}
    shown = [
        f
        for f in result.faults
        if f.kind in kinds and any(_same_place(at, w) for at in f.locations for w in wanted)
    ]
    if not shown:
        return None
    sizes = {s.name: n for s, n in values.items()}
    sizes |= {f"every value of {name}": n for name, n in numbers.items()}
    return Witness(sizes, built.grid, shown)


def _same_place(a: Any, b: Any) -> bool:
    return a.file == b.file and a.line == b.line


def run_quietly(launch: Launch) -> LaunchResult | None:
    """Run a launch with all checks; None if it does not run. Raises OutOfTime at an access."""
    from xttir.interp.executor import run_launch

    def watch(*_: object) -> None:
        check_now()

    launch = replace(launch, observer=watch)
    try:
        return run_launch(launch, replace(RunPolicy(), max_steps=20_000))
    except (XttirError, Unsupported, MemoryError, OverflowError):
        return None


def build(
    contract: Contract, launch: Launch, values: dict[Symbol, int], numbers: dict[str, int]
) -> Launch | None:
    """The launch with these numbers; None if they make none. `numbers`: by tensor, what all of its
    integers shall be."""
    grid = [number_of(g, values) for g in contract.grid]
    if any(g is None or g < 1 for g in grid):
        return None
    storages: dict[str, TensorArg] = {}
    total = 0
    for name, tensor in contract.tensors.items():
        made = _tensor(tensor, values, contract.data.get(name), numbers.get(name))
        if made is None:
            return None
        storages[name] = made
        total += len(made.storage.bytes)
    if total > MOST_BYTES:
        return None
    arguments: list[Argument] = []
    for n, argument in enumerate(launch.arguments):
        name = contract.names[n]
        base = contract.bases.get(name, name)
        if isinstance(argument, TensorArg):
            arguments.append(replace(storages[base], name=argument.name))
        elif isinstance(argument, DescriptorArg):
            tensor = storages[base]
            arguments.append(
                replace(argument, tensor=tensor, shape=tensor.shape, strides=tensor.strides)
            )
        elif name in contract.scalars:
            number = number_of(contract.scalars[name], values)
            if number is None:
                return None
            arguments.append(replace(argument, value=number))
        else:
            arguments.append(argument)
    gx, gy, gz = (int(g or 1) for g in grid)
    return replace(launch, grid=(gx, gy, gz), arguments=tuple(arguments))


def _tensor(
    facts: TensorFacts, values: dict[Symbol, int], data: np.ndarray | None, number: int | None
) -> TensorArg | None:
    """A tensor of its own storage: zeros, or `data` if it has that size, or `number` everywhere."""
    argument = facts.argument
    assert argument is not None

    def size_of(term: Term) -> int:
        found = number_of(term, values)
        if found is None or found < 0:
            raise ValueError
        return found

    try:
        shape = tuple(size_of(d) for d in facts.shape)
        strides = tuple(size_of(s) for s in facts.strides)
        length = size_of(facts.length)
    except ValueError:
        return None
    size = argument.dtype.itemsize
    if length * size > MOST_BYTES:
        return None
    memory = np.zeros(max(1, length) * size, np.uint8)[: length * size]
    if number is not None:
        memory.view(argument.dtype)[:] = number
    elif data is not None and len(data) == len(memory):
        memory[:] = data
    storage = Storage(memory, _address(length * size))
    return TensorArg(argument.name, storage, 0, shape, strides, argument.dtype, argument.device)


_next_address = 1 << 44


def _address(size: int) -> int:
    """A place of its own for each tensor, far from its neighbours."""
    global _next_address
    found = _next_address
    _next_address += (size + (1 << 20)) // 512 * 512 + 512
    return found
