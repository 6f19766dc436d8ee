"""Which layouts the operands and the result of a dot may have together.

The rules are those of `inferDotOpEncoding` and `verifyDotOpEncodingCompatibility` in
`lib/Dialect/TritonGPU/IR/Dialect.cpp`, and of `supportMMA` in `lib/Analysis/Utility.cpp`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from xttir.dialects.layouts.encodings import (
    GLUON_ENCODINGS,
    AMDWmmaEncodingAttr,
    DotOperandEncodingAttr,
    NvidiaMmaEncodingAttr,
    NVMMASharedEncodingAttr,
    SharedLinearEncodingAttr,
)
from xttir.dialects.layouts.parameters import cga_of, shape_per_block
from xttir.dialects.layouts.placement import warps_at
from xttir.dialects.ods import element_type_of
from xttir.dialects.tt.enums import InputPrecision
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import FP8_TYPES, OCP_FP8_TYPES


def check_dot_layouts(op: Operation, a: Attribute, b: Attribute, d: Attribute) -> None:
    """`a` and `b` are tensors of a dot whose result (and accumulator) is `d`; one has a layout."""
    assert isinstance(a, TensorType)
    assert isinstance(b, TensorType)
    assert isinstance(d, TensorType)
    check(
        not isinstance(a.encoding, NoneAttr) and not isinstance(b.encoding, NoneAttr),
        "mismatching encoding between A and B operands",
    )
    check(not isinstance(d.encoding, NoneAttr), "the accumulator of a dot has no layout")
    if isinstance(d.encoding, GLUON_ENCODINGS) or isinstance(a.encoding, GLUON_ENCODINGS):
        return
    check_operand(a.encoding, 0, d.encoding)
    check_operand(b.encoding, 1, d.encoding)
    check_pair(op, a, b, d)


def is_hopper(layout: Attribute) -> bool:
    """Whether this is the layout of a wgmma result."""
    return isinstance(layout, NvidiaMmaEncodingAttr) and layout.number("versionMajor") == 3


def check_operand(layout: Attribute, index: int, result: Attribute) -> None:
    """Operand `index` (0 or 1) of a dot whose result has the layout `result`."""
    if is_hopper(result):
        from_registers = (
            index == 0
            and isinstance(layout, DotOperandEncodingAttr)
            and layout.number("opIdx") == 0
            and isinstance(layout.get("parent"), NvidiaMmaEncodingAttr)
        )
        check(
            isinstance(layout, NVMMASharedEncodingAttr | SharedLinearEncodingAttr)
            or from_registers,
            "unexpected operand layout for NvidiaMmaEncodingAttr v3",
        )
        return
    check(
        isinstance(layout, DotOperandEncodingAttr),
        "operands of a dot must have the layout of a dot operand",
    )
    assert isinstance(layout, DotOperandEncodingAttr)
    check(layout.number("opIdx") == index, "wrong opIdx")
    parent = layout.get("parent")
    check(
        parent == result or _same_but_for_cga(parent, result),
        lambda: f"incompatible parent encoding: {parent}, but the result has {result}",
    )


def _same_but_for_cga(a: Attribute | None, b: Attribute) -> bool:
    """Operands of wmma lie otherwise in the cluster than its result."""
    if not isinstance(a, AMDWmmaEncodingAttr) or not isinstance(b, AMDWmmaEncodingAttr):
        return False
    mine = {k: v for k, v in a.parameters_.data.items() if k != "CGALayout"}
    return mine == {k: v for k, v in b.parameters_.data.items() if k != "CGALayout"}


def check_pair(op: Operation, a: TensorType, b: TensorType, d: TensorType) -> None:
    """Both operands together."""
    first, second = a.encoding, b.encoding
    if not isinstance(first, DotOperandEncodingAttr) and not isinstance(
        second, DotOperandEncodingAttr
    ):
        return
    check(
        isinstance(first, DotOperandEncodingAttr) and isinstance(second, DotOperandEncodingAttr),
        "mismatching encoding between A and B operands",
    )
    assert isinstance(first, DotOperandEncodingAttr)
    assert isinstance(second, DotOperandEncodingAttr)
    check(
        first.number("kWidth", 0) == second.number("kWidth", 0),
        "mismatching kWidth between A and B operands",
    )
    layouts = (first.get("parent"), second.get("parent"), d.encoding)
    nvidia = [layout for layout in layouts if isinstance(layout, NvidiaMmaEncodingAttr)]
    if nvidia:
        check(len(nvidia) == 3, "mismatching MMA encoding")
        versions = {layout.number("versionMajor") for layout in nvidia}
        check(len(versions) == 1, "mismatched MMA version")
        check(supports_mma(op, a, b, d, versions.pop()), "unsupported MMA version")
    if all(isinstance(layout, AMDWmmaEncodingAttr) for layout in layouts):
        _check_wmma_cga(first, second, d)


def _check_wmma_cga(
    first: DotOperandEncodingAttr, second: DotOperandEncodingAttr, d: TensorType
) -> None:
    """A is the same along N, B along M, for all blocks of a cluster."""
    whole, rank = cga_of(d.encoding), len(d.get_shape())
    check(whole.is_invertible, "accumulator CGA layout should not broadcast or have repeated rows")
    for index, (layout, dim) in enumerate(((first, rank - 1), (second, rank - 2))):
        check(
            cga_of(layout) == whole.resize_out(f"dim{dim}", 1),
            f"incompatible CGA layout for operand {index}",
        )


def mma_takes(element: Attribute, version: int) -> bool:
    """Whether tensor cores of a version take operands of this element type."""
    return (
        isinstance(element, (Float16Type, BFloat16Type, *FP8_TYPES))
        or (isinstance(element, Float32Type | Float64Type) and version >= 2)
        or (isinstance(element, IntegerType) and element.width.data == 8 and version >= 2)
    )


def supports_mma(op: Operation, a: TensorType, b: TensorType, d: TensorType, version: int) -> bool:
    """Whether tensor cores of a version compute the dot `op`."""
    one, two = element_type_of(a), element_type_of(b)
    both_f32 = isinstance(one, Float32Type) and isinstance(two, Float32Type)
    if op.name == "tt.dot":
        precision = op.properties.get("inputPrecision")
        tf32 = isinstance(precision, IntegerAttr) and (
            InputPrecision.of(precision) == InputPrecision.TF32
        )
        if both_f32 and not tf32:
            return False
        if version == 3 and not _wgmma_takes(op, a, d):
            return False
        if both_f32:
            return version >= 2
    return mma_takes(one, version) and mma_takes(two, version)


def _wgmma_takes(op: Operation, a: TensorType, d: TensorType) -> bool:
    element: Attribute = a.element_type
    bits = getattr(element, "bitwidth", 32)
    if a.get_shape()[-1] < 256 // bits or len(d.get_shape()) == 3:
        return False
    rows, columns = shape_per_block(cga_of(d.encoding), d.get_shape())[-2:]
    warps = warps_at(op)
    allowed = isinstance(element, (*OCP_FP8_TYPES, Float16Type, BFloat16Type, Float32Type)) or (
        isinstance(element, IntegerType) and element.width.data == 8
    )
    if warps is None or warps % 4 or rows % 64 or columns % 8 or not allowed:
        return False
    imprecise = op.properties.get("maxNumImpreciseAcc")
    limit = imprecise.value.data if isinstance(imprecise, IntegerAttr) else 0
    return not (
        limit < 32
        and isinstance(element, OCP_FP8_TYPES)
        and isinstance(d.element_type, Float32Type)
    )
