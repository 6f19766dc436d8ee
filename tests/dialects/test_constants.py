"""Constants bit for bit: every spelling of a float, in every type, against its bits."""

from __future__ import annotations

import math
import struct
import time
from io import StringIO

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    FloatAttr,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    f80,
)
from xdsl.ir import Attribute

from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError, Unsupported
from xttir.dialects import arith, constants
from xttir.dialects.syntax.printer import TTPrinter
from xttir.frontends.mlir import parse_module

FP8 = {
    "f8E5M2": (Float8E5M2Type(), ml_dtypes.float8_e5m2),
    "f8E4M3FN": (Float8E4M3FNType(), ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": (Float8E4M3FNUZType(), ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": (Float8E5M2FNUZType(), ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": (Float8E4M3B11FNUZType(), ml_dtypes.float8_e4m3b11fnuz),
}
WIDE = {"f16": (f16, 16), "bf16": (bf16, 16), "f32": (f32, 32), "f64": (f64, 64)}
# Zeros, one, subnormals, largest, infinities, quiet and signalling NaNs with payloads.
SPECIAL = {
    "f16": [0, 0x8000, 0x3C00, 1, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFD55, 0x7FFF],
    "bf16": [0, 0x8000, 0x3F80, 1, 0x807F, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFA5, 0x7FFF],
    "f32": [0, 1 << 31, 0x3F800000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
            0x7FC00000, 0x7FA00001, 0xFF800001, 0x7FFFFFFF],
    "f64": [0, 1 << 63, 0x3FF0000000000000, 1, 0x800FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF,
            0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF4000000000001,
            0xFFF0000000000001, 0x7FFFFFFFFFFFFFFF],
}  # fmt: skip


def values(text: str) -> list[Attribute]:
    """The constants of a module that holds nothing else."""
    return [op.value for op in parse_module(text).walk() if isinstance(op, arith.ConstantOp)]


def constant(text: str) -> Attribute:
    (value,) = values(f"%0 = arith.constant {text}")
    return value


def bits_of(value: Attribute) -> list[int]:
    """The bits of every element, as unsigned integers."""
    array = constants.constant_value(value)
    return array.reshape(-1).view(f"u{array.dtype.itemsize}").tolist()


def printed(value: Attribute) -> str:
    stream = StringIO()
    TTPrinter(stream).print_attribute(value)
    return stream.getvalue()


def test_minus_infinity_of_a_softmax() -> None:
    """xDSL 0.75 reads this as 4286578688.0."""
    value = constants.constant_value(constant("dense<0xFF800000> : tensor<4xf32>"))
    assert value.shape == ()
    assert value == -np.inf


@pytest.mark.parametrize("name", [*WIDE, *FP8])
def test_hexadecimal_spellings(name: str) -> None:
    width = WIDE[name][1] if name in WIDE else 8
    patterns = SPECIAL.get(name, range(256))
    digits = width // 4
    lines = []
    for bits in patterns:
        word = f"0x{bits:0{digits}X}"
        lines += [
            f"arith.constant {word} : {name}",
            f"arith.constant dense<{word}> : tensor<8x2x{name}>",
            f"arith.constant dense<[{word}, 0x{0:0{digits}X}]> : tensor<2x{name}>",
            f"arith.constant dense<[[{word}], [0x{1:0{digits}X}]]> : tensor<2x1x{name}>",
        ]
    found = values("\n".join(f"%c{i} = {line}" for i, line in enumerate(lines)))
    for i, bits in enumerate(patterns):
        scalar, splat, row, nested = found[4 * i : 4 * i + 4]
        assert bits_of(scalar) == [bits], hex(bits)
        assert bits_of(splat) == [bits]
        assert bits_of(row) == ([bits, 0] if bits else [0])
        assert bits_of(nested) == ([bits, 1] if bits != 1 else [1])


@pytest.mark.parametrize("name", [*WIDE, *FP8])
def test_printing_keeps_the_bits(name: str) -> None:
    type_, width = (WIDE[name][0], WIDE[name][1]) if name in WIDE else (FP8[name][0], 8)
    for bits in SPECIAL.get(name, range(256)):
        attr = constants.float_attr_from_bits(bits, type_)
        assert constants.float_attr_bits(attr) == bits
        assert bits_of(constant(printed(attr))) == [bits]
        dense = constants.splat(
            constant(f"dense<0x{0:0{width // 4}X}> : tensor<4x{name}>").type,  # pyright: ignore
            bits.to_bytes(width // 8, "little"),
        )
        assert bits_of(constant(printed(dense))) == [bits]


@pytest.mark.parametrize("name", FP8)
def test_fp8_values(name: str) -> None:
    """Bits mean the same numbers as in ml_dtypes, and numbers round to the same bits."""
    type_, dtype = FP8[name]
    patterns = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        numbers = patterns.view(dtype).astype(np.float64)
    for bits, number in zip(patterns.tolist(), numbers.tolist(), strict=True):
        value = constants.float_from_bits(bits, type_)
        assert value == number or (math.isnan(value) and math.isnan(number))
        if not math.isnan(number):
            assert constants.float_to_bits(number, type_) == bits
    assert constants.constant_value(constant(f"1.0 : {name}")).dtype == dtype


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_all_16_bit_patterns(name: str) -> None:
    type_ = WIDE[name][0]
    for bits in range(1 << 16):
        assert constants.float_to_bits(constants.float_from_bits(bits, type_), type_) == bits


@given(st.integers(0, 2**32 - 1))
def test_random_f32_bits(bits: int) -> None:
    attr = constants.float_attr_from_bits(bits, f32)
    assert constants.float_attr_bits(attr) == bits
    assert bits_of(attr) == [bits]
    assert bits_of(constant(printed(attr))) == [bits]


@given(st.integers(0, 2**64 - 1))
def test_random_f64_bits(bits: int) -> None:
    attr = constants.float_attr_from_bits(bits, f64)
    assert constants.float_attr_bits(attr) == bits
    assert bits_of(constant(printed(attr))) == [bits]


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1.0 : f32", 0x3F800000),
        ("-0.0 : f32", 0x80000000),
        ("1.0e40 : f32", 0x7F800000),
        ("-1.0e40 : f16", 0xFC00),
        ("1.0e-3 : bf16", 0x3A83),
        ("65519.0 : f16", 0x7BFF),
        ("65520.0 : f16", 0x7C00),
        ("1.0e5 : f8E5M2", 0x7C),
        ("448.0 : f8E4M3FN", 0x7E),
    ],
)
def test_decimal_spellings(text: str, bits: int) -> None:
    assert bits_of(constant(text)) == [bits]
    number, type_ = text.split(" : ")
    assert bits_of(constant(f"dense<{number}> : tensor<4x{type_}>")) == [bits]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 : f32", "unexpected decimal integer literal"),
        ("dense<1> : tensor<4xf32>", "unexpected decimal integer literal"),
        ("dense<true> : tensor<4xf32>", "expected floating-point elements"),
        ("-0x3F800000 : f32", "leading minus"),
        ("dense<-0x3F800000> : tensor<4xf32>", "leading minus"),
        ("0x1FFFFFFFF : f32", "out of range"),
        ("dense<0x1FFFF> : tensor<4xf16>", "out of range"),
        ("dense<256> : tensor<4xi8>", "out of range"),
        ("dense<[1, 2]> : tensor<4xi8>", "Shape mismatch"),
        ('dense<"0x0102"> : tensor<4xi8>', "expected 4 bytes, but got 2"),
        ('dense<"0x0G"> : tensor<1xi8>', "Hex string"),
        ('dense<"0102"> : tensor<2xi8>', "begins with 0x"),
    ],
)
def test_rejected_spellings(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        constant(text)
    assert error.value.location is not None
    assert error.value.location.line == 1


def test_integers() -> None:
    assert constants.constant_value(constant("-1 : i32")) == -1
    assert constants.constant_value(constant("4294967295 : i32")) == -1
    assert constants.constant_value(constant("true")).dtype == bool
    assert bool(constants.constant_value(constant("true")))
    assert constants.constant_value(constant("7 : index")).dtype == np.int64
    assert constants.constant_value(constant("dense<-1> : tensor<4xi64>")) == -1
    assert constants.constant_value(constant("dense<255> : tensor<4xi8>")) == -1
    array = constants.constant_value(constant("dense<[[1, 2], [3, -4]]> : tensor<2x2xi16>"))
    assert array.dtype == np.int16
    assert array.tolist() == [[1, 2], [3, -4]]
    assert not array.flags.writeable


def test_bools() -> None:
    assert bool(constants.constant_value(constant("dense<true> : tensor<4xi1>")))
    assert constants.constant_value(constant("dense<true> : tensor<4xi1>")).shape == ()
    row = constant("dense<[true, false, true, true]> : tensor<4xi1>")
    assert constants.constant_value(row).tolist() == [True, False, True, True]
    # A byte each, of which any but 0 is true.
    raw = constant('dense<"0x0200FF01"> : tensor<4xi1>')
    assert raw == row
    assert bool(constants.constant_value(constant('dense<"0xFF"> : tensor<16xi1>')))
    assert printed(row) == "dense<[true, false, true, true]> : tensor<4xi1>"


@pytest.mark.parametrize(
    ("element", "numbers"),
    [
        ("f32", [struct.unpack("<f", struct.pack("<I", 0x7FA00000 + i))[0] for i in range(128)]),
        ("i32", [i * i - 5000 for i in range(128)]),
        ("i1", [i % 3 == 0 for i in range(128)]),
    ],
)
def test_long_constants_print_as_triton_prints_them(
    element: str, numbers: list, oracle: Oracle
) -> None:
    if element == "f32":
        words = [f"0x{0x7FA00000 + i:08X}" for i in range(len(numbers))]
    else:
        words = [str(n).lower() for n in numbers]
    text = f"dense<[{', '.join(words)}]> : tensor<128x{element}>"
    value = constant(text)
    module = f"tt.func @f() {{ %0 = arith.constant {text} tt.return }}"
    theirs = oracle.parse(module)
    assert theirs is not None
    assert printed(value) in theirs
    assert constant(printed(value)) == value


def test_a_splat_is_cheap() -> None:
    """Four million elements, of which xDSL makes a list: 1 s and more."""
    start = time.process_time()
    value = constant("dense<0xFF800000> : tensor<2048x2048xf32>")
    array = constants.constant_value(value)
    text = printed(value)
    assert time.process_time() - start < 0.5
    assert array.shape == ()
    assert text == "dense<0xFF800000> : tensor<2048x2048xf32>"


def test_splats_are_found_by_their_bits() -> None:
    """+0 and -0 are equal numbers, but not one splat."""
    value = constant("dense<[0.0, -0.0]> : tensor<2xf32>")
    assert isinstance(value, DenseIntOrFPElementsAttr)
    assert not constants.is_splat(value)
    assert bits_of(value) == [0, 0x80000000]


def test_unsupported_constants() -> None:
    with pytest.raises(Unsupported, match="i4"):
        constants.constant_value(constant("1 : i4"))
    with pytest.raises(Unsupported, match="f80"):
        constants.constant_value(FloatAttr(1.0, f80))
    with pytest.raises(Unsupported):
        constants.constant_value(StringAttr("x"))
