"""Scalar instructions through the executor: as the table says, on every kind of operand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address
from xttir.interp.ptx_scalar import decode, encode, find

N = 64
RANDOM = np.random.default_rng(1)
SPECIAL = np.array([0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)
A = np.concatenate([SPECIAL, RANDOM.integers(0, 2**32, N - 8, dtype=np.uint32)])
B = np.concatenate([SPECIAL[::-1], RANDOM.integers(0, 40, N - 8, dtype=np.uint32)])

OPCODES = [
    "add.s32", "add.u32", "sub.s32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32", "and.b32", "or.b32",
    "xor.b32", "shl.b32", "shr.u32", "shr.s32", "min.s32", "max.u32", "add.f32", "sub.f32",
    "mul.f32", "min.f32", "add.f16x2", "add.bf16x2", "add.rz.f32", "div.u32", "rem.u32",
    "add.sat.s32", "div.rn.f32", "add.ftz.f32",
]  # fmt: skip


def _expected(opcode: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    entry, form = find(opcode)
    types = list(entry.sources(form))
    types += types[-1:]
    with np.errstate(all="ignore"):
        out = entry.run(form, decode(a, types[0]), decode(b, types[1]))
    return encode(out, entry.results(form)[0])


def _body(statement: str) -> str:
    return (
        f"{address('%rd0')} ld.global.u32 %r1, [%rd0];"
        f"{address('%rd1', base='%a1')} ld.global.u32 %r2, [%rd1];"
        f"{statement} {address('%rd2', base='%a2')} st.global.u32 [%rd2], %r3; ret;"
    )


@pytest.mark.parametrize("opcode", OPCODES)
def test_registers(opcode: str) -> None:
    b = np.maximum(B, 1) if opcode.startswith(("div.u", "rem.u")) else B
    kernel = Kernel(
        _body(f"{opcode} %r3, %r1, %r2;"), {"a": A, "b": b, "out": ("u32", N)}, threads=N
    )
    np.testing.assert_array_equal(kernel.values(), _expected(opcode, A, b))


@pytest.mark.parametrize("opcode", ["add.s32", "and.b32", "shl.b32", "shr.s32", "mul.lo.s32"])
def test_an_immediate_and_a_uniform_register(opcode: str) -> None:
    five = np.full(N, 5, np.uint32)
    tensors = {"a": A, "b": B, "out": ("u32", N)}
    constant = Kernel(_body(f"{opcode} %r3, %r1, 5;"), tensors, threads=N)
    uniform = Kernel(_body(f"mov.u32 %r4, 5; {opcode} %r3, %r1, %r4;"), tensors, threads=N)
    np.testing.assert_array_equal(constant.values(), _expected(opcode, A, five))
    np.testing.assert_array_equal(uniform.values(), _expected(opcode, A, five))


@pytest.mark.parametrize("name", ["lt.s32", "lt.u32", "eq.s32", "ge.u32", "ltu.f32", "gt.f32"])
def test_comparisons_and_their_negation(name: str) -> None:
    statement = (
        f"setp.{name} %p1|%p2, %r1, %r2; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2;"
        "add.u32 %r3, %r3, %r4;"
    )
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    entry, form = find(f"setp.{name}")
    flag = entry.run(form, decode(A, form.type), decode(B, form.type))[0]
    np.testing.assert_array_equal(kernel.values(), np.where(flag, 1, 2))


def test_narrow_registers_are_widened_by_sign() -> None:
    statement = "cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r3, %h1;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    wanted = A.astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)
    np.testing.assert_array_equal(kernel.values(), wanted)
    statement = "cvt.s8.s32 %h1, %r1; cvt.s32.s16 %r3, %h1;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    wanted = A.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
    np.testing.assert_array_equal(kernel.values(), wanted)


def test_registers_are_put_together_and_taken_apart() -> None:
    statement = (
        "mov.b64 %rd5, {%r1, %r2}; mov.b64 {%r5, %r6}, %rd5; mov.b32 {%h1, %h2}, %r6;"
        "mov.b32 %r7, {%h2, %h1}; xor.b32 %r3, %r5, %r7;"
    )
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    np.testing.assert_array_equal(kernel.values(), A ^ ((B >> 16) | (B << 16)))


def test_guards_choose_lanes() -> None:
    statement = "mov.u32 %r3, 7; setp.lt.u32 %p1, %r1, %r2; @%p1 add.u32 %r3, %r1, 1;"
    statement += "@!%p1 mov.u32 %r3, %r2;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    np.testing.assert_array_equal(kernel.values(), np.where(A < B, A + 1, B))


def test_carries() -> None:
    statement = "add.cc.u32 %r4, %r1, %r2; addc.u32 %r3, 0, 0;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    np.testing.assert_array_equal(kernel.values(), (A.astype(np.uint64) + B) >> 32)
    statement = "sub.cc.u32 %r4, %r1, %r2; subc.u32 %r3, 10, 3;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    np.testing.assert_array_equal(kernel.values(), np.where(A < B, 6, 7))
    statement = "mad.lo.cc.u32 %r4, %r1, %r2, %r1; madc.hi.u32 %r3, %r1, %r2, 0;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    wide = A.astype(object) * B.astype(object) + A.astype(object)
    np.testing.assert_array_equal(kernel.values(), np.array([int(x) >> 32 for x in wide]))


def test_floats_spelled_as_bits() -> None:
    statement = "mov.f32 %f1, 0f7FC00001; mov.b32 %r3, %f1;"
    kernel = Kernel(_body(statement), {"a": A, "b": B, "out": ("u32", N)}, threads=N)
    assert set(kernel.values()) == {0x7FC00001}
