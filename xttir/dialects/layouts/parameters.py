"""What can be said of an encoding without a shape: its rank, its CTAs, orders of its dimensions.

The rules are those of `lib/Dialect/TritonGPU/IR/Dialect.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    AMDMfmaEncodingAttr,
    AMDRotatingSharedEncodingAttr,
    AMDWmmaEncodingAttr,
    BlockedEncodingAttr,
    DotOperandEncodingAttr,
    GenericLinearEncodingAttr,
    LinearEncodingAttr,
    NvidiaMmaEncodingAttr,
    NVMMASharedEncodingAttr,
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    SliceEncodingAttr,
    SwizzledSharedEncodingAttr,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import (
    Basis,
    LayoutError,
    LinearLayout,
    identity_nd,
    standard_names,
)
from xttir.dialects.layouts.structs import StructAttr

DISTRIBUTED = (
    BlockedEncodingAttr,
    SliceEncodingAttr,
    LinearEncodingAttr,
    GenericLinearEncodingAttr,
    DotOperandEncodingAttr,
    NvidiaMmaEncodingAttr,
    AMDMfmaEncodingAttr,
    AMDWmmaEncodingAttr,
)
"""Encodings of tensors."""
SHARED = (
    SwizzledSharedEncodingAttr,
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    NVMMASharedEncodingAttr,
    AMDRotatingSharedEncodingAttr,
)
"""Encodings of shared memory."""
TENSOR_MEMORY = (TensorMemoryEncodingAttr, TensorMemoryScalesEncodingAttr)
"""Encodings of tensor memory."""

REGISTER_DIMS = ("register", "lane", "warp", "block")


def bases_of(attr: Attribute | None, what: str) -> tuple[Basis, ...]:
    """`[[0, 1], [0, 2]]` as bases; none where it is left out."""
    if attr is None:
        return ()
    if not isinstance(attr, ArrayAttr):
        raise LayoutError(f"the bases of '{what}' must be a list of lists of integers")
    result: list[Basis] = []
    for row in attr.data:
        if not isinstance(row, ArrayAttr):
            raise LayoutError(f"the bases of '{what}' must be a list of lists of integers")
        numbers = [item.value.data for item in row.data if isinstance(item, IntegerAttr)]
        if len(numbers) != len(row.data):
            raise LayoutError(f"a basis of '{what}' has an entry that is no integer")
        result.append(tuple(numbers))
    return tuple(result)


def linear_of_bases(
    encoding: StructAttr, names: Sequence[str], rank: int | None = None
) -> LinearLayout:
    """The layout whose bases the parameters `names` of an encoding list."""
    bases = {name: bases_of(encoding.get(name), name) for name in names}
    if rank is None:
        first = next((many[0] for many in bases.values() if many), None)
        if first is None:
            raise LayoutError(f"{encoding} has no bases")
        rank = len(first)
    return LinearLayout.of(bases, standard_names(rank))


@lru_cache(maxsize=4096)
def own_layout(encoding: Attribute) -> LinearLayout:
    """The layout that an encoding spells out itself: linear, shared linear and padded ones."""
    if isinstance(encoding, LinearEncodingAttr | GenericLinearEncodingAttr):
        return linear_of_bases(encoding, REGISTER_DIMS)
    if isinstance(encoding, SharedLinearEncodingAttr):
        return linear_of_bases(encoding, ("offset", "block"))
    assert isinstance(encoding, PaddedSharedEncodingAttr)
    if encoding.get("order") is None:
        return linear_of_bases(encoding, ("offset", "block"))
    shape, order = encoding.numbers("shape"), encoding.numbers("order")
    layout = identity_nd("offset", shape, order).transpose_outs(standard_names(len(shape)))
    return layout * LinearLayout.identity(1, "block", "dim0")


def rank_of(encoding: Attribute) -> int:
    """The number of dimensions of what an encoding lays out."""
    inner = _inner(encoding)
    if inner is not None:
        return rank_of(inner) - isinstance(encoding, SliceEncodingAttr)
    return len(_blocks_layout(encoding).outs)


def blocks_of(encoding: Attribute) -> int:
    """How many blocks of a cluster an encoding spreads over, whether they split it or not."""
    inner = _inner(encoding)
    if inner is not None:
        return blocks_of(inner)
    return 1 << len(_blocks_layout(encoding).bases("block"))


def _inner(encoding: Attribute) -> Attribute | None:
    """The encoding that one of another's blocks are."""
    match encoding:
        case SliceEncodingAttr() | DotOperandEncodingAttr():
            return _parent(encoding)
        case PartitionedSharedEncodingAttr():
            return encoding.get("partitionLayout")
        case _:
            return None


def _blocks_layout(encoding: Attribute) -> LinearLayout:
    """A layout with the rank and the blocks of an encoding."""
    return own_layout(encoding) if isinstance(encoding, _LINEAR) else cga_of(encoding)


def _explicit_cga(encoding: StructAttr, rank: int) -> LinearLayout:
    return LinearLayout.of(
        {"block": bases_of(encoding.get("CGALayout"), "CGALayout")}, standard_names(rank)
    )


@lru_cache(maxsize=4096)
def cga_of(encoding: Attribute) -> LinearLayout:
    """Which part of a tensor each block of a cluster holds: block -> (dim0, dim1, ...).

    The output extents are the numbers of parts.
    """
    match encoding:
        case BlockedEncodingAttr():
            return _explicit_cga(encoding, len(encoding.numbers("order")))
        case SwizzledSharedEncodingAttr() | AMDRotatingSharedEncodingAttr():
            return _explicit_cga(encoding, len(encoding.numbers("order")))
        case NvidiaMmaEncodingAttr() | AMDMfmaEncodingAttr():
            return _explicit_cga(encoding, len(encoding.numbers("warpsPerCTA")))
        case AMDWmmaEncodingAttr():
            return _explicit_cga(encoding, encoding.number("rank", 2))
        case NVMMASharedEncodingAttr():
            bases = bases_of(encoding.get("CGALayout"), "CGALayout")
            rank = encoding.number("rank", len(bases[0]) if bases else 2)
            return _explicit_cga(encoding, rank)
        case TensorMemoryEncodingAttr() | TensorMemoryScalesEncodingAttr():
            return _explicit_cga(encoding, 2)
        case SliceEncodingAttr():
            return without_dim(cga_of(_parent(encoding)), encoding.number("dim"))
        case DotOperandEncodingAttr():
            parent = cga_of(_parent(encoding))
            return parent.resize_out(f"dim{k_dim(encoding, len(parent.outs))}", 1)
        case PartitionedSharedEncodingAttr():
            inner = encoding.get("partitionLayout")
            assert inner is not None
            return cga_of(inner)
        case encoding if isinstance(encoding, _LINEAR):
            return _cga_of_linear(own_layout(encoding))
        case _:
            raise Unsupported(f"the layout of {encoding}")


_LINEAR = (
    LinearEncodingAttr,
    GenericLinearEncodingAttr,
    SharedLinearEncodingAttr,
    PaddedSharedEncodingAttr,
)
"""Encodings that give their whole layout."""


def _parent(encoding: StructAttr) -> Attribute:
    parent = encoding.get("parent")
    if parent is None:
        raise LayoutError(f"{encoding.name} without a parent")
    return parent


def k_dim(encoding: DotOperandEncodingAttr, rank: int) -> int:
    """The dimension of a dot's operand that is summed over."""
    return rank - 1 if encoding.number("opIdx") == 0 else rank - 2


def _cga_of_linear(layout: LinearLayout) -> LinearLayout:
    """The bases of "block", divided by what one block holds."""
    split = counts(layout, "block")
    inside = {
        name: (1 << bits) // parts for (name, bits), parts in zip(layout.outs, split, strict=True)
    }
    rest = layout.sublayout([name for name in layout.in_names if name != "block"], layout.out_names)
    quotient = layout.divide_left(rest.clip(inside))
    if quotient is None:
        raise LayoutError(f"the blocks of a layout do not split it into parts:\n{layout}")
    return quotient.sublayout(["block"], quotient.out_names)


def counts(layout: LinearLayout, name: str, broadcast: bool = False) -> tuple[int, ...]:
    """Along each dimension, how many positions the input `name` distinguishes.

    With `broadcast`, a basis of zero doubles the count of the dimension of the basis before it.
    """
    result = [1] * len(layout.outs)
    last = 0
    for basis in layout.bases(name):
        moved = next((i for i, value in enumerate(basis) if value), None)
        if moved is not None:
            last = moved
        elif not broadcast:
            continue
        result[last] *= 2
    return tuple(result)


def order_of(layout: LinearLayout, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """The dimensions in the order in which input `name` goes along them; then as in `default`."""
    order: dict[int, None] = {}
    for basis in layout.bases(name):
        moved = next((i for i, value in enumerate(basis) if value), None)
        if moved is not None:
            order[moved] = None
    order.update(dict.fromkeys(default))
    return tuple(order)


def row_major(rank: int) -> tuple[int, ...]:
    """The last dimension first."""
    return tuple(range(rank - 1, -1, -1))


def matrix_order(rank: int, rows: bool) -> tuple[int, ...]:
    """Of [*batch, m, n]: rows (n fastest) or columns (m fastest), batches last."""
    order = list(row_major(rank))
    if not rows and rank >= 2:
        order[:2] = order[1::-1]
    return tuple(order)


def operand_order(op_index: int, rank: int) -> tuple[int, ...]:
    """Of a dot's operand: k fastest, then m or n, batches last."""
    return matrix_order(rank, rows=op_index == 0)


def rep_order(encoding: Attribute) -> tuple[int, ...]:
    """The order in which copies of a layout's tile fill a tensor, the fastest dimension first."""
    match encoding:
        case BlockedEncodingAttr():
            return encoding.numbers("order")
        case SliceEncodingAttr():
            dim = encoding.number("dim")
            return tuple(i - (i > dim) for i in rep_order(_parent(encoding)) if i != dim)
        case NvidiaMmaEncodingAttr() | AMDMfmaEncodingAttr() | AMDWmmaEncodingAttr():
            return row_major(rank_of(encoding))
        case DotOperandEncodingAttr():
            parent = _parent(encoding)
            if isinstance(parent, BlockedEncodingAttr):
                return parent.numbers("order")
            return operand_order(encoding.number("opIdx"), rank_of(parent))
        case LinearEncodingAttr() | GenericLinearEncodingAttr():
            layout = own_layout(encoding)
            return order_of(layout, "register", row_major(len(layout.outs)))
        case _:
            raise Unsupported(f"the order of {encoding}")


def without_dim(layout: LinearLayout, dim: int) -> LinearLayout:
    """`layout` without output dimension `dim`; those after it move down by one."""
    rest = layout.drop_out(layout.out_names[dim])
    return rest.rename_outs(standard_names(len(rest.outs)))


def shape_per_block(cga: LinearLayout, shape: Sequence[int]) -> tuple[int, ...]:
    """The part of a tensor of `shape` that one block holds; `shape` may have leading dimensions."""
    split = cga.out_shape
    missing = len(shape) - len(split)
    split = (1,) * missing + split if missing >= 0 else split[-len(shape) :]
    return tuple(size // min(size, parts) for size, parts in zip(shape, split, strict=True))
