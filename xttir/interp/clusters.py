"""Programs of several CTAs: how often what they all do counts at an mbarrier.

A value of such a program is that of all its CTAs together, and its CTAs take the same path, so one
barrier stands for those of all CTAs: each of them sees the same arrivals and bytes. What differs
from a program of one CTA is how many. A barrier that some CTAs share is that of the first of them;
a copy completes the bytes of a CTA's part at that CTA's barrier; a multicast arrives at several
(`BarrierOpToLLVM.cpp`, `MMAv5.cpp` in Triton). That one CTA can be ahead of another is not looked
at, and said to be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, Operation

from xttir.dialects import ttg
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.parameters import blocks_of, cga_of, shape_per_block
from xttir.dialects.layouts.placement import blocks_at
from xttir.interp.machine import Machine
from xttir.interp.types import numpy_dtype

ORDER = "the order of the CTAs of a cluster"


def sharing(op: Operation, barrier: Attribute) -> int:
    """How many CTAs share each of the barriers of a descriptor."""
    assert isinstance(barrier, ttg.MemDescType)
    return max(1, blocks_at(op) // prod(barrier.get_shape()))


def part_bytes(memory: Attribute) -> int:
    """Bytes of the part of a memory descriptor that one CTA holds."""
    assert isinstance(memory, ttg.MemDescType)
    shape, itemsize = memory.get_shape(), numpy_dtype(memory.element_type).itemsize
    try:
        return prod(shape_per_block(cga_of(memory.encoding), shape)) * itemsize
    except LayoutError:
        # The CTAs' parts are no boxes, but all of a size.
        return prod(shape) * itemsize // blocks_of(memory.encoding)


def commits(op: Operation, operands: Sequence[Attribute], two_ctas: bool) -> int:
    """How many CTAs arrive at each barrier with the completion of tensor core work that reads
    `operands` from memory, which are multicast; none if they are not.

    A pair of CTAs that multiplies together has one that issues. A CTA arrives where it may be the
    one whose copies of an operand others read.
    """
    if not operands:
        return 1
    bases = [cga_of(ty.encoding).bases("block") for ty in operands]  # pyright: ignore
    found = 0
    for cta in range(blocks_at(op)):
        if two_ctas and cta & 1:
            continue
        found += any(
            all(not any(basis) or not cta >> bit & 1 for bit, basis in enumerate(of))
            for of in bases
        )
    return found


def left_out(m: Machine, ctas: int) -> None:
    """Say what is not checked of a program of `ctas` CTAs."""
    if ctas > 1:
        m.counts.leave_out(ORDER)
