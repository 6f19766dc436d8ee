"""How large the buffers of a launch must be, from what the kernel accesses.

A run on reserved memory, of which only touched pages exist, records how far each buffer is
accessed. Where its contents may have decided that (more was loaded than was filled), runs on
real data follow until nothing lies outside. A size that is not found in this way is an input error.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xttir.diagnostics import InputError
from xttir.frontends.launch_description import LaunchDescription, TensorSpec, materialise
from xttir.frontends.module_launch.binding import bind
from xttir.interp.access import Access, Strided
from xttir.interp.machine import Machine
from xttir.policy import RunPolicy

RESERVED = 1 << 30
"""Bytes of address space for each buffer: larger ones need their size given."""

FILLED = 1 << 16
"""Elements of each buffer that hold random data in the first run."""

ROUNDS = 8

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


@dataclass
class _Reach:
    """Bytes from its start up to which each storage is accessed, by the storage's id. `outside`:
    the same, of accesses past its end."""

    inside: dict[int, int]
    outside: dict[int, int]

    def __call__(self, m: Machine, op: Operation, verb: str, access: Access) -> None:
        for region, piece in access.pieces:
            if not piece.size:
                continue
            if isinstance(piece, Strided):
                far = int(piece.base.max())
                axes = zip(piece.strides, piece.shape, strict=True)
                far += sum(stride * (n - 1) for stride, n in axes if stride > 0)
            else:
                far = int(piece.at.max())
            _raise(self.inside, region.storage, far + piece.itemsize)
        for region, lanes, offsets, reason in access.bad:
            if region is not None and reason == "bounds":
                far = int(offsets[lanes].max()) + region.base
                size = region.tensor.dtype.itemsize
                _raise(self.outside, region.storage, far + size)


def _raise(reach: dict[int, int], storage: Any, far: int) -> None:
    key = id(storage)
    reach[key] = max(reach.get(key, 0), far)


def find_sizes(
    module: ModuleOp,
    description: LaunchDescription,
    open: Iterable[str],
    *,
    seed: int = 0,
    policy: RunPolicy | None = None,
) -> LaunchDescription:
    """`description` with a size for each tensor in `open`, all of them 1-d. Raises `InputError` for
    a buffer that would take more than `RESERVED` bytes, and what the run raises."""
    names = [name for name in description.tensors if name in set(open)]
    if not names:
        return description
    policy = policy or RunPolicy()
    sizes, sure = _reserved_run(module, description, names, seed, policy)
    if sure:
        return _sized(description, sizes)
    for _ in range(ROUNDS):
        found = _real_run(module, _sized(description, sizes), names, seed, policy)
        if all(found[name] <= sizes[name] for name in names):
            return _sized(description, sizes)
        sizes = {name: max(sizes[name], found[name]) for name in names}
    return _sized(description, sizes)


def _run(module: ModuleOp, *args: Any, policy: RunPolicy, **kwargs: Any) -> tuple[Any, _Reach]:
    from xttir.interp.executor import run_launch

    reach = _Reach({}, {})
    bound = bind(module, *args, observer=reach, **kwargs)
    run_launch(bound.launch, policy)
    return bound, reach


def _reserved_run(
    module: ModuleOp,
    description: LaunchDescription,
    names: list[str],
    seed: int,
    policy: RunPolicy,
) -> tuple[dict[str, int], bool]:
    """Elements of each buffer, and whether no other contents can have led further."""
    tensors = dict(description.tensors)
    data: dict[str, np.ndarray] = {}
    for name in names:
        spec = tensors[name]
        count = RESERVED // spec.dtype.size
        filled = materialise(_sized(description, {name: FILLED}), seed, [name])[name]
        memory = mmap.mmap(-1, RESERVED, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        flat = np.frombuffer(memory, np.uint8).view(spec.dtype.numpy)
        flat[: filled.size] = filled
        data[name] = flat
        tensors[name] = _one_dimensional(spec, count)
    bound, reach = _run(
        module,
        replace(description, tensors=tensors),
        seed=seed,
        data=data,
        policy=policy.with_checks("bounds"),
    )
    sizes: dict[str, int] = {}
    sure = True
    for name in names:
        key, size = id(bound.storages[name]), tensors[name].dtype.size
        if reach.outside.get(key, 0) > RESERVED:
            raise InputError(
                f"no size found for `{name}`: the kernel accesses it beyond {RESERVED >> 20} MiB",
                hint=f"--arg {name}=random:{tensors[name].dtype.name}[SIZE], "
                "or arguments that make its offsets small",
            )
        sizes[name] = -(-reach.inside.get(key, 0) // size)
        sure &= sizes[name] <= FILLED
    return sizes, sure


def _real_run(
    module: ModuleOp,
    description: LaunchDescription,
    names: list[str],
    seed: int,
    policy: RunPolicy,
) -> dict[str, int]:
    """How many elements of each buffer are accessed, with the contents that the launch has."""
    bound, reach = _run(module, description, seed=seed, policy=policy.with_checks("bounds"))
    found: dict[str, int] = {}
    for name in names:
        key, size = id(bound.storages[name]), description.tensors[name].dtype.size
        far = -(-reach.outside.get(key, 0) // size)
        found[name] = far if far * size <= RESERVED else 0
    return found


def _sized(description: LaunchDescription, sizes: dict[str, int]) -> LaunchDescription:
    tensors = {
        name: _one_dimensional(spec, sizes[name]) if name in sizes else spec
        for name, spec in description.tensors.items()
    }
    return replace(description, tensors=tensors)


def _one_dimensional(spec: TensorSpec, count: int) -> TensorSpec:
    return replace(spec, shape=(count,), strides=(1,), storage=max(1, count))
