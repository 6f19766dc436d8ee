"""Inline PTX: parsing, packing, and instructions against models on Python integers and floats."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, StringAttr, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute

from tests.interp.op_runner import Bench, bits, run, same, tensor, values
from tests.interp.rounding import FORMATS, rounded
from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.interp.inline_ptx import InlineAsmFunctions, apply, parse
from xttir.interp.numerics.floats import BF16, E4M3FN, E5M2, satfinite
from xttir.interp.ptx_scalar import TABLE, Form, decode, encode, instruction

F = InlineAsmFunctions()
M32 = 0xFFFFFFFF


def no_special(name: str) -> np.ndarray:
    raise AssertionError(name)


def asm(text: str, constraints: str, *args: np.ndarray, out=np.uint32, pack: int = 1) -> np.ndarray:
    """The one result of `text` on arrays (b, n)."""
    out = np.dtype(out)
    dtype = np.dtype(f"i{out.itemsize}") if out.kind == "u" else out
    shape = np.broadcast_shapes(*(a.shape for a in args))[1:] if args else (1,)
    (got,) = apply(parse(text, constraints), args, [dtype], shape, pack, no_special)
    return got.view(out)


def word(text: str, *args: int) -> int:
    """A 32-bit result of 32-bit operands."""
    arrays = [np.array([[a & M32]], np.uint32).view(np.int32) for a in args]
    constraints = ",".join(["=r"] + ["r"] * len(args))
    return int(asm(text, constraints, *arrays)[0, 0])


def float_word(text: str, *args: float) -> float:
    """An f32 result of f32 operands."""
    arrays = [np.array([[a]], np.float32) for a in args]
    return float(asm(text, ",".join(["=f"] + ["f"] * len(args)), *arrays, out=np.float32)[0, 0])


words = st.integers(0, M32) | st.sampled_from([0, 1, M32, 1 << 31, (1 << 31) - 1])


def signed(a: int, width: int = 32) -> int:
    a &= (1 << width) - 1
    return a - (1 << width) if a >> (width - 1) else a


@given(words, words, words)
def test_integer_arithmetic(a: int, b: int, c: int):
    sa, sb, sc = signed(a), signed(b), signed(c)
    assert word("add.s32 $0, $1, $2;", a, b) == (a + b) & M32
    assert word("sub.u32 $0, $1, $2;", a, b) == (a - b) & M32
    assert word("mul.lo.s32 $0, $1, $2;", a, b) == (a * b) & M32
    assert word("mul.hi.s32 $0, $1, $2;", a, b) == (sa * sb >> 32) & M32
    assert word("mul.hi.u32 $0, $1, $2;", a, b) == a * b >> 32
    assert word("mad.lo.u32 $0, $1, $2, $3;", a, b, c) == (a * b + c) & M32
    assert word("mad.hi.s32 $0, $1, $2, $3;", a, b, c) == ((sa * sb >> 32) + sc) & M32
    assert word("sad.s32 $0, $1, $2, $3;", a, b, c) == (abs(sa - sb) + c) & M32
    assert word("max.s32 $0, $1, $2;", a, b) == max(sa, sb) & M32
    assert word("min.u32 $0, $1, $2;", a, b) == min(a, b)
    assert word("abs.s32 $0, $1;", a) == abs(sa) & M32
    assert word("neg.s32 $0, $1;", a) == -sa & M32
    saturated = min(max(sa + sb, -(2**31)), 2**31 - 1)
    assert word("add.sat.s32 $0, $1, $2;", a, b) == saturated & M32
    if b:
        assert word("div.u32 $0, $1, $2;", a, b) == a // b
        assert word("rem.u32 $0, $1, $2;", a, b) == a % b
    low = [signed(v, 24) for v in (a, b)]
    assert word("mul24.lo.s32 $0, $1, $2;", a, b) == low[0] * low[1] & M32
    assert word("mul24.hi.s32 $0, $1, $2;", a, b) == low[0] * low[1] >> 16 & M32


@given(words, words, words, st.integers(0, 255))
def test_logic(a: int, b: int, c: int, table: int):
    assert word("and.b32 $0, $1, $2;", a, b) == a & b
    assert word("or.b32 $0, $1, $2;", a, b) == a | b
    assert word("xor.b32 $0, $1, $2;", a, b) == a ^ b
    assert word("not.b32 $0, $1;", a) == ~a & M32
    assert word("cnot.b32 $0, $1;", a) == (a == 0)
    expected = 0
    for k in range(32):
        row = (a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)
        expected |= (table >> row & 1) << k
    assert word(f"lop3.b32 $0, $1, $2, $3, {table:#x};", a, b, c) == expected


@given(words, words, st.integers(0, 40) | words)
def test_shifts(a: int, b: int, n: int):
    assert word("shl.b32 $0, $1, $2;", a, n) == (a << n & M32 if n < 32 else 0)
    assert word("shr.u32 $0, $1, $2;", a, n) == (a >> n if n < 32 else 0)
    assert word("shr.s32 $0, $1, $2;", a, n) == signed(a) >> min(n, 31) & M32
    both = b << 32 | a
    for mode, by in (("wrap", n & 31), ("clamp", min(n, 32))):
        assert word(f"shf.l.{mode}.b32 $0, $1, $2, $3;", a, b, n) == (both << by) >> 32 & M32
        assert word(f"shf.r.{mode}.b32 $0, $1, $2, $3;", a, b, n) == both >> by & M32


@given(words, words, st.integers(0, 40), st.integers(0, 40))
def test_bit_fields(a: int, b: int, start: int, length: int):
    # The ISA's own loops.
    field, inserted = 0, b
    for k in range(length):
        if start + k < 32:
            field |= (a >> start + k & 1) << k
            inserted = inserted & ~(1 << start + k) | (a >> k & 1) << start + k
    keep = (1 << min(length, 32)) - 1
    assert word("bfe.u32 $0, $1, $2, $3;", a, start, length) == field & keep
    assert word("bfi.b32 $0, $1, $2, $3, $4;", a, b, start, length) == inserted
    sign = 0 if length == 0 else a >> min(start + length - 1, 31) & 1
    expected = 0
    for k in range(32):
        bit = a >> start + k & 1 if k < length and start + k <= 31 else sign
        expected |= bit << k
    assert word("bfe.s32 $0, $1, $2, $3;", a, start, length) == expected
    assert word("popc.b32 $0, $1;", a) == a.bit_count()
    assert word("clz.b32 $0, $1;", a) == 32 - a.bit_length()
    assert word("brev.b32 $0, $1;", a) == int(f"{a:032b}"[::-1], 2)
    assert word("bfind.u32 $0, $1;", a) == (a.bit_length() - 1) & M32
    top = ~a & M32 if a >> 31 else a
    assert word("bfind.s32 $0, $1;", a) == (top.bit_length() - 1) & M32
    ones = ((1 << min(length, 32)) - 1) << min(start, 32) & M32
    assert word("bmsk.clamp.b32 $0, $1, $2;", start, length) == ones


@given(words, st.integers(0, 31), st.integers(-6, 6))
def test_nth_set_bit(mask: int, base: int, offset: int):
    # The ISA's own loop.
    found, count, place = M32, abs(offset) - 1, base
    if offset == 0:
        found = base if mask >> base & 1 else M32
    while offset and 0 <= place < 32:
        if mask >> place & 1:
            if count == 0:
                found = place
                break
            count -= 1
        place += 1 if offset > 0 else -1
    assert word("fns.b32 $0, $1, $2, $3;", mask, base, offset & M32) == found


@given(words, words, words)
def test_prmt(a: int, b: int, selector: int):
    data = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    out = []
    for k in range(4):
        nibble = selector >> 4 * k & 15
        byte = data[nibble & 7]
        out.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    expected = int.from_bytes(bytes(out), "little")
    assert word("prmt.b32 $0, $1, $2, $3;", a, b, selector) == expected


@given(words, words, words)
def test_dot_products_of_bytes(a: int, b: int, c: int):
    parts_a, parts_b = a.to_bytes(4, "little"), b.to_bytes(4, "little")
    total = sum(x * y for x, y in zip(parts_a, parts_b, strict=True))
    assert word("dp4a.u32.u32 $0, $1, $2, $3;", a, b, c) == (total + c) & M32
    total = sum(signed(x, 8) * signed(y, 8) for x, y in zip(parts_a, parts_b, strict=True))
    assert word("dp4a.s32.s32 $0, $1, $2, $3;", a, b, c) == (total + c) & M32
    total = sum(signed(x, 8) * y for x, y in zip(parts_a, parts_b, strict=True))
    assert word("dp4a.s32.u32 $0, $1, $2, $3;", a, b, c) == (total + c) & M32
    halves = [signed(a, 16), signed(a >> 16, 16)]
    total = sum(x * signed(y, 8) for x, y in zip(halves, parts_b[2:], strict=True))
    assert word("dp2a.hi.s32.s32 $0, $1, $2, $3;", a, b, c) == (total + c) & M32


floats = st.floats(width=32)


@given(floats, floats, floats, st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_float_arithmetic_in_every_mode(a: float, b: float, c: float, mode: str):
    form = FORMATS[np.dtype(np.float32)]
    finite = math.isfinite(a) and math.isfinite(b) and math.isfinite(c)
    results = {
        f"add.{mode}.f32 $0, $1, $2;": lambda: Fraction(a) + Fraction(b),
        f"mul.{mode}.f32 $0, $1, $2;": lambda: Fraction(a) * Fraction(b),
    }
    for text, true in results.items():
        if finite:
            assert float_word(text, a, b) == rounded(true(), mode, form)
    if finite:
        got = float_word(f"fma.{mode}.f32 $0, $1, $2, $3;", a, b, c)
        assert got == rounded(Fraction(a) * Fraction(b) + Fraction(c), mode, form)
    if finite and b:
        got = float_word(f"div.{mode}.f32 $0, $1, $2;", a, b)
        assert got == rounded(Fraction(a) / Fraction(b), mode, form)


def test_flush_to_zero_and_saturation():
    tiny = 1e-40
    assert float_word("add.f32 $0, $1, $2;", tiny, 0.0) == float(np.float32(tiny))
    assert float_word("add.ftz.f32 $0, $1, $2;", tiny, 0.0) == 0
    assert math.copysign(1, float_word("mul.ftz.f32 $0, $1, $2;", -tiny, 1.0)) == -1
    assert float_word("mul.rn.ftz.f32 $0, $1, $2;", 1e-30, 1e-10) == 0
    assert float_word("ex2.approx.ftz.f32 $0, $1;", -140.0) == 0
    assert float_word("ex2.approx.f32 $0, $1;", -140.0) == 2.0**-140
    assert float_word("add.sat.f32 $0, $1, $2;", 3.0, 4.0) == 1
    assert float_word("add.sat.f32 $0, $1, $2;", math.nan, 4.0) == 0
    assert float_word("fma.rn.sat.f32 $0, $1, $2, $3;", -3.0, 4.0, 0.0) == 0


@given(floats, floats)
def test_extrema(a: float, b: float):
    key = [(v, math.copysign(1, v)) for v in (a, b)]
    some_nan = math.isnan(a) or math.isnan(b)
    got = float_word("max.f32 $0, $1, $2;", a, b)
    if some_nan:
        other = b if math.isnan(a) else a
        assert got == other or math.isnan(other)
        assert math.isnan(float_word("max.NaN.f32 $0, $1, $2;", a, b))
        return
    assert (got, math.copysign(1, got)) == max(key)
    got = float_word("min.NaN.f32 $0, $1, $2;", a, b)
    assert (got, math.copysign(1, got)) == min(key)
    got = float_word("max.xorsign.abs.f32 $0, $1, $2;", a, b)
    assert abs(got) == max(abs(a), abs(b))
    assert math.copysign(1, got) == math.copysign(1, a) * math.copysign(1, b)


COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a < b or a > b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "equ": lambda a, b: not (a < b or a > b), "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b, "leu": lambda a, b: not a > b, "gtu": lambda a, b: not a <= b,
    "geu": lambda a, b: not a < b, "num": lambda a, b: a == a and b == b,
    "nan": lambda a, b: a != a or b != b,
}  # fmt: skip


@given(floats, floats, st.sampled_from(sorted(COMPARISONS)))
def test_setp_selp_and_predicates(a: float, b: float, name: str):
    text = f"{{ .reg .pred p, q; setp.{name}.f32 p|q, $1, $2; selp.f32 $0, 1.0, 0.0, %s; }}"
    expected = COMPARISONS[name](a, b)
    assert float_word(text % "p", a, b) == expected
    assert float_word(text % "q", a, b) == (not expected)
    guarded = (
        "{ .reg .pred p; setp." + name + ".f32 p, $1, $2;"
        " mov.f32 $0, 0f40000000; @p mov.f32 $0, 0f3F800000; @!p add.f32 $0, $0, 1.0; }"
    )
    assert float_word(guarded, a, b) == (1 if expected else 3)


def test_setp_with_a_boolean_and_set():
    text = """{ .reg .pred p, q;
        setp.gt.s32 p, $1, 0;
        setp.lt.and.u32 q, $2, 10, p;
        selp.b32 $0, 7, 0, q; }"""
    assert [word(text, a, b) for a, b in ((1, 5), (M32, 5), (1, 50))] == [7, 0, 0]
    assert word("set.lt.u32.s32 $0, $1, $2;", M32, 0) == M32
    assert word("slct.u32.s32 $0, $1, $2, $3;", 1, 2, M32) == 2


def test_rounding_of_conversions():
    x = np.array([[1.5, 2.5, -1.5, 3e9, -3e9, math.nan]], np.float32)
    for mode, expected in {
        "rni": [2, 2, -2], "rzi": [1, 2, -1], "rmi": [1, 2, -2], "rpi": [2, 3, -1],
    }.items():  # fmt: skip
        got = asm(f"cvt.{mode}.s32.f32 $0, $1;", "=r,f", x, out=np.int32)
        assert got.tolist() == [[*expected, 2**31 - 1, -(2**31), 0]]
    assert asm("cvt.rni.f32.f32 $0, $1;", "=f,f", x, out=np.float32)[0, :3].tolist() == [2, 2, -2]
    n = np.array([[(1 << 24) + 1, -1]], np.int32)
    assert asm("cvt.rz.f32.s32 $0, $1;", "=f,r", n, out=np.float32).tolist() == [[1 << 24, -1]]
    assert asm("cvt.rp.f32.u32 $0, $1;", "=f,r", n, out=np.float32)[0].tolist() == [
        (1 << 24) + 2,
        2.0**32,
    ]
    wide = np.array([[300, -5]], np.int32)
    assert asm("cvt.sat.u8.s32 $0, $1;", "=r,r", wide).tolist() == [[255, 0]]
    assert asm("cvt.s32.s8 $0, $1;", "=r,r", wide, out=np.int32).tolist() == [[44, -5]]
    assert asm("cvt.u64.u32 $0, $1;", "=l,r", wide, out=np.uint64).tolist() == [[300, 2**32 - 5]]
    assert asm("cvt.s64.s32 $0, $1;", "=l,r", wide, out=np.int64).tolist() == [[300, -5]]


@pytest.mark.parametrize(("name", "dtype"), [("e4m3", E4M3FN), ("e5m2", E5M2)])
def test_packed_fp8_conversions(name: str, dtype: np.dtype):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((2, 64)).astype(np.float32) * 200 for _ in range(2))
    got = asm(f"cvt.rn.satfinite.{name}x2.f32 $0, $1, $2;", "=h,f,f", x, y, out=np.uint16)
    high, low = bits(satfinite(x, dtype)), bits(satfinite(y, dtype))
    assert np.array_equal(got, high.astype(np.uint16) << 8 | low)
    back = asm(f"cvt.rn.f16x2.{name}x2 $0, $1;", "=r,h", got.view(np.int16))
    halves = np.ascontiguousarray(back)[..., None].view(np.float16)
    assert same(halves[..., 0], satfinite(y, dtype).astype(np.float16))
    assert same(halves[..., 1], satfinite(x, dtype).astype(np.float16))


def test_packed_16_bit_conversions():
    x, y = np.array([[1.0]], np.float32), np.array([[-2.0]], np.float32)
    assert asm("cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", x, y)[0, 0] == 0x3C00C000
    assert asm("cvt.rn.relu.bf16x2.f32 $0, $1, $2;", "=r,f,f", x, y)[0, 0] == 0x3F800000
    assert asm("cvt.rna.tf32.f32 $0, $1;", "=r,f", x * np.float32(1 + 2**-11))[0, 0] == 0x3F802000
    four = asm("cvt.rn.satfinite.e2m1x2.f32 t, $1, $2; mov.b32 $0, {t, 0, 0, 0};".replace(
        "cvt", "{.reg .b8 t; cvt", 1) + "}", "=r,f,f", x, y)  # fmt: skip
    assert four[0, 0] == 0x2C  # 1.0 is 2, -2.0 is 12
    a, b = np.array([[300]], np.int32), np.array([[-300]], np.int32)
    assert (
        asm("cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;", "=r,r,r,r", a, b, a * 0 + 7)[0, 0]
        == 0x77F80 | 0
    )
    assert asm("cvt.pack.sat.s16.s32 $0, $1, $2;", "=r,r,r", a, b)[0, 0] == 0x012CFED4


def pair(a: float, b: float, dtype) -> np.ndarray:
    """Two 16-bit floats in a word, a lowest."""
    raw = bits(np.array([[a, b]], np.float32).astype(dtype)).astype(np.uint32)
    return (raw[:, :1] | raw[:, 1:] << 16).view(np.int32)


@pytest.mark.parametrize(("name", "dtype"), [("f16x2", np.float16), ("bf16x2", BF16)])
def test_packed_arithmetic(name: str, dtype):
    a, b, c = pair(1.5, -2, dtype), pair(4, 0.5, dtype), pair(-1, 8, dtype)
    for text, expected in {
        f"add.{name} $0, $1, $2;": (5.5, -1.5),
        f"sub.{name} $0, $1, $2;": (-2.5, -2.5),
        f"mul.{name} $0, $1, $2;": (6, -1),
        f"max.{name} $0, $1, $2;": (4, 0.5),
        f"min.{name} $0, $1, $2;": (1.5, -2),
        f"fma.rn.{name} $0, $1, $2, $3;": (5, 7),
        f"fma.rn.relu.{name} $0, $2, $3, $1;": (0, 2),
        f"abs.{name} $0, $1;": (1.5, 2),
        f"neg.{name} $0, $1;": (-1.5, 2),
        f"ex2.approx{'.ftz' if name[0] == 'b' else ''}.{name} $0, $3;": (0.5, 256),
        f"tanh.approx.{name} $0, $3;": None,
    }.items():
        count = max(int(d) for d in text if d.isdigit() and f"${d}" in text)
        args = [a, b, c][:count]
        got = asm(text, ",".join(["=r"] + ["r"] * count), *args)
        if expected is not None:
            assert same(got.view(np.int32), pair(*expected, dtype)), text


def test_pairs_of_f32():
    def two(x: float, y: float) -> np.ndarray:
        return np.frombuffer(struct.pack("<ff", x, y), np.int64)[None]

    got = asm(
        "fma.rn.f32x2 $0, $1, $2, $3;", "=l,l,l,l", two(2, 3), two(5, 7), two(-1, 1), out=np.int64
    )
    assert struct.unpack("<ff", got.tobytes()) == (9, 22)
    got = asm("add.rz.ftz.f32x2 $0, $1, $2;", "=l,l,l", two(1e-40, 3), two(0, 7), out=np.int64)
    assert struct.unpack("<ff", got.tobytes()) == (0, 10)


def test_mov_packs_and_unpacks():
    assert word("mov.b32 $0, {lo, hi};".join(
        ["{.reg .b16 lo, hi; mov.b32 {hi, lo}, $1; ", "}"]), 0x12345678) == 0x56781234  # fmt: skip
    assert (
        word("{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $1; cvt.u32.u8 $0, t2; }", 0x12345678)
        == 0x34
    )
    assert word("{ .reg .b16 t; mov.b32 {_, t}, $1; cvt.s32.s16 $0, t; }", 0x80001234) == 0xFFFF8000
    x = np.array([[0x0123456789ABCDEF]], np.int64)
    got = asm(
        "{ .reg .b32 a, b; mov.b64 {a, b}, $1; mov.b64 $0, {b, a}; }", "=l,l", x, out=np.uint64
    )
    assert got[0, 0] == 0x89ABCDEF01234567


def test_literals_and_comments():
    text = """
      // a comment; with a semicolon
      { .reg .b32 t, u; /* another */
        mov.u32 t, 0x10;
        mov.b32 u, 0b101;
        add.u32 t, t, 010;  // octal
        add.u32 t, t, u;
        add.s32 $0, t, -1; }"""
    assert word(text) == 16 + 8 + 5 - 1
    assert float_word("mul.f32 $0, $1, 0f40490FDB;", 2.0) == float(np.float32(math.pi)) * 2
    assert float_word("mul.f32 $0, $1, 0.25;", 2.0) == 0.5


def test_tied_operands():
    assert word_tied("add.u32 $0, $0, $2;", 5, 7) == 12


def word_tied(text: str, a: int, b: int) -> int:
    arrays = [np.array([[v]], np.int32) for v in (a, b)]
    return int(asm(text, "=r,0,r", *arrays)[0, 0])


# Packing ------------------------------------------------------------------------------------------


def build(text, constraints, args: list[Attribute], results: list[Attribute], pack: int):
    return tt.ElementwiseInlineAsmOp(
        operands=[values(*args)],
        result_types=[results],
        properties={
            "asm_string": StringAttr(text),
            "constraints": StringAttr(constraints),
            "pure": IntegerAttr(1, i1),
            "packed_element": IntegerAttr(pack, i32),
        },
    )


def test_bytes_go_in_and_floats_come_out():
    """The example of `tl.inline_asm_elementwise`: four bytes at once to ints and floats."""
    text = """
      {
        .reg .b8 tmp<4>;
        mov.b32 {tmp0, tmp1, tmp2, tmp3}, $8;
        cvt.u32.u8 $0, tmp0;
        cvt.u32.u8 $1, tmp1;
        cvt.u32.u8 $2, tmp2;
        cvt.u32.u8 $3, tmp3;
      }
      cvt.rn.f32.s32 $4, $0;
      cvt.rn.f32.s32 $5, $1;
      cvt.rn.f32.s32 $6, $2;
      cvt.rn.f32.s32 $7, $3;
      max.f32 $4, $4, $9;
      max.f32 $5, $5, $10;
      max.f32 $6, $6, $11;
      max.f32 $7, $7, $12;
    """
    constraints = "=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r"
    shape = (4, 8)
    op = build(text, constraints, [tensor(i8, *shape), tensor(f32, *shape)],
               [tensor(i32, *shape), tensor(f32, *shape)], 4)  # fmt: skip
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (3, *shape)).astype(np.uint8).view(np.int8)
    b = rng.uniform(0, 255, (3, *shape)).astype(np.float32)
    ints, floats_ = run(F, op, a, b)
    assert np.array_equal(ints, a.view(np.uint8).astype(np.int32))
    assert same(floats_, np.maximum(ints.astype(np.float32), b))
    for p in range(3):  # alone or together
        alone = run(F, op, a[p : p + 1], b[p : p + 1])
        assert same(alone[0], ints[p : p + 1])
        assert same(alone[1], floats_[p : p + 1])
    column = b[:, :, :1]  # the same along the last axis
    lazy = run(F, op, a, column)[1]
    assert same(lazy, run(F, op, a, np.broadcast_to(column, b.shape))[1])


FROM_E4M3B15 = """{
  .reg .b32 a<2>, b<2>;
  prmt.b32 a0, 0, $2, 0x5746;
  and.b32 b0, a0, 0x7f007f00;
  and.b32 b1, a0, 0x00ff00ff;
  and.b32 a1, a0, 0x00800080;
  shr.b32  b0, b0, 1;
  add.u32 b1, b1, a1;
  lop3.b32 $0, b0, 0x80008000, a0, 0xf8;
  shl.b32 $1, b1, 7;
}"""


def test_fp8_with_bias_15_by_triton_s_assembly():
    codes = np.arange(256, dtype=np.uint8)
    op = build(FROM_E4M3B15, "=r,=r,r", [tensor(i8, 256)], [tensor(f16, 256)], 4)
    (got,) = run(F, op, codes.view(np.int8)[None])
    exponent, mantissa = (codes >> 3 & 15).astype(int), (codes & 7).astype(int)
    size = np.where(
        exponent == 0, mantissa / 8 * 2.0**-14, (1 + mantissa / 8) * 2.0 ** (exponent - 15)
    )
    assert got[0].astype(float).tolist() == np.where(codes & 128, -size, size).tolist()


def test_narrow_elements_alone():
    op = build("add.f16 $0, $1, $2;", "=h,h,h", [tensor(f16, 3)] * 2, [tensor(f16, 3)], 1)
    x = np.array([[1, 2, 3]], np.float16)
    assert run(F, op, x, x)[0].tolist() == [[2, 4, 6]]
    assert run(F, op, x[:, :1], x[:, :1])[0].shape == (1, 1)


def test_scalars_and_runs_that_do_not_fill():
    op = build("add.u32 $0, $1, 1;", "=r,r", [i32], [i32], 1)
    assert run(F, op, np.array([1, 5], np.int32))[0].tolist() == [2, 6]
    op = build("add.u32 $0, $1, 0x01010101;", "=r,r", [tensor(i8, 2)], [tensor(i8, 2)], 4)
    assert run(F, op, np.array([[1, 5]], np.int8))[0].tolist() == [[2, 6]]


class Programs(Bench):
    grid = (4, 2, 1)

    def program_id(self, axis: int) -> np.ndarray:
        return np.array([3, 1], np.int32) + 10 * axis


def test_special_registers():
    bench = Programs()
    op = build("mov.u32 $0, %ctaid.y;", "=r", [], [i32], 1)
    assert run(F, op, bench=bench)[0].tolist() == [13, 11]
    op = build(
        "{ .reg .u32 t; mov.u32 t, %nctaid.x; add.u32 $0, $1, t; }",
        "=r,r",
        [tensor(i32, 4)],
        [tensor(i32, 4)],
        1,
    )
    assert run(F, op, np.array([[1, 2, 3, 4]], np.int32), bench=bench)[0].tolist() == [[5, 6, 7, 8]]
    op = build(
        "{ .reg .u32 t; mov.u32 t, %ctaid.x; add.u32 $0, $1, t; }",
        "=r,r",
        [tensor(i32, 2)],
        [tensor(i32, 2)],
        1,
    )
    assert run(F, op, np.array([[1, 2]], np.int32), bench=bench)[0].tolist() == [[4, 5], [2, 3]]
    clock = build("mov.u64 $0, %globaltimer;", "=l", [], [i64], 1)
    first, second = run(F, clock, bench=bench)[0], run(F, clock, bench=bench)[0]
    assert second[0] > first[0]
    with pytest.raises(Unsupported, match=r"%tid\.x"):
        run(F, build("mov.u32 $0, %tid.x;", "=r", [], [i32], 1), bench=bench)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ld.global.b32 $0, [$1];", "ld.global.b32"),
        ("shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;", "shfl.sync.idx.b32"),
        ("add.cc.u32 $0, $1, $1;", "add.cc.u32"),
        ("v_add_f32 $0, $1, $1;", "v_add_f32"),
        ("loop: bra loop;", "branches"),
        ("add.u32 $0, undeclared, $1;", "undeclared"),
    ],
)
def test_what_is_not_known_is_named(text: str, named: str):
    op = build(text, "=r,r", [tensor(i32, 4)], [tensor(i32, 4)], 1)
    with pytest.raises(Unsupported) as error:
        run(F, op, np.zeros((1, 4), np.int32))
    assert named in str(error.value)


def test_constraints_that_do_not_fit_are_unsupported():
    op = build("mov.b32 $0, $1;", "=r,r", [tensor(i8, 8)], [tensor(i8, 8)], 8)
    with pytest.raises(Unsupported, match="constraints"):
        run(F, op, np.zeros((1, 8), np.int8))


def test_instructions_can_be_added():
    @instruction("triple")
    def triple(form: Form, a: np.ndarray) -> np.ndarray:
        return a * a.dtype.type(3)

    try:
        parse.cache_clear()
        assert word("triple.u32 $0, $1;", 14) == 42
    finally:
        del TABLE["triple"]
        parse.cache_clear()


@pytest.mark.parametrize(
    "type_", ["s8", "u16", "f32", "bf16x2", "e4m3x2", "e2m1x2", "f32x2", "s8x4"]
)
def test_decoding_is_undone_by_encoding(type_: str):
    width = (
        8
        if type_ == "e2m1x2"
        else encode(decode(np.zeros(1, np.uint64), type_), type_).itemsize * 8
    )
    raw = np.arange(1 << min(width, 12), dtype=f"uint{width}")
    assert np.array_equal(encode(decode(raw, type_), type_), raw)
