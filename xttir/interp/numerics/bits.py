"""Bit manipulation as GPUs have it: bytes permuted, fields extracted, funnels shifted, 24-bit
products. Arrays are unsigned 32 or 64-bit integers where nothing else is said."""

from __future__ import annotations

import numpy as np

from xttir.interp.numerics import integer


def reverse_bits(a: np.ndarray) -> np.ndarray:
    """Bits in reverse order."""
    n = a.dtype.itemsize * 8
    shift = n // 2
    ones = (1 << n) - 1
    mask = ones
    while shift:
        mask ^= (mask << shift) & ones
        low = a.dtype.type(mask)
        by = a.dtype.type(shift)
        a = ((a >> by) & low) | ((a & low) << by)
        shift //= 2
    return a


def first_set(a: np.ndarray) -> np.ndarray:
    """int32: the position of the lowest set bit, from 1; 0 for zero."""
    signed = a.view(f"i{a.dtype.itemsize}")
    place = integer.trailing_zeros(signed).astype(np.int32) + np.int32(1)
    return np.where(a == 0, np.int32(0), place)


def highest_set(a: np.ndarray) -> np.ndarray:
    """uint32: the position of the highest set bit, from 0; all ones for zero (PTX's bfind.u)."""
    signed = a.view(f"i{a.dtype.itemsize}")
    zeros = integer.leading_zeros(signed).astype(np.int64)
    return (8 * a.dtype.itemsize - 1 - zeros).astype(np.int32).view(np.uint32)


def find_nth_set(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """uint32: the place of the |offset|-th set bit of `mask`, from bit `base` upwards (offset > 0)
    or downwards (offset < 0); offset 0 asks for `base` itself; all ones if there is none (PTX's
    fns.b32; masks and bases are uint32, offsets int32)."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    places = np.arange(32, dtype=np.int64)
    start, count = base.astype(np.int64)[..., None], offset.astype(np.int64)[..., None]
    is_set = (mask[..., None] >> places.astype(np.uint32)) & np.uint32(1) != 0
    above, below = is_set & (places >= start), is_set & (places <= start)
    rank_up = np.cumsum(above, axis=-1)
    rank_down = np.cumsum(below[..., ::-1], axis=-1)[..., ::-1]
    hit = np.where(count > 0, above & (rank_up == count), below & (rank_down == -count))
    hit = np.where(count == 0, is_set & (places == start), hit)
    return np.where(hit.any(-1), hit.argmax(-1), -1).astype(np.int32).view(np.uint32)


def permute_bytes(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """PTX's prmt.b32: byte i of the result is byte (selector nibble i) of b:a, a the low half.

    Bit 3 of a nibble asks for the byte's sign bit in all bits instead.
    """
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    selector = selector.astype(np.uint64)
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint64)
    for i in range(4):
        nibble = (selector >> np.uint64(4 * i)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        out |= np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * i)
    return out.astype(np.uint32)


_PRMT_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def permute_bytes_mode(a: np.ndarray, b: np.ndarray, selector: np.ndarray, mode: str) -> np.ndarray:
    """prmt.b32 in one of its special modes; the low two bits of `selector` choose the pattern."""
    patterns = np.array(_PRMT_MODES[mode], np.uint32)
    return permute_bytes(a, b, np.take(patterns, selector & np.uint32(3)))


def lop3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """Any bitwise function of three operands; bit (4a + 2b + c) of `table` is its value."""
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    out = np.zeros(shape, a.dtype)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            out = out | term
    return out


def extract_field(a: np.ndarray, start: np.ndarray, length: np.ndarray, signed: bool) -> np.ndarray:
    """PTX's bfe: `length` bits from `start` on (8 bits of each), sign-extended if `signed`."""
    n = a.dtype.itemsize * 8
    wide = a.dtype.type
    start = (start & start.dtype.type(0xFF)).astype(np.int64)
    length = (length & length.dtype.type(0xFF)).astype(np.int64)
    length = np.minimum(length, n)
    shifted = np.where(start < n, a >> np.minimum(start, n - 1).astype(a.dtype), wide(0))
    keep = np.where(
        length < n, (wide(1) << np.minimum(length, n - 1).astype(a.dtype)) - wide(1), ~wide(0)
    )
    if not signed:
        return shifted & keep
    # The sign is the field's top bit, or a's where the field goes beyond it.
    top = np.minimum(start + length - 1, n - 1)
    sign = (a >> np.clip(top, 0, n - 1).astype(a.dtype)) & wide(1)
    # Bits beyond a's width are filled with the sign as well.
    inside = np.clip(n - start, 0, n)
    keep = np.where(inside < length, _low_bits(inside, a.dtype), keep)
    out = np.where(sign == 1, (shifted & keep) | ~keep, shifted & keep)
    return np.where(length == 0, wide(0), out)


def _low_bits(count: np.ndarray, dtype: np.dtype) -> np.ndarray:
    n = dtype.itemsize * 8
    one = dtype.type(1)
    return np.where(
        count < n, (one << np.minimum(count, n - 1).astype(dtype)) - one, ~dtype.type(0)
    )


def insert_field(a: np.ndarray, b: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """PTX's bfi: the low `length` bits of a placed into b from bit `start` on."""
    n = b.dtype.itemsize * 8
    wide = b.dtype.type
    start = (start & start.dtype.type(0xFF)).astype(np.int64)
    length = np.minimum((length & length.dtype.type(0xFF)).astype(np.int64), n)
    at = np.minimum(start, n - 1).astype(b.dtype)
    mask = np.where(start < n, _low_bits(length, b.dtype) << at, wide(0))
    return (b & ~mask) | ((a << at) & mask)


def bit_field_mask(start: np.ndarray, length: np.ndarray, wrap: bool) -> np.ndarray:
    """PTX's bmsk.b32: `length` ones from bit `start` on; amounts clamped to 32, or wrapped."""
    if wrap:
        start, length = start & np.uint32(31), length & np.uint32(31)
    start64, length64 = (
        np.minimum(start, 32).astype(np.uint64),
        np.minimum(length, 32).astype(np.uint64),
    )
    ones = (np.uint64(1) << length64) - np.uint64(1)
    return (ones << start64).astype(np.uint32)


def funnel_shift(
    low: np.ndarray, high: np.ndarray, amount: np.ndarray, left: bool, wrap: bool
) -> np.ndarray:
    """PTX's shf.{l,r}.{clamp,wrap}.b32: 32 bits of high:low shifted by `amount`."""
    both = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
    by = (amount & np.uint32(31)) if wrap else np.minimum(amount, np.uint32(32))
    by = by.astype(np.uint64)
    shifted = (both << by) >> np.uint64(32) if left else both >> by
    return shifted.astype(np.uint32)


def absolute_difference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """c + |a - b|, wrapping, for integers of any signedness (c in the result's type)."""
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    return c + (larger - smaller).astype(c.dtype)


def average(a: np.ndarray, b: np.ndarray, round_up: bool) -> np.ndarray:
    """(a + b) / 2 towards minus infinity (plus one before, if `round_up`), without overflow."""
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    total = a.astype(wide) + b.astype(wide) + wide(round_up)
    return (total >> wide(1)).astype(a.dtype)


def mul24(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The low 32 bits of the product of the operands' low 24 bits, by their signedness."""
    if a.dtype.kind == "u":
        low = a.dtype.type(0xFFFFFF)
        return (a & low) * (b & low)
    return ((a << a.dtype.type(8)) >> a.dtype.type(8)) * ((b << b.dtype.type(8)) >> b.dtype.type(8))


def dot_product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool
) -> np.ndarray:
    """PTX's dp4a: c plus the sum of four products of bytes, wrapping. uint32 in and out."""
    total = c.astype(np.int64)
    for i in range(4):
        total = total + _part(a, i, 8, a_signed) * _part(b, i, 8, b_signed)
    return total.astype(np.uint32)


def dot_product2(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool, high: bool
) -> np.ndarray:
    """PTX's dp2a: c plus two products of a's halves with b's low (or high) two bytes, wrapping."""
    total = c.astype(np.int64)
    for i in range(2):
        byte = _part(b, i + (2 if high else 0), 8, b_signed)
        total = total + _part(a, i, 16, a_signed) * byte
    return total.astype(np.uint32)


def _part(a: np.ndarray, index: int, width: int, signed: bool) -> np.ndarray:
    """int64: part `index` of `width` bits of uint32 `a`."""
    part = (a >> np.uint32(index * width)) & np.uint32((1 << width) - 1)
    if not signed:
        return part.astype(np.int64)
    return part.astype(f"u{width // 8}").view(f"i{width // 8}").astype(np.int64)
