"""Whether the layouts of an op's types fit where the op stands: its warps, lanes and CTAs.

A module says how many lanes a warp and how many CTAs a cluster has, a module, function or partition
how many warps run it. The rules are those of Triton's traits `VerifyTensorLayoutsTrait` and
`VerifyMemDescLayoutsTrait` (`lib/Dialect/TritonGPU/IR/Dialect.cpp`). Ops of one module share their
types, so that a verdict is remembered by the type object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    AMDWmmaEncodingAttr,
    DotOperandEncodingAttr,
    GenericLinearEncodingAttr,
    SharedLinearEncodingAttr,
    SliceEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout, standard_names
from xttir.dialects.layouts.parameters import (
    DISTRIBUTED,
    SHARED,
    TENSOR_MEMORY,
    bases_of,
    blocks_of,
    own_layout,
    rank_of,
)
from xttir.dialects.layouts.structs import StructAttr
from xttir.dialects.layouts.to_linear import linear_layout


class Place(NamedTuple):
    """What stands around an op. `warps` is None where nothing says how many there are."""

    warps: int | None
    lanes: int
    blocks: int


def integer_attribute(op: Operation, name: str) -> int | None:
    """The integer attribute `name` of `op`, if it has one."""
    attr = op.attributes.get(name)
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def _holder(op: Operation) -> Operation | None:
    """The op in whose region `op` stands (`parent_op`, without its checks)."""
    block = op.parent
    region = None if block is None else block.parent
    return None if region is None else region.parent


def module_of(op: Operation) -> Operation:
    """The innermost module around `op`; the outermost op where there is none."""
    while op.name != "builtin.module":
        parent = _holder(op)
        if parent is None:
            return op
        op = parent
    return op


def place_of(op: Operation) -> Place:
    """The number of warps, lanes and CTAs where `op` stands."""
    warps: int | None = None
    node = op
    while True:
        name = node.name
        if warps is None and name in ("tt.func", "builtin.module"):
            warps = integer_attribute(node, "ttg.num-warps")
        if name == "builtin.module":
            break
        parent = _holder(node)
        if parent is None:
            break
        if warps is None and parent.name == "ttg.warp_specialize.partitions":
            warps = _warps_of_partition(parent, node)
        node = parent
    lanes = integer_attribute(node, "ttg.threads-per-warp")
    return Place(warps, 32 if lanes is None else lanes, blocks_at(node))


def _warps_of_partition(partitions: Operation, inside: Operation) -> int | None:
    owner = partitions.parent_op()
    numbers = None if owner is None else owner.properties.get("partitionNumWarps")
    region = inside.parent_region()
    if not isinstance(numbers, DenseArrayBase) or region is None:
        return None
    values, index = numbers.get_values(), partitions.get_region_index(region)
    return int(values[index]) if index < len(values) else None


def warps_at(op: Operation) -> int | None:
    """The number of warps that run `op`."""
    return place_of(op).warps


def blocks_at(op: Operation) -> int:
    """The number of CTAs of a cluster."""
    blocks = integer_attribute(module_of(op), "ttg.num-ctas")
    return 1 if blocks is None else blocks


def target_at(op: Operation) -> str | None:
    """The target that the module is compiled for, as `cuda:90`."""
    target = module_of(op).attributes.get("ttg.target")
    return target.data if isinstance(target, StringAttr) else None


def capability_at(op: Operation) -> int | None:
    """The compute capability in `ttg.target = "cuda:90"`, or None."""
    kind, _, number = (target_at(op) or "").partition(":")
    return int(number) if kind == "cuda" and number.isdigit() else None


def is_generic(encoding: Attribute | None) -> bool:
    """Whether a layout may mix dimensions or hold elements more than once in an irregular way."""
    match encoding:
        case GenericLinearEncodingAttr():
            return True
        case DotOperandEncodingAttr() | SliceEncodingAttr():
            return is_generic(encoding.get("parent"))
        case AMDWmmaEncodingAttr():
            return _swizzles_warps(encoding)
        case _:
            return False


def _swizzles_warps(encoding: StructAttr) -> bool:
    """Whether a basis of the warps of a wmma layout moves along two dimensions."""
    from xttir.dialects.layouts.rules import is_permutation

    warps = encoding.get("ctaLayout")
    if not isinstance(warps, DictionaryAttr):
        return False
    bases = {name: bases_of(many, name) for name, many in warps.data.items()}
    rank = next((len(basis) for many in bases.values() for basis in many), 0)
    return not is_permutation(LinearLayout.of(bases, standard_names(rank)))


_VETTED = frozenset(
    (
        "tt.make_range",
        "tt.splat",
        "tt.broadcast",
        "tt.load",
        "tt.store",
        "tt.join",
        "tt.split",
        "tt.expand_dims",
        "tt.reshape",
        "tt.trans",
        "tt.dot",
        "tt.dot_scaled",
        "tt.call",
        "tt.return",
        "tt.func",
        "tt.assert",
        "tt.clampf",
        "tt.precise_sqrt",
        "tt.precise_divf",
        "tt.approx_divf",
        "tt.mulhiui",
        "ttg.convert_layout",
        "ttg.fp4_to_fp",
        "ttg.local_load",
        "ttg.local_store",
    )
)
"""Ops besides elementwise ones that Triton lets work on generic layouts."""


def _is_unvetted(op: Operation, type_: Attribute) -> bool:
    """Whether `type_` has a generic layout, which `op` is not made for."""
    if not isinstance(type_, TensorType) or not is_generic(type_.encoding):
        return False
    from xttir.dialects.tt.traits import Elementwise

    return op.name not in _VETTED and not op.has_trait(Elementwise)


def _tensor_fault(type_: TensorType, place: Place) -> str | None:
    """Why a tensor of this type cannot be where `place` is; None if it can."""
    layout, shape = type_.encoding, type_.get_shape()
    if not isinstance(layout, DISTRIBUTED):
        memory = isinstance(layout, SHARED + TENSOR_MEMORY)
        return "a layout of memory is not allowed in a tensor type" if memory else None
    rank = rank_of(layout)
    if rank != len(shape):
        return f"layout has rank {rank}, but the tensor it is attached to has rank {len(shape)}"
    blocks = blocks_of(layout)
    if blocks != place.blocks:
        return f"layout has {blocks} CTAs per cluster, but the module has {place.blocks}"
    if any(size < 1 or size & (size - 1) for size in shape):
        return f"layout on a shape that is not a power of two, {list(shape)}"
    linear = linear_layout(layout, tuple(shape))
    lanes, warps = linear.in_size("lane"), linear.in_size("warp")
    if lanes != place.lanes:
        return f"layout has {lanes} threads per warp, but the module has {place.lanes}"
    if place.warps is None:
        return "nothing says how many warps there are (no ttg.num-warps)"
    if warps != place.warps:
        return f"layout has {warps} warps, but {place.warps} run this op"
    return None


def _memory_fault(
    layout: Attribute, shape: tuple[int, ...], alloc: tuple[int, ...], place: Place
) -> str | None:
    """Why a memory descriptor cannot be where `place` is; None if it can."""
    if not isinstance(layout, SHARED + TENSOR_MEMORY + DISTRIBUTED):
        return None
    rank = rank_of(layout)
    if len(shape) not in (rank, rank + 1):
        return (
            f"layout has rank {rank}, but the descriptor it is attached to has rank {len(shape)};"
            " it must be equal, or one more for multibuffering"
        )
    blocks = blocks_of(layout)
    if blocks != place.blocks:
        return f"layout has {blocks} CTAs per cluster, but the module has {place.blocks}"
    if isinstance(layout, SharedLinearEncodingAttr):
        own = own_layout(layout).out_shape
        if alloc[len(alloc) - rank :] != own:
            return f"layout has shape {list(own)}, but the descriptor has {list(alloc)}"
    return None


_VERDICTS: dict[tuple[int, Place], tuple[Attribute, str | None]] = {}
"""By the identity of a type (kept alive here) and the place: what is wrong with it there."""
_MOST = 1 << 16


def _fault(type_: Attribute, place: Place) -> str | None:
    key = (id(type_), place)
    known = _VERDICTS.get(key)
    if known is not None:
        return known[1]
    from xttir.dialects.ttg.types import MemDescType

    try:
        if isinstance(type_, TensorType):
            fault = _tensor_fault(type_, place)
        else:
            assert isinstance(type_, MemDescType)
            fault = _memory_fault(type_.encoding, type_.get_shape(), type_.get_alloc_shape(), place)
    except LayoutError as error:
        fault = error.what
    except Unsupported:
        # What has no layout here is not judged.
        fault = None
    if len(_VERDICTS) >= _MOST:
        _VERDICTS.clear()
    _VERDICTS[key] = (type_, fault)
    return fault


@dataclass(frozen=True)
class ValidLayouts(OpTrait):
    """`VerifyTensorLayoutsTrait` and `VerifyMemDescLayoutsTrait`."""

    def verify(self, op: Operation) -> None:
        place: Place | None = None
        for what, values in (("operand", op.operands), ("result", op.results)):
            for i, value in enumerate(values):
                type_ = value.type
                if isinstance(type_, TensorType):
                    if isinstance(type_.encoding, NoneAttr):
                        continue
                elif type_.name != "ttg.memdesc":
                    continue
                if place is None:
                    place = place_of(op)
                fault = _fault(type_, place)
                if fault is None and _is_unvetted(op, type_):
                    fault = f"generic linear layouts are not supported on {op.name}"
                if fault is not None:
                    raise VerifyException(f"{what} {i} has an invalid layout: {fault} ({type_})")
