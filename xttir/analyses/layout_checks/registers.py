"""Ops that rename registers: what each lane holds of the result must be what its layout says.

Triton lowers these ops without moving a value from one thread to another: it takes the registers
that a thread has of the operand in a fixed order, and takes the result's layout for granted
(`lib/Conversion/TritonGPUToLLVM/ViewOpToLLVM.cpp`). Each function here follows that on arrays of
element numbers, `held: int64[registers, lanes, warps, blocks]` in row-major order, and compares
with what the layout of the result says. Registers that hold copies of others do not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType

from xttir.analyses.layout_checks.finding import Finding, element, register
from xttir.dialects.layouts.linear_layout import LinearLayout
from xttir.dialects.layouts.parameters import REGISTER_DIMS, without_dim
from xttir.dialects.layouts.to_linear import layout_of

Held = NDArray[np.int64]


def shape_of(type_: TensorType) -> tuple[int, ...]:
    return tuple(type_.get_shape())


@lru_cache(maxsize=1024)
def unique_layout(type_: TensorType) -> LinearLayout:
    """The layout of a tensor without registers that hold copies; inputs in the usual order."""
    layout = layout_of(type_).without_zero_bases("register")
    have = dict(layout.ins)
    return LinearLayout(tuple((n, have.get(n, ())) for n in REGISTER_DIMS), layout.outs)


@lru_cache(maxsize=1024)
def held_of(type_: TensorType) -> Held:
    """int64[registers, lanes, warps, blocks]: the element held there, in row-major order."""
    return _flat(unique_layout(type_))


def _flat(layout: LinearLayout) -> Held:
    return layout.transpose_outs(layout.out_names[::-1]).flat_table


def coordinates(flat: Held, shape: Sequence[int]) -> list[Held]:
    """The index along each dimension of row-major offsets.

    (`np.unravel_index` of numpy 2.4 is wrong on arrays that end in a dimension of extent 1.)
    """
    index: list[Held] = []
    for size in reversed(shape):
        index.append(flat % size)
        flat = flat // size
    return index[::-1]


def row_major(index: Sequence[Held], shape: Sequence[int]) -> Held:
    """The row-major offset of an index: the inverse of `coordinates`."""
    flat = np.zeros((), dtype=np.int64)
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat


def covers(type_: TensorType) -> Finding | None:
    """Every element of the tensor is held somewhere."""
    layout = unique_layout(type_)
    if layout.is_surjective:
        return None
    shape = shape_of(type_)
    missing = np.setdiff1d(np.arange(math.prod(shape)), held_of(type_))
    return Finding(
        f"the layout of {type_} loses {len(missing)} of {math.prod(shape)} elements",
        (f"element {element(int(missing[0]), shape)} is held by no lane",),
    )


def carried(got: Held, result: TensorType, what: str) -> Finding | None:
    """What registers hold after an op, as elements of its result, against the result's layout."""
    want = held_of(result)
    for i, name in enumerate(("registers", "lanes", "warps", "blocks")):
        if got.shape[i] != want.shape[i]:
            return Finding(
                f"the layout of the result of {what} does not follow from that of its operand: "
                f"{name} are {got.shape[i]}, and {want.shape[i]} in the layout",
                (f"the result is {result}",),
            )
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return None
    at = wrong[0]
    shape = shape_of(result)
    return Finding(
        f"{what} moves no data, but the layout of its result says that lanes hold other elements: "
        f"{len(wrong)} of {got.size} registers",
        (
            f"{register(at)} holds element {element(int(got[tuple(at)]), shape)} of the result; "
            f"its layout says {element(int(want[tuple(at)]), shape)}",
            f"the result is {result}",
        ),
    )


def same_lanes(types: Sequence[TensorType], what: str) -> Finding | None:
    """All tensors of an op that works lane by lane hold the same elements in the same places."""
    first = types[0]
    for other in types[1:]:
        if other.encoding == first.encoding or shape_of(other) != shape_of(first):
            continue
        found = carried(held_of(first), other, what)
        if found is not None:
            return found
    return None


def trans(source: TensorType, order: Sequence[int], result: TensorType) -> Finding | None:
    numbers = np.arange(math.prod(shape_of(result))).reshape(shape_of(result))
    back = numbers.transpose(np.argsort(order)).reshape(-1)
    return carried(back[held_of(source)], result, "tt.trans")


def reshape(source: TensorType, result: TensorType, reorder: bool) -> Finding | None:
    """With `reorder` elements may change places, but each thread must hold as many as before."""
    if reorder and held_of(source).shape == held_of(result).shape:
        same = unique_layout(source).free_variables() == unique_layout(result).free_variables()
        if same:
            return None
    return carried(held_of(source), result, "tt.reshape")


def expand_dims(source: TensorType, result: TensorType) -> Finding | None:
    return carried(held_of(source), result, "tt.expand_dims")


def broadcast(source: TensorType, result: TensorType) -> Finding | None:
    """Each thread must have the element that it repeats; the lowering finds it by lane 0."""
    small, large = shape_of(source), shape_of(result)
    index = coordinates(held_of(result), large)
    want = row_major([i * (a != 1) for i, a in zip(index, small, strict=True)], small)
    have = held_of(source)
    if have.shape[1:] != want.shape[1:]:
        return carried(have, result, "tt.broadcast")
    place = {int(e): r for r, e in enumerate(have[:, 0, 0, 0])}
    chosen = [place.get(int(e)) for e in want[:, 0, 0, 0]]
    missing = next((r for r, c in enumerate(chosen) if c is None), None)
    if missing is None:
        got = have[np.array(chosen, dtype=np.int64)]
        wrong = np.argwhere(got != want)
        if not len(wrong):
            return None
        at = wrong[0]
    else:
        at = np.array([missing, 0, 0, 0])
    return Finding(
        "tt.broadcast moves no data, but the layout of its result needs elements that lanes do not "
        "hold of the operand",
        (
            f"{register(at)} of the result repeats element "
            f"{element(int(want[tuple(at)]), small)} of the operand, which that lane does not have",
            f"{source} to {result}",
        ),
    )


def _pair_position(type_: TensorType) -> int | None:
    """Which bit of the register number tells the two elements of a pair (last dimension) apart."""
    last = len(shape_of(type_)) - 1
    bases = unique_layout(type_).bases("register")
    return next((i for i, basis in enumerate(bases) if basis[last] == 1), None)


def join(source: TensorType, result: TensorType) -> Finding | None:
    bit = _pair_position(result)
    if bit is None:
        return _no_pair("tt.join", result)
    have = held_of(source)
    if have.shape[0] % (1 << bit):
        return carried(np.concatenate((have, have)), result, "tt.join")
    chunks = have.reshape(-1, 1 << bit, *have.shape[1:])
    got = np.stack((2 * chunks, 2 * chunks + 1), axis=1).reshape(-1, *have.shape[1:])
    return carried(got, result, "tt.join")


def split(source: TensorType, result: TensorType) -> Finding | None:
    bit = _pair_position(source)
    if bit is None:
        return _no_pair("tt.split", source)
    have = held_of(source)
    chunks = have.reshape(-1, 2, 1 << bit, *have.shape[1:])
    for half in range(2):
        got = chunks[:, half].reshape(-1, *have.shape[1:])
        if ((got & 1) != half).any():
            return _no_pair("tt.split", source)
        found = carried(got >> 1, result, "tt.split")
        if found is not None:
            return found
    return None


def _no_pair(what: str, type_: TensorType) -> Finding:
    return Finding(
        f"{what} moves no data, but its layout puts the two elements of a pair in different lanes",
        (f"in {type_}",),
    )


def fp4_to_fp(source: TensorType, axis: int, result: TensorType) -> Finding | None:
    """Each byte gives two elements, the next to one another along `axis` and in registers."""
    large = shape_of(result)
    index = coordinates(held_of(source), shape_of(source))
    both = [
        row_major([2 * i + half if d == axis else i for d, i in enumerate(index)], large)
        for half in range(2)
    ]
    got = np.stack(both, axis=1).reshape(-1, *both[0].shape[1:])
    return carried(got, result, "ttg.fp4_to_fp")


def reduce(source: TensorType, axis: int, result: TensorType) -> Finding | None:
    """The result is laid out as the operand without `axis`."""
    layout = without_dim(unique_layout(source).clip({f"dim{axis}": 1}), axis)
    return carried(_flat(layout.without_zero_bases("register")), result, "tt.reduce")
