"""Inputs of a kernel that can be used again and again: every run gets its own copy of memory.

A `Case` is a launch without a module: grid, arguments, and the storages they point into, as they
are before the launch. Copies keep the addresses that kernels see, so that pointers in memory and
comparisons of addresses mean the same in every run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from xttir.dialects import tt
from xttir.interp.launch import (
    Argument,
    DescriptorArg,
    Launch,
    Observer,
    ScalarArg,
    Storage,
    TensorArg,
    ValueArg,
)
from xttir.interp.tt_memory import shape_of_descriptor


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs of one kernel.

    `arguments`: as the kernel's source has them, one per parameter; descriptors whole.
    `memory`: every storage that may be reached, the arguments' own first; never run on.
    `label`: what distinguishes it, such as "m=1, n=0". `user`: whether a launch of the user's, not
    one that was generated. `tight`: buffers end where the source's accesses end.
    """

    label: str
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    memory: tuple[Storage, ...]
    user: bool = False
    tight: bool = False
    launch: Launch | None = None
    values: tuple[tuple[str, int | float], ...] = ()
    """Of a generated case: the scalars that were chosen."""
    number: int = 0
    """Of a generated case: what the rest was drawn with."""

    def scalars(self) -> dict[str, int | float]:
        """Values of the scalar arguments by name."""
        return {a.name: a.value for a in self.arguments if isinstance(a, ScalarArg)}

    def describe(self) -> str:
        """Grid and scalars: "grid (1, 1, 1), m=1, n=0"."""
        parts = [f"grid {self.grid}"]
        parts += [f"{name}={value}" for name, value in self.scalars().items()]
        return ", ".join(parts)

    def position(self, storage: Storage) -> int:
        """The position of a storage in `memory`."""
        return next(n for n, s in enumerate(self.memory) if s is storage)

    def tensors(self, position: int) -> list[TensorArg]:
        """The arguments that point into the storage at `position`."""
        held = (tensor_of(a) for a in self.arguments)
        return [t for t in held if t is not None and t.storage is self.memory[position]]


def tensor_of(argument: Argument) -> TensorArg | None:
    """The tensor that an argument points to, if it points to one."""
    if isinstance(argument, DescriptorArg | ValueArg):
        return argument.tensor
    return argument if isinstance(argument, TensorArg) else None


def _copied(storage: Storage) -> Storage:
    return Storage(
        storage.bytes.copy(),
        storage.address,
        None if storage.valid is None else storage.valid.copy(),
        storage.created,
        True,
        storage.poison,
    )


def moved_to(argument: Argument, storages: dict[int, Storage]) -> Argument:
    """`argument` with its storage replaced (by the id of the old one)."""
    tensor = tensor_of(argument)
    if tensor is None:
        return argument
    return with_tensor(argument, replace(tensor, storage=storages[id(tensor.storage)]))


def with_tensor(argument: Argument, tensor: TensorArg) -> Argument:
    """`argument` pointing to another tensor."""
    if isinstance(argument, DescriptorArg | ValueArg):
        return replace(argument, tensor=tensor)
    return tensor


def expanded(arguments: Sequence[Argument], types: Sequence[Attribute]) -> tuple[Argument, ...]:
    """Arguments for a function of parameter types `types`: where a pass has turned a descriptor
    into a pointer and numbers (base, shape, strides, padding, rounding), so is its argument."""
    if len(arguments) == len(types):
        return tuple(arguments)
    out: list[Argument] = []
    for argument in arguments:
        at = len(out)
        whole = not isinstance(argument, DescriptorArg)
        if whole or (at < len(types) and isinstance(types[at], tt.TensorDescType)):
            out.append(argument)
            continue
        name = argument.name
        out.append(replace(argument.tensor, name=name))
        out += [ScalarArg(f"{name}.shape.{k}", n) for k, n in enumerate(argument.shape)]
        out += [ScalarArg(f"{name}.stride.{k}", n) for k, n in enumerate(argument.strides)]
        out.append(ScalarArg(f"{name}.padding", int(argument.padding == "nan")))
        out.append(ScalarArg(f"{name}.roundF32ToTF32", int(argument.round_f32_to_tf32)))
    return tuple(out)


def with_descriptors(case: Case, types: Sequence[Attribute]) -> Case:
    """`case` for a kernel of parameter types `types`, which takes whole the descriptors that the
    launch passed as numbers: before Hopper a launch passes what passes make of the parameters
    (see `expanded`), not what the front end has."""
    if len(case.arguments) <= len(types):
        return case
    out: list[Argument] = []
    left = list(case.arguments)
    while left:
        tensor = left.pop(0)
        ty = types[len(out)] if len(out) < len(types) else None
        prefix = f"{tensor.name}.shape."
        rank = sum(1 for _ in itertools.takewhile(lambda a, p=prefix: _is_named(a, p), left))
        if not (isinstance(ty, tt.TensorDescType) and isinstance(tensor, TensorArg) and rank):
            out.append(tensor)
            continue
        numbers = [a.value for a in left[: 2 * rank + 2] if isinstance(a, ScalarArg)]
        shape, strides = (tuple(map(int, n)) for n in (numbers[:rank], numbers[rank : 2 * rank]))
        nan, tf32 = numbers[2 * rank :]
        padding = "nan" if nan else "zero"
        block = shape_of_descriptor(ty)
        out.append(DescriptorArg(tensor.name, tensor, shape, strides, block, padding, bool(tf32)))
        del left[: 2 * rank + 2]
    return replace(case, arguments=tuple(out))


def _is_named(argument: Argument, prefix: str) -> bool:
    return isinstance(argument, ScalarArg) and argument.name.startswith(prefix)


def instantiate(
    case: Case, module: ModuleOp, kernel: tt.FuncOp, observer: Observer | None = None
) -> tuple[Launch, list[Storage]]:
    """A launch of `kernel` on a copy of the memory of `case`, and the copy."""
    copies = [_copied(s) for s in case.memory]
    by_id: dict[int, Storage] = {id(old): new for old, new in zip(case.memory, copies, strict=True)}
    types = [a.type for a in kernel.args]
    arguments = tuple(moved_to(a, by_id) for a in expanded(case.arguments, types))
    about: dict[str, Any] = {}
    if case.launch is not None:
        about = {"num_warps": case.launch.num_warps, "cc": case.launch.cc}
    launch = Launch(
        module=module,
        kernel=kernel.sym_name.data,
        grid=case.grid,
        arguments=arguments,
        memory=lambda: copies,
        observer=observer,
        **about,
    )
    return launch, copies


def region_of(tensor: TensorArg, low: int, high: int) -> TensorArg:
    """The same pointer, which may reach the bytes low .. high - 1 of its storage and no others
    (more, if its own address is outside of them). Nothing at all when low >= high."""
    size = tensor.dtype.itemsize
    if low >= high:
        return replace(tensor, shape=(0,), strides=(1,))
    before = max(0, -((low - tensor.offset) // size))
    after = max(1, (high - tensor.offset) // size)
    if before == 0:
        return replace(tensor, shape=(after,), strides=(1,))
    return replace(tensor, shape=(before + 1, after), strides=(-1, 1))


def touched(masks: Sequence[np.ndarray]) -> tuple[int, int]:
    """The range of bytes that any of `masks` (bool[n]) holds; (0, 0) if there are none."""
    low, high = None, 0
    for mask in masks:
        if mask.any():
            first = int(mask.argmax())
            last = mask.size - int(mask[::-1].argmax())
            low = first if low is None else min(low, first)
            high = max(high, last)
    return (0, 0) if low is None else (low, high)
