"""Element types of matrix operands: codes to exact values and exponents.

The tensor cores align products by the exponents that the operands carry, not by those of the
values: a subnormal has the smallest exponent of its format. So an element is a pair (value,
exponent), taken from tables for formats of 16 bits and less. Formats: IEEE 754, OCP 8-bit and
Microscaling 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

ZERO = -9999
"""The exponent of zero: below every other, also after two of them were added (fits int16)."""


@dataclass(frozen=True)
class Format:
    """A floating-point format. `store` is the bits that an element takes where it is unpacked."""

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    specials: str
    """What the largest exponent means: "ieee", "nan" (only all ones is NaN), "" (ordinary)."""
    signed: bool = True

    @property
    def bias(self) -> int:
        return max(1, (1 << (self.exponent_bits - 1)) - 1)

    @property
    def smallest(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias


FORMATS = {
    f.name: f
    for f in (
        Format("f16", 16, 5, 10, "ieee"),
        Format("bf16", 16, 8, 7, "ieee"),
        Format("tf32", 32, 8, 23, "ieee"),
        Format("f32", 32, 8, 23, "ieee"),
        Format("e4m3", 8, 4, 3, "nan"),
        Format("e5m2", 8, 5, 2, "ieee"),
        Format("e2m3", 6, 2, 3, ""),
        Format("e3m2", 6, 3, 2, ""),
        Format("e2m1", 4, 2, 1, ""),
    )
}
"""tf32 is f32 whose low 13 bits are ignored."""


@cache
def _tables(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(float64 values, int16 exponents) of all codes of a format of at most 16 bits."""
    f = FORMATS[name]
    codes = np.arange(1 << f.bits, dtype=np.int64)
    fraction = codes & ((1 << f.mantissa_bits) - 1)
    exponent = (codes >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1)
    top = (1 << f.exponent_bits) - 1
    scale = np.maximum(exponent, 1) - f.bias
    values = np.ldexp((exponent > 0) * 1.0 + np.ldexp(fraction * 1.0, -f.mantissa_bits), scale)
    exponents = np.where(values == 0, ZERO, scale)
    if f.specials == "ieee":
        values = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), values)
    elif f.specials == "nan":
        ones = (exponent == top) & (fraction == (1 << f.mantissa_bits) - 1)
        values = np.where(ones, np.nan, values)
    values = np.where(codes >> (f.bits - 1) & 1, -values, values)
    return values, exponents.astype(np.int16)


def decode(name: str, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(float64 value, int16 exponent) of unsigned codes; both as `codes` in shape.

    The exponent of zero is `ZERO`; that of infinity and NaN is of no use. Codes of formats with
    less than 8 bits lie in the low bits, whatever stands above is ignored.
    """
    f = FORMATS[name]
    if f.bits == 32:
        bits = codes.astype(np.uint32)
        if name == "tf32":
            bits &= np.uint32(0xFFFFE000)
        with np.errstate(invalid="ignore"):
            values = bits.view(np.float32).astype(np.float64)
        return values, _exponents32(bits)
    values, exponents = _tables(name)
    if f.bits not in (8, 16):
        codes = codes & ((1 << f.bits) - 1)
    return values[codes], exponents[codes]


def _exponents32(bits: np.ndarray) -> np.ndarray:
    field = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int16)
    exponents = np.maximum(field, 1) - np.int16(127)
    return np.where(bits & np.uint32(0x7FFFFFFF), exponents, np.int16(ZERO))


def integers(name: str, codes: np.ndarray) -> np.ndarray:
    """float64 values of integer codes: s8, u8, s4, u4 (in the low bits), b1."""
    if name == "s8":
        return codes.astype(np.uint8).view(np.int8).astype(np.float64)
    if name == "u8":
        return codes.astype(np.uint8).astype(np.float64)
    if name == "u4":
        return (codes & 15).astype(np.float64)
    if name == "s4":
        low = (codes & 15).astype(np.int64)
        return (low - (low & 8) * 2).astype(np.float64)
    raise KeyError(name)


@cache
def _scale_table(name: str) -> np.ndarray:
    codes = np.arange(256)
    if name == "ue8m0":
        values = np.ldexp(np.ones(256), codes - 127)
        values[255] = np.nan
        return values
    return np.abs(_tables("e4m3")[0])  # ue4m3: the sign bit is ignored


def scales(name: str, codes: np.ndarray) -> np.ndarray:
    """float64 values of scale factors, `name` ue8m0 or ue4m3."""
    return _scale_table(name)[codes]
