"""What the parameters of an encoding must satisfy, whatever tensor it is put on.

Checked whenever an encoding is made. The rules are those of Triton's verifiers of attributes, in
`lib/Dialect/TritonGPU/IR/Dialect.cpp` and `lib/Dialect/TritonNvidiaGPU/IR/Dialect.cpp`. A parameter
that is left out is 0 or an empty list where it is so for Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, f32, i1, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts.enums import (
    CacheEvictionPriority,
    TensorMemoryScalesBlockRepOrder,
)
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout
from xttir.dialects.layouts.parameters import (
    DISTRIBUTED,
    SHARED,
    bases_of,
    cga_of,
    own_layout,
    rank_of,
)
from xttir.dialects.layouts.structs import StructAttr


def check(holds: bool, message: str | Callable[[], str]) -> None:
    """Raise a VerifyException with `message` unless `holds`.

    A message that prints types is better given as a function: printing costs more than checking.
    """
    if not holds:
        raise VerifyException(message if isinstance(message, str) else message())


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def check_encoding(encoding: StructAttr) -> None:
    """Raise a VerifyException where a parameter is unknown or has no possible value."""
    rule = _RULES.get(encoding.name)
    if rule is None:
        return
    known, specific = rule
    for key in encoding.parameters_.data:
        check(known is None or key in known, f"unexpected key: {key}")
    try:
        specific(encoding)
    except LayoutError as error:
        raise VerifyException(error.what) from error


def known_parameters(name: str) -> frozenset[str] | None:
    """The parameters that the attribute `name` may have; None where any are allowed."""
    rule = _RULES.get(name)
    return None if rule is None else rule[0]


# Parameters


def _numbers(encoding: StructAttr, name: str) -> tuple[int, ...]:
    """The list of unsigned integers `name`; empty where it is left out."""
    value = encoding.get(name)
    if value is None:
        return ()
    check(isinstance(value, ArrayAttr), f"expected an array for {name}")
    assert isinstance(value, ArrayAttr)
    return tuple(_unsigned(item, name) for item in value.data)


def _number(encoding: StructAttr, name: str) -> int:
    """The unsigned integer `name`; 0 where it is left out."""
    value = encoding.get(name)
    return 0 if value is None else _unsigned(value, name)


def _unsigned(value: Attribute, name: str) -> int:
    check(isinstance(value, IntegerAttr), f"expected an integer type in {name}")
    assert isinstance(value, IntegerAttr)
    check(value.value.data >= 0, f"expected an unsigned integer value in {name}")
    return value.value.data


def _flag(encoding: StructAttr, name: str) -> bool:
    """The bool `name`; False where it is left out."""
    value = encoding.get(name)
    if value is None:
        return False
    check(isinstance(value, IntegerAttr) and value.type == i1, f"expected a bool type in {name}")
    assert isinstance(value, IntegerAttr)
    return bool(value.value.data)


def _check_cga(encoding: StructAttr, rank: int) -> None:
    """`CGALayout` lists, for each bit of the block's index, the part of the tensor it goes to."""
    bases = bases_of(encoding.get("CGALayout"), "CGALayout")
    for basis in bases:
        check(len(basis) == rank, f"'CGALayout' entry length does not match rank {rank}")
    if bases:
        check(
            is_permutation(cga_of(encoding)),
            "after removing broadcast bases the CGA encoding must be a permutation matrix",
        )


def _check_order(order: Sequence[int]) -> None:
    check(
        sorted(order) == list(range(len(order))),
        f"order must be a permutation of 0..(rank-1), but was {list(order)}",
    )


def is_permutation(layout: LinearLayout) -> bool:
    """Whether each bit of an element's index comes from one bit of input, and others say nothing.

    So that no two dimensions are mixed (no swizzle), and none but equal copies occur.
    """
    seen: set[int] = set()
    for column in layout.columns:
        if column:
            if column & (column - 1) or column in seen:
                return False
            seen.add(column)
    return len(seen) == layout.out_bits


# Encodings of tensors


def _blocked(encoding: StructAttr) -> None:
    names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA")
    order = _numbers(encoding, "order")
    for name in names:
        values = _numbers(encoding, name)
        check(
            len(values) == len(order),
            "sizePerThread, threadsPerWarp, warpsPerCTA, and order must all have the same rank",
        )
        check(
            all(map(is_power_of_two, values)),
            f"every element in {name} must be a power of two",
        )
    _check_order(order)
    _check_cga(encoding, len(order))


def _slice(encoding: StructAttr) -> None:
    parent, dim = encoding.get("parent"), _number(encoding, "dim")
    check(isinstance(parent, DISTRIBUTED), "the parent must be the layout of a tensor")
    assert parent is not None
    rank = rank_of(parent)
    check(rank > 1, "parent layout must have at least rank >= 2")
    check(dim < rank, f"slice dim={dim} must be less than the parent rank={rank}")


def _own(encoding: StructAttr, names: Sequence[str]) -> LinearLayout:
    for name in names:
        check(encoding.get(name) is not None, f"expected basis of '{name}' not found")
    return own_layout(encoding)


def _linear(encoding: StructAttr) -> None:
    layout = _own(encoding, ("register", "lane", "warp", "block"))
    check(
        is_permutation(layout),
        "a linear layout must be a permutation matrix after removing broadcast bases",
    )


def _generic_linear(encoding: StructAttr) -> None:
    layout = _own(encoding, ("register", "lane", "warp", "block"))
    for name in ("register", "lane", "block"):
        check(
            all(sum(value != 0 for value in basis) <= 1 for basis in layout.bases(name)),
            "in a generic linear layout, register, lane, and block bases must move in at most one"
            f" dimension; swizzled bases found in '{name}'",
        )
    check(layout.is_surjective, "generic linear layout must be surjective")


def _nvidia_mma(encoding: StructAttr) -> None:
    version = _number(encoding, "versionMajor")
    check(version in (2, 3), f"versionMajor must be 2 (Ampere) or 3 (Hopper), got {version}")
    _numbers(encoding, "instrShape")
    _check_cga(encoding, len(_numbers(encoding, "warpsPerCTA")))


_MFMA_SHAPES = ((32, 32), (16, 16), (64, 4), (4, 64))


def _mfma(encoding: StructAttr) -> None:
    version = _number(encoding, "version")
    check(0 <= version <= 4, "version must be in the [0, 4] range")
    shape = _numbers(encoding, "instrShape")
    check(
        shape[:2] in _MFMA_SHAPES, f"invalid (mDim, nDim) combination: {', '.join(map(str, shape))}"
    )
    bits = _number(encoding, "elementBitWidth")
    check(bits in (0, 32, 64), "elementBitWidth must be 32 or 64")
    _flag(encoding, "isTransposed")
    _check_cga(encoding, len(_numbers(encoding, "warpsPerCTA")))


_WMMA_SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((16, 16, 16),),
    2: ((16, 16, 16), (16, 16, 32)),
    3: ((16, 16, 4), (16, 16, 32), (16, 16, 64), (16, 16, 128), (32, 16, 64), (32, 16, 128)),
}


def _wmma(encoding: StructAttr) -> None:
    version = _number(encoding, "version")
    check(version in _WMMA_SHAPES, "WMMA version must be in the [1, 3] range")
    shape = _numbers(encoding, "instrShape") or (16, 16, 16)
    check(shape in _WMMA_SHAPES[version], f"invalid WMMA v{version} instruction shape")


def _dot_op(encoding: StructAttr) -> None:
    index, width = _number(encoding, "opIdx"), _number(encoding, "kWidth")
    check(index in (0, 1), f"ttg.dot_op opIdx parameter can be 0 or 1, got: {index}")
    parent = encoding.get("parent")
    check(
        isinstance(parent, StructAttr) and parent.name in _PARENTS,
        lambda: f"ttg.dot_op unexpected parent layout: {parent}",
    )
    assert isinstance(parent, StructAttr)
    _PARENTS[parent.name](parent, index, width)


def _of_nvidia(parent: StructAttr, index: int, width: int) -> None:
    check(width != 0, "ttg.dot_op kWidth parameter is mandatory for Ampere or Hopper MMA parent")
    check(
        index == 0 or parent.number("versionMajor") != 3,
        "ttg.dot_op opIdx parameter must be 0 for Hopper MMA parent, since Hopper WGMMA only allows"
        " first operand to be in registers",
    )


def _of_wmma(parent: StructAttr, index: int, width: int) -> None:
    version = parent.number("version")
    allowed = {1: (8, 16), 2: (4, 8, 16)}.get(version)
    what = f"ttg.dot_op kWidth parameter must be one of {allowed} for WMMA v{version}"
    check(width in allowed if allowed else width != 0, what)


def _of_mfma(parent: StructAttr, index: int, width: int) -> None:
    check(width != 0, "ttg.dot_op kWidth parameter is mandatory for MFMA parent")


def _of_blocked(parent: StructAttr, index: int, width: int) -> None:
    check(
        width == 0,
        "ttg.dot_op kWidth parameter is not supported when the parent is a blocked layout",
    )


_PARENTS: dict[str, Callable[[StructAttr, int, int], None]] = {
    "ttg.nvidia_mma": _of_nvidia,
    "ttg.amd_wmma": _of_wmma,
    "ttg.amd_mfma": _of_mfma,
    "ttg.blocked": _of_blocked,
}


# Encodings of memory


def _swizzled(encoding: StructAttr) -> None:
    for name in ("vec", "perPhase", "maxPhase"):
        _number(encoding, name)
    order = _numbers(encoding, "order")
    _check_order(order)
    _check_cga(encoding, len(order))


def _nvmma(encoding: StructAttr) -> None:
    check(_number(encoding, "elementBitWidth") != 0, "elementBitWidth must be non-zero")
    check(
        "swizzlingByteWidth" in encoding.parameters_.data
        and _number(encoding, "swizzlingByteWidth") in (0, 32, 64, 128),
        "swizzlingByteWidth must be 0, 32, 64, or 128",
    )
    for name in ("transposed", "fp4Padded"):
        _flag(encoding, name)
    _check_cga(encoding, rank_of(encoding))


def _shared_linear(encoding: StructAttr) -> None:
    alignment: Any = encoding.alignment  # pyright: ignore[reportAttributeAccessIssue]
    check(is_power_of_two(alignment.data), "alignment must be a positive power of two")
    layout = _own(encoding, ("offset",))
    check(layout.is_surjective, "the layout must be surjective")
    kept = layout.without_zero_bases("offset").without_zero_bases("block")
    check(kept.is_invertible, "after removing the zero bases the layout must be bijective")


def _padded(encoding: StructAttr) -> None:
    intervals: Any = encoding.intervals  # pyright: ignore[reportAttributeAccessIssue]
    paddings: Any = encoding.paddings  # pyright: ignore[reportAttributeAccessIssue]
    sizes = [interval.data for interval in intervals]
    check(bool(sizes), "must have at least one interval-padding pair")
    check(all(map(is_power_of_two, sizes)), "interval values must all be power of two")
    check(
        all(is_power_of_two(padding.data) for padding in paddings),
        "padding values must all be power of two",
    )
    check(len(set(sizes)) == len(sizes), "interval values cannot have duplicates")
    if encoding.get("offset") is None and encoding.get("block") is None:
        order, shape = _numbers(encoding, "order"), _numbers(encoding, "shape")
        check(len(order) == len(shape), "mismatch of shape and order ranks in padded layout")
        _check_order(order)
        return
    layout = _own(encoding, ("offset", "block"))
    inside = layout.sublayout(["offset"], layout.out_names)
    check(inside.is_injective, "broadcasting in offset dimension is not supported")
    for _, many in layout.ins:
        for basis in many:
            check(
                sum(value != 0 for value in basis) <= 1,
                "each offset basis must move in at most one dimension",
            )
            check(
                all(value == 0 or is_power_of_two(value) for value in basis),
                "each offset basis must be 0 or a power of two",
            )


def _partitioned(encoding: StructAttr) -> None:
    partitions, groups = _number(encoding, "numPartitions"), _number(encoding, "numGroups")
    check(
        partitions >= 2 and is_power_of_two(partitions),
        "numPartitions must be a power of 2 and at least 2",
    )
    check(is_power_of_two(groups), "numGroups must be a power of 2 and greater than 0")
    inner, dim = encoding.get("partitionLayout"), _number(encoding, "partitionDim")
    check(isinstance(inner, SHARED), "partitionLayout must be a layout of shared memory")
    assert inner is not None
    rank = rank_of(inner)
    check(dim < rank, f"partitionDim ({dim}) must be less than the layout rank ({rank})")


def _tensor_memory(encoding: StructAttr) -> None:
    for name in ("blockM", "blockN", "colStride"):
        check(encoding.get(name) is not None, f"struct is missing required parameter: {name}")
    _check_cga(encoding, 2)
    if _flag(encoding, "twoCTAs"):
        bases = bases_of(encoding.get("CGALayout"), "CGALayout")
        check(
            bases[:1] == ((1, 0),),
            "twoCTAs layout requires the first CGALayout block basis to be [1, 0]",
        )
    rows, columns = _number(encoding, "blockM"), _number(encoding, "blockN")
    stride = _number(encoding, "colStride")
    check(rows in (64, 128), f"blockM must be 64 or 128 but got {rows}")
    check(is_power_of_two(columns), f"blockN must be a power of 2 but got {columns}")
    check(columns <= 512, f"blockN must be less than or equal to 512 but got {columns}")
    check(stride in (1, 2, 4), f"colStride must be 1, 2, or 4 but got {stride}")
    check(
        stride == 1 or not _flag(encoding, "fp4Padded"),
        f"fp4Padded tensor memory layout requires colStride 1 but got {stride}",
    )


def _scales(encoding: StructAttr) -> None:
    _check_cga(encoding, 2)
    order = encoding.get("blockRepOrder")
    words = tuple(case.keyword for case in TensorMemoryScalesBlockRepOrder)
    check(
        order is None or (isinstance(order, StringAttr) and order.data in words),
        f"expected one of {', '.join(words)}, got: {order}",
    )


# Cache policies


_MODIFIERS = ("none", "ca", "cg", "wb", "cs", "wt", "cv")
_PRIORITIES = tuple(case.keyword for case in CacheEvictionPriority)


def _cache_policy(encoding: StructAttr) -> None:
    words: dict[str, str] = {}
    for name in ("cache_modifier", "l1", "l2_primary", "l2_secondary"):
        value = encoding.get(name) or StringAttr("none")
        allowed = _MODIFIERS if name == "cache_modifier" else _PRIORITIES
        check(
            isinstance(value, StringAttr) and value.data in allowed,
            f"expected one of {', '.join(allowed)} for {name}, got: {value}",
        )
        assert isinstance(value, StringAttr)
        words[name] = value.data
    check(
        "none" in (words["cache_modifier"], words["l1"]),
        "cache modifier cannot be combined with an L1 eviction priority",
    )
    primary, secondary = words["l2_primary"], words["l2_secondary"]
    fraction, size = encoding.get("l2_fraction"), encoding.get("l2_prefetch_size")
    if primary == "none":
        check(
            secondary == "none" and fraction is None,
            "l2_secondary and l2_fraction require l2_primary",
        )
    else:
        check(primary != "no_allocate", f"invalid L2 primary eviction priority '{primary}'")
        check(
            secondary != "none" and fraction is not None,
            "L2 policy requires l2_secondary and l2_fraction",
        )
        check(
            secondary in ("evict_first", "evict_unchanged"),
            f"invalid L2 secondary eviction priority '{secondary}'",
        )
        check(
            isinstance(fraction, FloatAttr)
            and fraction.type == f32
            and math.isfinite(fraction.value.data)
            and 0 < fraction.value.data <= 1,
            "L2 fraction must be a finite f32 in (0, 1]",
        )
    check(
        size is None
        or (
            isinstance(size, IntegerAttr) and size.type == i32 and size.value.data in (64, 128, 256)
        ),
        "L2 prefetch size must be 64, 128, or 256",
    )


_SWIZZLE = frozenset(("vec", "perPhase", "maxPhase", "order", "CGALayout"))
_REGISTER = frozenset(("register", "lane", "warp", "block"))

_RULES: dict[str, tuple[frozenset[str] | None, Callable[[StructAttr], None]]] = {
    "ttg.blocked": (
        frozenset(("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order", "CGALayout")),
        _blocked,
    ),
    "ttg.slice": (None, _slice),
    "ttg.linear": (None, _linear),
    "ttg.generic_linear": (None, _generic_linear),
    "ttg.dot_op": (frozenset(("opIdx", "parent", "kWidth")), _dot_op),
    "ttg.nvidia_mma": (None, _nvidia_mma),
    "ttg.amd_mfma": (None, _mfma),
    "ttg.amd_wmma": (None, _wmma),
    "ttg.swizzled_shared": (_SWIZZLE, _swizzled),
    "ttg.amd_rotating_shared": (_SWIZZLE, _swizzled),
    "ttg.nvmma_shared": (
        frozenset(
            (
                "swizzlingByteWidth",
                "transposed",
                "elementBitWidth",
                "fp4Padded",
                "CGALayout",
                "rank",
            )
        ),
        _nvmma,
    ),
    "ttg.shared_linear": (None, _shared_linear),
    "ttg.padded_shared": (frozenset(("offset", "block", "order", "shape")), _padded),
    "ttg.partitioned_shared": (
        frozenset(("numPartitions", "numGroups", "partitionDim", "partitionLayout")),
        _partitioned,
    ),
    "ttng.tensor_memory_encoding": (
        frozenset(("blockM", "blockN", "colStride", "CGALayout", "twoCTAs", "fp4Padded")),
        _tensor_memory,
    ),
    "ttng.tensor_memory_scales_encoding": (frozenset(("CGALayout", "blockRepOrder")), _scales),
    "ttng.cache_policy": (
        frozenset(
            (
                "cache_modifier",
                "l1",
                "l2_primary",
                "l2_secondary",
                "l2_fraction",
                "l2_prefetch_size",
            )
        ),
        _cache_policy,
    ),
}
"""Per name: the parameters there are (None: others are ignored), and what they must satisfy."""
