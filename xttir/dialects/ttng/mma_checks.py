"""What ops on tensor cores and tensor memory require (`ttng.warp_group_dot`, `ttng.tc_gen5_*`).

The rules are those of the verifiers in Triton's `lib/Dialect/TritonNvidiaGPU/IR/Ops.cpp`; which
types go together is said in the PTX ISA, section "Kind shapes" of tcgen05.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    TensorType,
    bf16,
    f16,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    DotOperandEncodingAttr,
    NVMMASharedEncodingAttr,
    SharedLinearEncodingAttr,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
    TensorMemorySpaceAttr,
)
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout
from xttir.dialects.layouts.parameters import cga_of, shape_per_block
from xttir.dialects.layouts.placement import target_at, warps_at
from xttir.dialects.layouts.to_linear import linear_layout, memory_shape
from xttir.dialects.tt.compute import check_dot
from xttir.dialects.tt.dot_layouts import check_operand, is_hopper, mma_takes
from xttir.dialects.tt.enums import ScaleDotElemType
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import OCP_FP8_TYPES, bit_width
from xttir.dialects.ttg.types import MemDescType
from xttir.dialects.ttng.barrier_checks import check_completion

_IN_SHARED = (NVMMASharedEncodingAttr, SharedLinearEncodingAttr)


# wgmma


def check_warp_group_dot(
    op: Operation, a: Attribute, b: Attribute, d: Attribute, imprecise: int
) -> None:
    """wgmma: d += a @ b, with b, and maybe a, in shared memory."""
    assert isinstance(a, TensorType | MemDescType)
    assert isinstance(b, MemDescType)
    assert isinstance(d, TensorType)
    check_dot(tuple(a.get_shape()), b.get_shape(), d.get_shape())
    check(is_hopper(d.encoding), "WGMMA result layout must be Hopper NVMMA")
    check(
        isinstance(a.encoding, (*_IN_SHARED, DotOperandEncodingAttr)),
        "WGMMA A operand must have NVMMA shared or dot layout",
    )
    check(isinstance(b.encoding, _IN_SHARED), "WGMMA B operand must have NVMMA shared layout")
    check_operand(a.encoding, 0, d.encoding)
    check_operand(b.encoding, 1, d.encoding)
    warps = warps_at(op)
    check(warps is not None and warps % 4 == 0, "WGMMA requires num_warps to be divisible by 4")
    part = shape_per_block(cga_of(d.encoding), d.get_shape())
    check(len(part) == 2, "WGMMA result shape must be 2D")
    check(part[0] % 64 == 0, "WGMMA result M dimension must be divisible by 64")
    check(part[1] % 8 == 0, "WGMMA result N dimension must be divisible by 8")
    check(
        mma_takes(a.element_type, 3) and mma_takes(b.element_type, 3),
        "unsupported MMA version for the given operands",
    )
    check(
        imprecise >= 32
        or not isinstance(a.element_type, OCP_FP8_TYPES)
        or not isinstance(d.element_type, Float32Type),
        "cannot use F32 as the accumulator element type when the max_num_imprecise_acc is less"
        " than 32",
    )
    if isinstance(a, TensorType):
        assert isinstance(a.encoding, DotOperandEncodingAttr)
        width, got = 32 // bit_width(a.element_type), a.encoding.number("kWidth", 0)
        check(
            got == width,
            f"in-register LHS operand must have a kWidth of {width} but got {got}",
        )


# tcgen05


def kind_of(element: Attribute) -> tuple[str, tuple[Attribute, ...]] | None:
    """The kind of instruction for operands of this type, and its types of accumulators."""
    match element:
        case Float32Type():
            return "tf32", (f32,)
        case Float16Type():
            return "f16", (f16, f32)
        case BFloat16Type():
            return "f16", (f32,)
        case IntegerType() if element.width.data == 8:
            return "i8", (i32,)
        case IntegerType():
            return None
        case _:
            bits = getattr(element, "bitwidth", 0)
            return ("f8f6f4", (f16, f32)) if bits in (4, 6, 8) else None


def check_kinds(
    a: tuple[str, tuple[Attribute, ...]] | None,
    b: tuple[str, tuple[Attribute, ...]] | None,
    d: Attribute,
) -> None:
    """Operands of kinds `a` and `b` (see `kind_of`) and an accumulator of type `d`."""
    check(a is not None, "unsupported LHS operand dtype")
    check(b is not None, "unsupported RHS operand dtype")
    assert a is not None
    assert b is not None
    check(
        a[0] == b[0],
        f"LHS and RHS operand dtypes kinds don't match: LHS kind is {a[0]} but RHS kind is {b[0]}",
    )
    check(
        d in a[1] and d in b[1],
        lambda: (
            f"unsupported accumulator dtype {d}; it must be one of "
            + ", ".join(str(one) for one in a[1] if one in b[1])
        ),
    )


def check_barriers(op: Operation, is_async: bool, barriers: Sequence[Attribute]) -> None:
    check(is_async or not barriers, "the op is synchronous but a barrier is present")
    for barrier in barriers:
        check_completion(op, barrier)


def _layout(type_: MemDescType) -> LinearLayout:
    return linear_layout(type_.encoding, memory_shape(type_.encoding, type_.get_shape()))


def _is_interleaved(type_: MemDescType) -> bool:
    """Two blocks of 64 rows share the 128 lanes of tensor memory."""
    layout = type_.encoding
    return (
        isinstance(layout, TensorMemoryEncodingAttr)
        and layout.number("blockM") == 64
        and any(_layout(type_).bases("row")[4])
    )


def check_mma(op: Operation, a: Attribute, b: Attribute, d: Attribute, two_ctas: bool) -> None:
    """tcgen05.mma of a and b into d."""
    assert isinstance(a, MemDescType)
    assert isinstance(b, MemDescType)
    assert isinstance(d, MemDescType)
    check_dot(a.get_shape(), b.get_shape(), d.get_shape())
    check_kinds(kind_of(a.element_type), kind_of(b.element_type), d.element_type)
    for type_, what in ((a, "LHS operand"), (b, "RHS operand"), (d, "return operand")):
        check(len(type_.get_shape()) == 2, f"{what} must have a rank-2 tensor")
    check(
        isinstance(a.encoding, (*_IN_SHARED, TensorMemoryEncodingAttr)),
        "LHS operand must have a NVMMAShared or TensorMemory encoding",
    )
    check(isinstance(b.encoding, _IN_SHARED), "RHS operand must have a NVMMAShared encoding")
    layout = d.encoding
    check(
        isinstance(layout, TensorMemoryEncodingAttr),
        "return operand must have a TensorMemory encoding",
    )
    assert isinstance(layout, TensorMemoryEncodingAttr)
    check(not layout.number("fp4Padded", 0), "accumulator must not be fp4_padded")
    if isinstance(a.encoding, TensorMemoryEncodingAttr):
        check(a.encoding.number("colStride") == 1, "the col stride of the LHS operand must be 1")
        check(
            not a.encoding.number("fp4Padded", 0),
            "fp4_padded tensor memory LHS is only supported by scaled MMA",
        )
    stride, wanted = layout.number("colStride"), 32 // bit_width(d.element_type)
    check(
        stride == wanted,
        f"the col stride of the return operand must be {wanted} but got {stride}",
    )
    columns = shape_per_block(cga_of(layout), d.get_shape())[1]
    check(
        min(layout.number("blockN"), columns) <= 256,
        "the block size of the return operand must be less than or equal to 256",
    )
    try:
        check(
            not (_is_interleaved(a) and _is_interleaved(d)),
            "does not support blockM=64 with interleaved blocks in TMEM layout",
        )
        _check_ctas(a, b, d, two_ctas)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return


def _check_ctas(a: MemDescType, b: MemDescType, d: MemDescType, two_ctas: bool) -> None:
    """How the CTAs of a cluster share the work."""
    first, second = cga_of(a.encoding), cga_of(b.encoding)
    check(first.out_size("dim1") == 1, "LHS CTASplit along K should be 1")
    check(second.out_size("dim0") == 1, "RHS CTASplit along K should be 1")
    if two_ctas:
        check(
            second.bases("block")[:1] == ((0, 1),),
            "twoCTA mode expects the first basis of the cga_layout of the RHS to be [0, 1]",
        )
        split = cga_of(d.encoding).out_size("dim1")
        check(
            d.get_shape()[1] // split <= 256,
            "more than one mma instruction along N in twoCTA mode; reduce the block or increase"
            " the number of warps or CTAs along N",
        )
    for type_, what in ((d, "returned value"), (a, "LHS operand")):
        layout = type_.encoding
        if isinstance(layout, TensorMemoryEncodingAttr):
            check(
                bool(layout.number("twoCTAs", 0)) == two_ctas,
                f"the {what}'s encoding must have twoCTAs = {str(two_ctas).lower()}",
            )
    rows, columns = _layout(a).bases("block"), _layout(b).bases("block")
    for i, basis in enumerate(_layout(d).bases("block")):
        want = (
            rows[i][0] if i < len(rows) else 0,
            0 if two_ctas and i == 0 else columns[i][1] if i < len(columns) else 0,
        )
        check(
            basis == want,
            f"expected block basis {list(want)} at result index {i}, but got {list(basis)}",
        )


_FP8 = (ScaleDotElemType.E4M3, ScaleDotElemType.E5M2)
_KINDS: dict[ScaleDotElemType, tuple[str, tuple[Attribute, ...]] | None] = {
    ScaleDotElemType.E4M3: ("f8f6f4", (f16, f32)),
    ScaleDotElemType.E5M2: ("f8f6f4", (f16, f32)),
    ScaleDotElemType.E2M3: ("f8f6f4", (f16, f32)),
    ScaleDotElemType.E3M2: ("f8f6f4", (f16, f32)),
    ScaleDotElemType.E2M1: ("f8f6f4", (f16, f32)),
    ScaleDotElemType.BF16: kind_of(bf16),
    ScaleDotElemType.FP16: kind_of(f16),
}


def _is_transposed(type_: MemDescType) -> bool:
    layout = type_.encoding
    return isinstance(layout, NVMMASharedEncodingAttr) and bool(layout.number("transposed", 0))


def check_mma_scaled(
    op: Operation,
    a: Attribute,
    b: Attribute,
    d: Attribute,
    scales: tuple[Attribute, Attribute],
    formats: tuple[ScaleDotElemType, ScaleDotElemType],
) -> None:
    """tcgen05.mma of block-scaled a and b into d."""
    assert isinstance(a, MemDescType)
    assert isinstance(b, MemDescType)
    assert isinstance(d, MemDescType)
    _check_scaled_shapes(a, b, d, formats)

    def kind(type_: MemDescType, format_: ScaleDotElemType):
        integer = isinstance(type_.element_type, IntegerType)
        return _KINDS[format_] if integer else kind_of(type_.element_type)

    check_kinds(kind(a, formats[0]), kind(b, formats[1]), d.element_type)
    layout = d.encoding
    check(
        isinstance(layout, TensorMemoryEncodingAttr),
        "expected accumulator layout to be a TensorMemoryLayout",
    )
    assert isinstance(layout, TensorMemoryEncodingAttr)
    check(not layout.number("fp4Padded", 0), "accumulator layout must not be fp4_padded")
    check(layout.number("blockM") == 128, "only supports instruction shape blockM=128")
    if isinstance(a.encoding, TensorMemoryEncodingAttr):
        _check_left(a.element_type, a.encoding, formats)
    for is_left, scale in zip((True, False), scales, strict=True):
        assert isinstance(scale, MemDescType)
        other = scales[1 if is_left else 0]
        assert isinstance(other, MemDescType)
        _check_scale(op, scale, other, is_left, formats)


def _check_scaled_shapes(
    a: MemDescType,
    b: MemDescType,
    d: MemDescType,
    formats: tuple[ScaleDotElemType, ScaleDotElemType],
) -> None:
    """Shapes count bytes where two fp4 share one, along K or along the other dimension."""
    left, right = list(a.get_shape()), list(b.get_shape())
    if formats[0] == ScaleDotElemType.E2M1:
        left[-2 if _is_transposed(a) else -1] *= 2
    if formats[1] == ScaleDotElemType.E2M1:
        along_k = isinstance(b.encoding, NVMMASharedEncodingAttr) and not _is_transposed(b)
        right[-1 if along_k else -2] *= 2
    check_dot(tuple(left), tuple(right), d.get_shape())


def _check_left(
    element: Attribute,
    layout: TensorMemoryEncodingAttr,
    formats: tuple[ScaleDotElemType, ScaleDotElemType],
) -> None:
    """The left operand in tensor memory."""
    left, right = formats
    if left == ScaleDotElemType.E2M1:
        check(
            isinstance(element, IntegerType) and element.width.data == 8,
            "expected e2m1 LHS operand to have i8 storage",
        )
        padded = bool(layout.number("fp4Padded", 0))
        check(not padded or right in _FP8, "can only use fp4_padded LHS when RHS is float8")
        check(
            padded or right not in _FP8,
            "expected e2m1 LHS operand to be fp4_padded when RHS is float8",
        )
        return
    check(isinstance(element, OCP_FP8_TYPES), "unsupported LHS operand type for scaled MMA")
    check(left in _FP8, "expected float8 LHS operand to have e4m3 or e5m2 format")


def _check_scale(
    op: Operation,
    scale: MemDescType,
    other: MemDescType,
    is_left: bool,
    formats: tuple[ScaleDotElemType, ScaleDotElemType],
) -> None:
    """In which order the blocks of scales follow each other, where there are several both ways."""
    if not isinstance(scale.memory_space, TensorMemorySpaceAttr):
        return
    part = shape_per_block(cga_of(scale.encoding), scale.get_shape())
    matters = part[-2] > 128 and part[-1] > 4
    layout, what = scale.encoding, "A" if is_left else "B"
    if not isinstance(layout, TensorMemoryScalesEncodingAttr):
        check(
            not matters,
            f"{what} scales in tensor memory must use #ttng.tensor_memory_scales_encoding",
        )
        return
    order = layout.get("blockRepOrder")
    got = getattr(order, "data", "mnThenK")
    if not matters and got == "mnThenK":
        return
    rubin = (
        target_at(op) == "cuda:107"
        and is_left
        and formats == (ScaleDotElemType.E2M1, ScaleDotElemType.E2M1)
        and all(isinstance(s.element_type, Float8E4M3FNType) for s in (scale, other))
    )
    wanted = "kThenMn" if rubin else "mnThenK"
    check(
        got == wanted,
        f"{what} scales in tensor memory must use"
        f" #ttng.tensor_memory_scales_encoding<blockRepOrder = {wanted}>",
    )


# Tensor memory


def is_tensor_memory(layout: Attribute) -> bool:
    return isinstance(layout, TensorMemoryEncodingAttr | TensorMemoryScalesEncodingAttr)


def check_register_rank(type_: Attribute) -> None:
    """What goes between registers and tensor memory."""
    assert isinstance(type_, TensorType)
    check(type_.get_num_dims() == 2, "what tensor memory holds must be a 2D tensor")


def check_tmem_copy(source: Attribute, target: Attribute) -> None:
    """tcgen05.cp of shared into tensor memory."""
    assert isinstance(source, MemDescType)
    assert isinstance(target, MemDescType)
    check(
        not isinstance(source.memory_space, TensorMemorySpaceAttr),
        "the source must be a shared memory buffer",
    )
    check(
        source.get_shape() == target.get_shape(),
        f"source shape {list(source.get_shape())} must match destination shape"
        f" {list(target.get_shape())}",
    )
    check(bool(target.mutable_memory.data), "cannot copy into an immutable alloc")
    layout = source.encoding
    if isinstance(layout, SharedLinearEncodingAttr):
        check(
            layout.alignment.data >= 16,
            "source must have at least 16-byte alignment to be representable in a matrix"
            " descriptor",
        )
    check(
        cga_of(layout).bases("block") == cga_of(target.encoding).bases("block"),
        "the source and destination must have the same cga layout",
    )
    nvmma = layout if isinstance(layout, NVMMASharedEncodingAttr) else None
    if nvmma is not None:
        check(
            not nvmma.number("transposed", 0) and not nvmma.number("fp4Padded", 0),
            "the source should not be transposed or padded",
        )
    swizzle = None if nvmma is None else nvmma.number("swizzlingByteWidth")
    if isinstance(target.encoding, TensorMemoryScalesEncodingAttr):
        check(not swizzle, "the source should not be swizzled for now")
        return
    check(isinstance(target.encoding, TensorMemoryEncodingAttr), "incorrect tmem layout")
    assert isinstance(target.encoding, TensorMemoryEncodingAttr)
    check(target.encoding.number("blockM") == 128, "tmem layout must have blockM=128")
    check(swizzle != 0, "source layout should be swizzled")
    check(bit_width(source.element_type) == 32, "source element type should be 32-bit")
    try:
        columns = _layout(target).bases("col")
    except LayoutError as error:
        raise VerifyException(error.what) from error
    whole = next((i for i, basis in enumerate(columns) if not any(basis)), len(columns))
    check(whole >= 2, "the destination must have at least 128 contiguous bits per TMEM row")


def check_tmem_subslice(source: Attribute, result: Attribute, offset: int, dim: int) -> None:
    """`result` is the part of `source` that begins at `offset` along `dim`."""
    assert isinstance(source, MemDescType)
    assert isinstance(result, MemDescType)
    for type_, what in ((source, "source"), (result, "destination")):
        check(
            isinstance(type_.memory_space, TensorMemorySpaceAttr),
            f"the {what} must be a tensor memory buffer",
        )
    check(
        source.element_type == result.element_type,
        "the source and result must have the same element type",
    )
    check(source.encoding == result.encoding, "the source and result must have the same encoding")
    check(
        source.alloc_shape == result.alloc_shape,
        "the source and result must have the same alloc shape",
    )
    whole, part = source.get_shape(), result.get_shape()
    check(
        len(whole) == len(part) and len(whole) in (2, 3),
        "the source and result must both be 2D or 3D tensor memory buffers",
    )
    check(0 <= dim < len(whole), "the slice dimension must be within the descriptor rank")
    check(
        all(a == b for i, (a, b) in enumerate(zip(whole, part, strict=True)) if i != dim),
        "the result must have the same size as the source in the dimensions that are not being"
        " sliced",
    )
    check(
        offset >= 0 and offset + part[dim] <= whole[dim],
        "the split offset may not exceed the source shape",
    )
    if len(whole) == 3 and dim == 0:
        return
    try:
        _check_tmem_split(source, part[-2:], offset, dim - (len(whole) - 2))
    except LayoutError as error:
        raise VerifyException(error.what) from error


def _check_tmem_split(source: MemDescType, part: Sequence[int], offset: int, dim: int) -> None:
    layout = _layout(source)
    size = part[dim]
    if offset & (size - 1):
        # The bits that an index of the slice can carry into must be adjacent in memory.
        first = (offset & -offset).bit_length() - 1
        last = (offset ^ (offset + size - 1)).bit_length() - 1
        wanted = [
            tuple(1 << bit if i == dim else 0 for i in range(2)) for bit in range(first, last + 1)
        ]
        check(
            any(
                list(many[start : start + len(wanted)]) == wanted
                for many in (layout.bases("row"), layout.bases("col"))
                for start in range(len(many))
            ),
            "the split offset may not touch the tile",
        )
    check(
        all(basis[dim] < size for basis in layout.bases("block")),
        "the result may not be sliced across CTAs",
    )
    place = layout.pseudo_invert().apply(
        **{name: offset if i == dim else 0 for i, name in enumerate(layout.out_names)}
    )
    check(
        int(place["col"]) * bit_width(source.element_type) % 32 == 0,
        "the split offset must be 32-bit aligned in tensor memory",
    )


def check_tmem_reduction(
    op: Operation,
    source: Attribute,
    result: Attribute,
    has_result: bool,
    operation: Attribute | None,
    flags: dict[str, IntegerAttr | None],
) -> None:
    """The reduction along rows that comes with a load."""
    assert isinstance(source, MemDescType)
    assert isinstance(result, TensorType)
    check(operation is None or has_result, "redOp is set but 'red' result is not present")
    check(operation is not None or not has_result, "'red' result is present but redOp is not set")
    for name, flag in flags.items():
        if flag is not None and flag.value.data:
            check(operation is not None, f"'{name}' requires 'redOp' to be set")
            check(
                isinstance(source.element_type, Float32Type),
                f"'{name}' requires floating-point element type (f32)",
            )
    if operation is None or isinstance(result.encoding, NoneAttr):
        return
    try:
        layout = linear_layout(result.encoding, tuple(result.get_shape()))
    except (LayoutError, Unsupported):
        return
    own = [1, 1]
    for basis in layout.bases("register"):
        for dim in (0, 1):
            if basis[dim]:
                own[dim] *= 2
    check(
        own[1] == layout.out_size("dim1"),
        "tmem_load reduction with N dimension sharded across threads is not supported",
    )
    check(own[0] == 1, "tmem_load reduction with multiple M rows per thread is not supported")
