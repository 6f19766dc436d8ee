"""What the arguments of a launch say of one another: names that agree, products that fit, views.

Used by `contract`, which turns it into terms.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr

from xttir.analyses.sizes.terms import Term, as_term
from xttir.dialects import tt
from xttir.interp.launch import Argument, DescriptorArg, TensorArg


def integer_constants(function: tt.FuncOp) -> set[int]:
    """The integer constants of a kernel."""
    out: set[int] = set()
    for op in function.walk():
        value = op.properties.get("value") if op.name == "arith.constant" else None
        if isinstance(value, IntegerAttr):
            out.add(value.value.data)
        elif isinstance(value, DenseIntOrFPElementsAttr) and value.is_splat():
            out |= {n for n in value.get_values()[:1] if isinstance(n, int)}
    return out


def products_of(
    factors: list[tuple[str, Term, int, int]], count: int, value: int
) -> list[tuple[str, Term]]:
    """Products of so many factors that have this value, the likeliest first."""
    out: list[tuple[int, str, Term]] = []
    for parts in combinations(factors[:40], count):
        # Nobody multiplies a size with itself.
        if math.prod(p[2] for p in parts) != value or len({p[1] for p in parts}) < count:
            continue
        score = sum(p[3] for p in parts)
        # Two blocks along one size are seldom what is meant.
        score -= 2 * (count - len({p[0].partition(",")[0] for p in parts}))
        term = as_term(1)
        for p in parts:
            term = term * p[1]
        out.append((-score, " * ".join(p[0] for p in parts), term))
    return [(name, term) for _, name, term in sorted(out, key=lambda e: e[0])]


def axes_used(function: tt.FuncOp) -> set[int]:
    """The axes of the grid that a kernel (or one that it may call) asks about."""
    module = function.parent_op()
    ops = (module or function).walk()
    return {
        op.axis.value.data for op in ops if isinstance(op, tt.GetProgramIdOp | tt.GetNumProgramsOp)
    }


def resemblance(size: str, block: str) -> int:
    """How much the name of a block size speaks of a size: BLOCK_M of M."""
    a, b = size.lower().split("_"), block.lower().split("_")
    short = a[-1].rstrip("0123456789")
    return 2 * (short in b) + (b[-1].endswith(short[-1:]) if short else 0)


def length_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    if not all(shape):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def view(tensor: TensorArg) -> np.ndarray:
    """The tensor's elements, as numpy sees them."""
    size = tensor.dtype.itemsize
    return np.ndarray(
        tensor.shape,
        tensor.dtype,
        tensor.storage.bytes.data,
        tensor.offset,
        tuple(s * size for s in tensor.strides),
    )


def tensor_of(argument: Argument) -> TensorArg | None:
    if isinstance(argument, DescriptorArg):
        return argument.tensor
    return argument if isinstance(argument, TensorArg) else None


def same_view(a: TensorArg, b: TensorArg) -> bool:
    return (
        a.storage is b.storage
        and a.offset == b.offset
        and a.dtype.itemsize == b.dtype.itemsize
        and length_of(a.shape, a.strides) == length_of(b.shape, b.strides)
    )


def overlap(a: TensorArg, b: TensorArg) -> bool:
    if a.storage is not b.storage:
        return False
    one = (a.offset, a.offset + length_of(a.shape, a.strides) * a.dtype.itemsize)
    two = (b.offset, b.offset + length_of(b.shape, b.strides) * b.dtype.itemsize)
    return one[0] < two[1] and two[0] < one[1]


def is_akin(tensor: str, scalar: str) -> bool:
    """Whether a stride's name speaks of a tensor: `stride_xm` of `x_ptr`, `x.stride.0` of `x`."""
    stem = tensor.lower().removesuffix("_ptr").removesuffix("_desc")
    words = scalar.lower().replace(".", "_").split("_")
    return stem in words or any(
        w.startswith(stem) and len(w) == len(stem) + 1 for w in words if len(stem) <= 2
    )


def made_unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out


def distinct(sizes: list[tuple[str, Term, int]]) -> list[tuple[str, Term, int]]:
    return list({name: (name, term, value) for name, term, value in sizes if value > 1}.values())
