"""What ops of `ttng` require of mbarriers, clusters and the target they run on.

The rules are those of the verifiers in Triton's `lib/Dialect/TritonNvidiaGPU/IR/Ops.cpp` and of
`verifyBarrierType`.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.linear_layout import Basis
from xttir.dialects.layouts.parameters import cga_of
from xttir.dialects.layouts.placement import blocks_at, target_at
from xttir.dialects.layouts.to_linear import linear_layout, memory_shape
from xttir.dialects.tt.traits import check
from xttir.dialects.ttg.types import MemDescType

_CUDA = re.compile(r"cuda:(\d+)$").match
_FUNCTIONS = ("tt.func", "llvm.func", "func.func")


def check_tcgen05(op: Operation) -> None:
    """Tensor memory is there from compute capability 10 on (and not in 12), if the target is
    known."""
    target = target_at(op)
    if target is None:
        return
    cuda = _CUDA(target)
    if cuda is None:
        check(not target.startswith("hip:"), "requires tcgen05 support")
        return
    check(100 <= int(cuda.group(1)) < 120, "requires tcgen05 support")


def check_cluster(op: Operation) -> None:
    """The kernel runs in clusters of two CTAs or more."""
    check(blocks_at(op) > 1, "requires ttg.num-ctas > 1")


def check_in_kernel(op: Operation) -> None:
    """The op stands in a kernel, or in a function that is to be inlined into one."""
    parent = op.parent_op()
    while parent is not None and parent.name not in _FUNCTIONS:
        parent = parent.parent_op()
    check(parent is not None, "must be inside a kernel function")
    assert parent is not None
    visibility = parent.properties.get("sym_visibility") or parent.attributes.get("sym_visibility")
    if not isinstance(visibility, StringAttr) or visibility.data == "public":
        return
    noinline = parent.attributes.get("noinline")
    kept = isinstance(noinline, IntegerAttr) and noinline.value.data != 0
    check(not kept and parent.name == "tt.func", "must be inside a kernel function")


def cga_bases(type_: MemDescType) -> tuple[Basis, ...]:
    """Per bit of a block's index in the cluster, which part of the memory it holds."""
    return cga_of(type_.encoding).bases("block")


def one_per_block(blocks: int) -> tuple[Basis, ...]:
    """The CGA layout of memory of which each block holds its part."""
    return tuple((1 << i,) for i in range(blocks.bit_length() - 1))


def text(bases: tuple[Basis, ...]) -> str:
    return str([list(basis) for basis in bases])


def check_barrier(op: Operation, type_: Attribute) -> None:
    """A descriptor of mbarriers, as many as CTAs or fewer."""
    assert isinstance(type_, MemDescType)
    shape = type_.get_shape()
    check(
        type_.element_type == i64 and len(shape) == 1 and shape[0] <= blocks_at(op),
        "barrier allocation must be a descriptor of Nxi64 type with N <= number of CTAs",
    )
    try:
        layout = linear_layout(type_.encoding, memory_shape(type_.encoding, shape))
    except Unsupported:
        return
    following = 1
    for (value,) in layout.bases("block"):
        check(
            value in (0, following),
            "broadcasted cluster barriers require bases to be the sequence 1, 2, 4, 8, ..., perhaps"
            " with zero bases interleaved",
        )
        if value:
            following *= 2


def check_cga(type_: Attribute, wanted: tuple[Basis, ...], what: str) -> None:
    assert isinstance(type_, MemDescType)
    got = cga_bases(type_)
    check(got == wanted, f"{what} cga_layout must be {text(wanted)}, got {text(got)}")


def check_completion(op: Operation, type_: Attribute) -> None:
    """The barrier at which tensor cores arrive: each CTA has its own."""
    check_barrier(op, type_)
    check_cga(type_, one_per_block(blocks_at(op)), "completion barrier")


def check_count(count: IntegerAttr) -> None:
    check(count.value.data >= 1, "count must be greater than or equal to 1")


def check_from_cta(op: Operation, type_: Attribute, from_cta: IntegerAttr | None) -> None:
    """`fromCTA` selects bits of a CTA's index."""
    if from_cta is None:
        return
    assert isinstance(type_, MemDescType)
    blocks = blocks_at(op)
    check(0 <= from_cta.value.data < blocks, "fromCTA must be in the range [0, num_ctas - 1]")
    check(
        type_.get_shape() == (blocks,) and cga_bases(type_) == one_per_block(blocks),
        "fromCTA requires a 1D barrier with one element per CTA and canonical CGA layout",
    )


def check_multicast(
    op: Operation, type_: Attribute, multicast: int, from_cta: IntegerAttr | None
) -> None:
    """An arrival at the barriers of several CTAs."""
    blocks = blocks_at(op)
    check(blocks > 1, "multicast arrive requires num_ctas > 1")
    check(0 <= multicast < blocks, "multicastCTA exceeds numCTAs - 1")
    check_cga(type_, one_per_block(blocks), "multicast barrier")
    check(
        from_cta is None or from_cta.value.data == blocks - 1,
        "fromCTA cannot be combined with multicast arrive",
    )


def check_not_specialized(op: Operation, type_: Attribute) -> None:
    """Barriers of a cluster cannot be made where only some warps run."""
    assert isinstance(type_, MemDescType)
    if type_.get_shape()[0] == blocks_at(op):
        return
    parent = op.parent_op()
    while parent is not None:
        check(parent.name != "ttg.warp_specialize", "cannot be used inside `ttg.warp_specialize`")
        parent = parent.parent_op()


def check_clc_result(type_: Attribute) -> None:
    """The 16 bytes of an answer of cluster launch control, the same in each CTA."""
    assert isinstance(type_, MemDescType)
    check(
        isinstance(type_.element_type, IntegerType) and type_.element_type.width.data == 64,
        lambda: f"expected CLC result buffer to have type int64, but got {type_.element_type}",
    )
    check(
        type_.get_shape() == (2,),
        "expected CLC result buffer to have rank 1 and a single dimension equal to 2, but got "
        f"{list(type_.get_shape())}",
    )
    bases = cga_bases(type_)
    check(
        not any(any(basis) for basis in bases),
        f"expected CLC result buffer cga_layout bases to be all zeros. Got {text(bases)}",
    )
