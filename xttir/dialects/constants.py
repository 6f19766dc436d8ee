"""Constants bit for bit: float attributes from and to their bits, and attributes as numpy arrays.

xDSL keeps a float as a Python float, and its rounding quiets signalling NaNs. Here a NaN is kept as
the double whose payload is that of the narrow type, extended by zeros, so no bit is lost. A splat
is stored like any dense attribute (its bytes repeated), and `constant_value` finds it again by one
comparison of memory; it is never expanded to Python objects.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    FloatData,
    FloatNanEncoding,
    FloatNonfiniteBehavior,
    IndexType,
    IntegerAttr,
    IntegerType,
    ReducedPrecisionFloatType,
)
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported

if TYPE_CHECKING:
    import numpy as np


class Format(NamedTuple):
    """A binary float format. `nans`: "ieee", "ones" (all bits below the sign), "-0" or "none"."""

    exponent_bits: int
    mantissa_bits: int
    nans: str


_IEEE: dict[type[Attribute], Format] = {
    Float16Type: Format(5, 10, "ieee"),
    BFloat16Type: Format(8, 7, "ieee"),
    Float32Type: Format(8, 23, "ieee"),
    Float64Type: Format(11, 52, "ieee"),
}


def format_of(type_: AnyFloat) -> Format | None:
    """The layout of a float type; None for those wider than a double (f80, f128)."""
    if isinstance(type_, ReducedPrecisionFloatType):
        semantics = type_.SEMANTICS
        if semantics.nonfinite is FloatNonfiniteBehavior.FINITE_ONLY:
            nans = "none"
        elif semantics.nan_encoding is FloatNanEncoding.NEGATIVE_ZERO:
            nans = "-0"
        elif semantics.nan_encoding is FloatNanEncoding.ALL_ONES:
            nans = "ones"
        else:
            nans = "ieee"
        return Format(semantics.exponent_bits, semantics.mantissa_bits, nans)
    return _IEEE.get(type(type_))


def double_bits(value: float) -> int:
    """The 64 bits of a Python float."""
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def double_from_bits(bits: int) -> float:
    """The Python float with these 64 bits; a signalling NaN stays one."""
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def float_from_bits(bits: int, type_: AnyFloat) -> float:
    """The value of `bits` in `type_`, as a double. NaNs keep sign and payload."""
    value: float = next(iter(type_.iter_unpack(bits.to_bytes(type_.compile_time_size, "little"))))
    form = format_of(type_)
    if form is None or not math.isnan(value):
        return value
    sign = bits >> (form.exponent_bits + form.mantissa_bits) & 1
    payload = bits & ((1 << form.mantissa_bits) - 1) if form.nans == "ieee" else 0
    payload <<= 52 - form.mantissa_bits
    return double_from_bits(sign << 63 | 0x7FF << 52 | (payload or 1 << 51))


def float_to_bits(value: float, type_: AnyFloat) -> int:
    """The bits of `value` in `type_`: rounded to nearest even, to infinity on overflow."""
    form = format_of(type_)
    if form is not None and math.isnan(value):
        bits = double_bits(value)
        sign, payload = bits >> 63, bits & ((1 << 52) - 1)
        below_sign = form.exponent_bits + form.mantissa_bits
        if form.nans == "-0":
            return 1 << below_sign
        if form.nans == "ones":
            return sign << below_sign | (1 << below_sign) - 1
        if form.nans == "ieee":
            exponent = (1 << form.exponent_bits) - 1 << form.mantissa_bits
            payload >>= 52 - form.mantissa_bits
            return sign << below_sign | exponent | (payload or 1 << form.mantissa_bits - 1)
    try:
        packed = type_.pack((value,))
    except OverflowError:  # struct raises where IEEE rounding gives infinity
        packed = type_.pack((math.copysign(math.inf, value),))
    return int.from_bytes(packed, "little")


def float_attr_from_bits(bits: int, type_: AnyFloat) -> FloatAttr:
    """The attribute `type_` with exactly these bits (xDSL's constructor would quiet a NaN)."""
    return FloatAttr.new((FloatData(float_from_bits(bits, type_)), type_))


def float_attr_bits(attr: FloatAttr) -> int:
    """The bits of a float attribute in its own type."""
    return float_to_bits(attr.value.data, attr.type)


def is_splat(attr: DenseIntOrFPElementsAttr) -> bool:
    """Whether all elements have the same bits (and there is one)."""
    data, size = attr.data.data, attr.type.element_type.compile_time_size
    return bool(data) and data == data[:size] * (len(data) // size)


def splat(type_: Attribute, element: bytes) -> DenseIntOrFPElementsAttr:
    """The dense attribute of shaped type `type_` with every element's bytes equal to `element`."""
    count = math.prod(type_.get_shape())  # pyright: ignore[reportAttributeAccessIssue]
    return DenseIntOrFPElementsAttr(type_, BytesAttr(element * count))  # pyright: ignore[reportArgumentType]


def numpy_dtype(type_: Attribute) -> np.dtype:
    """The dtype of values of a scalar type: i1 is bool, other integers signed, fp8 ml_dtypes'."""
    import numpy as np

    if isinstance(type_, IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, IntegerType):
        width = type_.width.data
        if width == 1:
            return np.dtype(bool)
        if width in (8, 16, 32, 64):
            return np.dtype(f"int{width}")
    elif isinstance(type_, Float16Type | Float32Type | Float64Type):
        return np.dtype(f"float{type_.bitwidth}")
    elif isinstance(type_, AnyFloat):
        import ml_dtypes

        # f8E4M3FN is ml_dtypes.float8_e4m3fn
        name = "bfloat16" if isinstance(type_, BFloat16Type) else _ml_dtypes_name(type_.name)
        if hasattr(ml_dtypes, name):
            return np.dtype(getattr(ml_dtypes, name))
    raise Unsupported(f"constants of type {type_}")


def _ml_dtypes_name(name: str) -> str:
    head, tail = name[:2], name[2:]
    return f"float{head[1:]}_{tail.lower()}"


def constant_value(attr: Attribute) -> np.ndarray:
    """The value of a constant, read-only: shape () for scalars and splats, else the full shape.

    Takes IntegerAttr, FloatAttr and DenseIntOrFPElementsAttr (such as `arith.ConstantOp.value`).
    Integers come signed, i1 as bool, bf16 and fp8 as ml_dtypes' dtypes, every float with its exact
    bits. Raises Unsupported for other attributes and element types.
    """
    import numpy as np

    if isinstance(attr, IntegerAttr):
        dtype = numpy_dtype(attr.type)
        value = attr.value.data
        if dtype != np.bool_:
            value = (value + (1 << 8 * dtype.itemsize - 1)) % (1 << 8 * dtype.itemsize)
            value -= 1 << 8 * dtype.itemsize - 1
        result = np.array(value, dtype)
    elif isinstance(attr, FloatAttr):
        dtype = numpy_dtype(attr.type)
        packed = float_attr_bits(attr).to_bytes(dtype.itemsize, "little")
        result = np.frombuffer(packed, dtype).reshape(())
    elif isinstance(attr, DenseIntOrFPElementsAttr):
        element = attr.type.element_type
        dtype = numpy_dtype(element)
        data, shape = attr.data.data, attr.get_shape()
        if is_splat(attr):
            data, shape = data[: element.compile_time_size], ()
        if dtype == np.bool_:
            result = (np.frombuffer(data, np.uint8) & 1).astype(bool).reshape(shape)
        else:
            result = np.frombuffer(data, dtype).reshape(shape)
    else:
        raise Unsupported(f"constant {attr}")
    result.flags.writeable = False
    return result
