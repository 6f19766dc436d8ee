"""Contents of memory that a launch seldom has: the launch once more, with other numbers in it.

Floats: some become NaN, infinities, zeros. Integers that are asked for a certain number, such as a
class to ignore: some become that number, so that what is done then is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xttir.interp.launch import ScalarArg, Storage
from xttir.interp.types import is_float
from xttir.refine.slices import Decisions
from xttir.refine.world import Case, moved_to, tensor_of

SPARSE = 509
"""Of so many floats one is changed."""

OFTEN = 3
"""Of so many integers one is changed."""

UNUSUAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0)

MOST = 4
"""Cases made with other integers."""


def floats(case: Case, seed: int = 0) -> list[Case]:
    """`case` with unusual floats; nothing where there are no floats."""
    rng = np.random.default_rng((seed, 0))

    def put(position: int, values: np.ndarray) -> bool:
        if not is_float(values.dtype) or not values.size:
            return False
        at = rng.integers(0, values.size, -(-values.size // SPARSE))
        with np.errstate(all="ignore"):
            values[at] = rng.choice(np.array(UNUSUAL, np.float32), at.size).astype(values.dtype)
        return True

    return _changed(case, "NaN, infinity and zero among the floats", put)


def integers(case: Case, decisions: Decisions) -> list[Case]:
    """`case` with numbers in its integer tensors that the kernel looks for there, one number in
    each case. On some of them the kernel may be undefined."""
    wanted: dict[int, list[int]] = {}
    for position, met in decisions.met.items():
        tensor = tensor_of(case.arguments[position]) if position < len(case.arguments) else None
        if tensor is None:
            continue
        scalars = [case.arguments[n] for n in sorted(met.parameters) if n < len(case.arguments)]
        numbers = [int(a.value) for a in scalars if isinstance(a, ScalarArg)]
        numbers += sorted(met.constants)
        wanted.setdefault(case.position(tensor.storage), []).extend(numbers)
    found: list[Case] = []
    for storage, numbers in wanted.items():
        for number in list(dict.fromkeys(numbers))[:MOST]:

            def put(n: int, values: np.ndarray, at: int = storage, number: int = number) -> bool:
                if n != at or values.dtype.kind not in "iu":
                    return False
                info = np.iinfo(values.dtype)
                if not info.min <= number <= info.max:
                    return False
                values[::OFTEN] = number
                return True

            found += _changed(case, f"{number} among the integers that are asked for it", put)
    return found[:MOST]


def _changed(case: Case, label: str, put: Callable[[int, np.ndarray], bool]) -> list[Case]:
    """`case` with memory that `put` has changed: it is given a position and the elements there, and
    says whether it has."""
    storages: dict[int, Storage] = {}
    for n, storage in enumerate(case.memory):
        storages[id(storage)] = storage
        tensors = case.tensors(n)
        if len({t.dtype for t in tensors}) != 1:
            continue
        dtype = tensors[0].dtype
        start = tensors[0].offset % dtype.itemsize
        count = (storage.bytes.size - start) // dtype.itemsize
        data = storage.bytes.copy()
        if put(n, data[start : start + count * dtype.itemsize].view(dtype)):
            storages[id(storage)] = replace(storage, bytes=data)
    memory = tuple(storages[id(s)] for s in case.memory)
    if all(new is old for new, old in zip(memory, case.memory, strict=True)):
        return []
    arguments = tuple(moved_to(a, storages) for a in case.arguments)
    return [replace(case, label=label, arguments=arguments, memory=memory, user=False)]
