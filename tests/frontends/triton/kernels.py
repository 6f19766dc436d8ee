"""Kernels that the tests of the frontend launch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + 1, mask=m)


@triton.jit
def scalars(o, i32, i64, flag, number, one, nothing, K: tl.constexpr = 3):
    if nothing is None:
        tl.store(o, i32 + i64 + flag + number + one + K)


@triton.jit
def typed(o, a: tl.int8, b: tl.uint32, c: tl.float16, d: tl.bfloat16):
    tl.store(o, a + b + c + d)


@triton.jit
def nested(p, t, B: tl.constexpr):
    tl.store(p, tl.load(t[0]) + t[1][0] + t[1][1] + B)


@triton.jit
def copy_tile(a, b, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    b.store(at, a.load(at) * 2)


@triton.jit
def device_descriptor(a, M, N, B: tl.constexpr):
    d = tl.make_tensor_descriptor(a, [M, N], [N, 1], [B, B])
    d.store([0, 0], d.load([0, 0]) + 1)


@triton.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in tl.range(0, K, BK, num_stages=STAGES):
        x = tl.load(a + i[:, None] * K + (t + k)[None, :])
        y = tl.load(b + (t + k)[:, None] * BN + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * BN + j[None, :], acc)


@triton.jit
def row_sum(x, o, N, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(
        o + tl.program_id(0),
        tl.sum(tl.load(x + tl.program_id(0) * N + i, mask=i < N, other=0.0), 0),
    )


@triton.jit
def through_table(table, o, n, B: tl.constexpr):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * B + i, tl.load(p + i, mask=i < n, other=0.0))
