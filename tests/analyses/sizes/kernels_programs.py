"""Kernels in pairs, of many ways to share work: program ids, swizzles, loops, split-K, atomics.

`bad` puts one slip into a kernel that is right without it; most do not show at the launch's sizes.
"""
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl

from tests.analyses.sizes.capture import Table
from tests.analyses.sizes.kernels_pairs import BOUNDS, RACE, pair_of, rand

PROGRAMS = Table()
pair = pair_of(PROGRAMS)


@triton.jit
def tiles_kernel(o, M, N, BAD: tl.constexpr, B: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, B), tl.cdiv(N, B)
    width = G * cols
    first = pid // width * G
    size = min(rows - first, G)
    m = first + (pid % width) % size
    n = (pid % width) // (G if BAD else size)
    i, j = m * B + tl.arange(0, B), n * B + tl.arange(0, B)
    mask = (i[:, None] < M) & (j[None, :] < N)
    tl.store(o + i[:, None] * N + j[None, :], 1.0, mask=mask)


@pair(RACE)
def group_of_the_wrong_size(bad: bool) -> None:
    M, N = 150, 60
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16),)
    tiles_kernel[grid](rand(M, N), M, N, bad, B=16, G=4)


@triton.jit
def slices_kernel(a, w, M, K, BAD: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1)
    k = s * BK + tl.arange(0, BK)
    v = tl.load(a + m[:, None] * K + k[None, :],
                mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)  # fmt: skip
    slot = 0 if BAD else s
    tl.store(w + slot * M + m, tl.sum(v, 1), mask=m < M)


@pair(RACE)
def split_k_into_slices(bad: bool) -> None:
    M, K = 70, 150
    slices = triton.cdiv(K, 32)
    slices_kernel[(triton.cdiv(M, 16), slices)](rand(M, K), rand(slices, M), M, K, bad, 16, 32)


@triton.jit
def persistent_tiles_kernel(o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    rows, cols = tl.cdiv(M, B), tl.cdiv(N, B)
    for t in range(tl.program_id(0), rows * cols, tl.num_programs(0)):
        m = t // cols
        n = t % (rows if BAD else cols)
        i, j = m * B + tl.arange(0, B), n * B + tl.arange(0, B)
        mask = (i[:, None] < M) & (j[None, :] < N)
        tl.store(o + i[:, None] * N + j[None, :], 1.0, mask=mask)


@pair(RACE)
def persistent_tiles_of_two_axes(bad: bool) -> None:
    M, N = 50, 80
    persistent_tiles_kernel[(3,)](rand(M, N), M, N, bad, B=16)


@triton.jit
def grid_stride_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    step = tl.num_programs(0) * B
    for first in range(tl.program_id(0) * B, n, step - B if BAD else step):
        i = first + tl.arange(0, B)
        tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@pair(RACE)
def loop_by_the_size_of_the_grid(bad: bool) -> None:
    n = 1000
    grid_stride_kernel[(5,)](rand(n), rand(n), n, bad, B=64)


@triton.jit
def mixed_ids_kernel(o, n, BAD: tl.constexpr, B: tl.constexpr):
    width = tl.num_programs(0) if BAD else tl.num_programs(1)
    block = tl.program_id(0) * width + tl.program_id(1)
    i = block * B + tl.arange(0, B)
    tl.store(o + i, 1.0, mask=i < n)


@pair(RACE)
def block_of_two_ids(bad: bool) -> None:
    n = 600
    mixed_ids_kernel[(3, triton.cdiv(triton.cdiv(n, 64), 3))](rand(n), n, bad, B=64)


@triton.jit
def three_ids_kernel(o, Y, Z, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    x, y, z = pid // (Y * Z), (pid // Z) % Y, pid % (Y if BAD else Z)
    i = tl.arange(0, B)
    tl.store(o + ((x * Y + y) * Z + z) * B + i, 1.0)


@pair(RACE, BOUNDS)
def three_ids_of_one(bad: bool) -> None:
    X, Y, Z = 3, 5, 7
    three_ids_kernel[(X * Y * Z,)](rand(X, Y, Z, 16), Y, Z, bad, B=16)


@triton.jit
def partial_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    s = tl.cumsum(tl.load(x + i, mask=i < n, other=0.0))
    tl.store(x + i, s, mask=i < n)
    tl.store(o + pid // (2 if BAD else 1), tl.max(s))


@pair(RACE)
def sums_of_blocks(bad: bool) -> None:
    n = 300
    blocks = triton.cdiv(n, 64)
    partial_kernel[(blocks,)](rand(n), rand(blocks), n, bad, B=64)


@triton.jit
def carry_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    carry = 0.0
    i = tl.arange(0, B)
    for k in range(0, n, B):
        mask = i < n - (0 if BAD else k)
        v = tl.load(x + r * n + k + i, mask=k + i < n, other=0.0)
        s = tl.cumsum(v) + carry
        carry += tl.sum(v)
        tl.store(o + r * n + k + i, s, mask=mask)


@pair(RACE, BOUNDS)
def scan_with_a_carry(bad: bool) -> None:
    rows, n = 5, 200
    carry_kernel[(rows,)](rand(rows, n), rand(rows, n), n, bad, B=64)


@triton.jit
def moving_pointer_kernel(x, o, n, stride, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    at = x + r * stride + tl.arange(0, B)
    out = o + r * stride + tl.arange(0, B)
    left = n
    for _ in range(0, tl.cdiv(n, B)):
        mask = tl.arange(0, B) < left
        tl.store(out, tl.load(at, mask=mask), mask=mask)
        at += B
        out += B
        left -= B // 2 if BAD else B


@pair(BOUNDS, RACE)
def pointers_that_move(bad: bool) -> None:
    rows, n = 4, 130
    x, o = rand(rows, n), rand(rows, n)
    moving_pointer_kernel[(rows,)](x, o, n, x.stride(0), bad, B=64)


@triton.jit
def backwards_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    blocks = tl.cdiv(n, B)
    for k in range(0, blocks):
        at = (blocks - (0 if BAD else 1) - k) * B + i
        v = tl.load(x + r * n + at, mask=at < n, other=0.0)
        tl.store(o + r * n + at, v, mask=at < (n + 1 if BAD else n))


@pair(BOUNDS, RACE)
def blocks_from_the_last(bad: bool) -> None:
    rows, n = 4, 128
    backwards_kernel[(rows,)](rand(rows, n), rand(rows, n), n, bad, B=64)


@triton.jit
def while_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    k = 0
    while k < n:
        i = k + tl.arange(0, B)
        mask = i < (n + 1 if BAD else n)
        tl.store(o + r * n + i, tl.load(x + r * n + i, mask=i < n), mask=mask)
        k += B


@pair(BOUNDS, RACE)
def loop_of_a_condition(bad: bool) -> None:
    rows, n = 4, 130
    while_kernel[(rows,)](rand(rows, n), rand(rows, n), n, bad, B=64)


@triton.jit
def early_kernel(x, o, rows, cols, BAD: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    for j in range(0, R):
        r = tl.program_id(0) * R + j
        if r < (rows + 1 if BAD else rows):
            c = tl.arange(0, B)
            v = tl.load(x + r * cols + c, mask=c < cols)
            tl.store(o + r * cols + c, v, mask=c < cols)


@pair(BOUNDS)
def rows_that_a_branch_leaves_out(bad: bool) -> None:
    rows, cols = 14, 50
    early_kernel[(triton.cdiv(rows, 4),)](
        rand(rows, cols), rand(rows, cols), rows, cols, bad, 4, 64
    )


@triton.jit
def return_kernel(x, o, n, BAD: tl.constexpr):
    pid = tl.program_id(0)
    if pid > n if BAD else pid >= n:
        return
    tl.store(o + pid, tl.load(x + pid))


@pair(BOUNDS)
def programs_that_return(bad: bool) -> None:
    n = 60
    return_kernel[(triton.cdiv(n, 16) * 16,)](rand(n), rand(n), n, bad)


@triton.jit
def several_rows_kernel(x, o, M, N, BAD: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, B)
    mask = c[None, :] < N
    if not BAD:
        mask = mask & (m[:, None] < M)
    v = tl.load(x + m[:, None] * N + c[None, :], mask=mask)
    tl.store(o + m[:, None] * N + c[None, :], v, mask=mask)


@pair(BOUNDS)
def several_rows_for_a_program(bad: bool) -> None:
    M, N = 30, 50
    several_rows_kernel[(triton.cdiv(M, 8),)](rand(M, N), rand(M, N), M, N, bad, 8, 64)


@triton.jit
def halves_by_bits_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    half = pid & (3 if BAD else 1)
    i = (pid >> 1) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(o + half * n + i, v, mask=i < n)


@pair(BOUNDS)
def ids_by_bits(bad: bool) -> None:
    n = 100
    halves_by_bits_kernel[(2 * triton.cdiv(n, 64),)](rand(n), rand(2, n), n, bad, B=64)


@triton.jit
def columns_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for r in range(0, M + 1 if BAD else M):
        total += tl.load(x + r * N + c, mask=c < N, other=0.0)
    tl.store(o + c, total, mask=c < N)


@pair(BOUNDS)
def sums_of_columns(bad: bool) -> None:
    M, N = 20, 90
    columns_kernel[(triton.cdiv(N, 32),)](rand(M, N), rand(N), M, N, bad, B=32)


@triton.jit
def bands_kernel(x, w, M, N, per, BAD: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    end = p * per + per if BAD else tl.minimum(p * per + per, M)
    for r in range(p * per, end):
        total += tl.load(x + r * N + c, mask=c < N, other=0.0)
    tl.store(w + p * N + c, total, mask=c < N)


@pair(BOUNDS)
def a_band_of_rows_for_each_program(bad: bool) -> None:
    M, N, programs = 41, 50, 4
    per = triton.cdiv(M, programs)
    bands_kernel[(programs,)](rand(M, N), rand(programs, N), M, N, per, bad, B=64)


@triton.jit
def atomics_kernel(x, o, n, bins, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if BAD:
        tl.store(o + i % bins, v, mask=i < n)
    else:
        tl.atomic_max(o + i % bins, v, mask=i < n, sem="relaxed")


@pair(RACE)
def most_of_each_residue(bad: bool) -> None:
    n, bins = 300, 37
    atomics_kernel[(triton.cdiv(n, 64),)](rand(n), rand(bins), n, bins, bad, B=64)


@triton.jit
def reset_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if BAD and pid == 0:
        tl.store(o, 0.0)
    tl.atomic_add(o, tl.sum(v), sem="relaxed")


@pair(RACE)
def atomics_next_to_a_store(bad: bool) -> None:
    n = 300
    reset_kernel[(triton.cdiv(n, 64),)](rand(n), rand(1), n, bad, B=64)


@triton.jit
def product_kernel(a, b, c, M, N, K, sab, sam, sbb, sbk, scb, scm,
                   BAD: tl.constexpr, B: tl.constexpr):  # fmt: skip
    z = tl.program_id(2)
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, B)
    a += z * sab + m[:, None] * sam + k[None, :]
    b += z * (sab if BAD else sbb) + k[:, None] * sbk + n[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for i in range(0, K, B):
        x = tl.load(a, mask=(m[:, None] < M) & (i + k[None, :] < K), other=0.0)
        y = tl.load(b, mask=(n[None, :] < N) & (i + k[:, None] < K), other=0.0)
        acc = tl.dot(x, y, acc)
        a += B
        b += B * sbk
    c += z * scb + m[:, None] * scm + n[None, :]
    tl.store(c, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@pair(BOUNDS)
def batches_of_products(bad: bool) -> None:
    Z, M, N, K = 3, 50, 40, 70
    a, b, c = rand(Z, M, K), rand(Z, K, N), rand(Z, M, N)
    product_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16), Z)](
        a, b, c, M, N, K, *a.stride()[:2], *b.stride()[:2], *c.stride()[:2], bad, B=16
    )


@triton.jit
def causal_kernel(x, o, N, BAD: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0)
    i = m * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, m * B + B, B):
        j = k + tl.arange(0, B)
        whole = (i[:, None] >= j[None, :]) if BAD else (i[:, None] < N) & (j[None, :] < N)
        acc += tl.load(x + i[:, None] * N + j[None, :], mask=whole, other=0.0)
    tl.store(o + i, tl.sum(acc, 1), mask=i < N)


@pair(BOUNDS)
def blocks_under_the_diagonal(bad: bool) -> None:
    N = 70
    causal_kernel[(triton.cdiv(N, 16),)](rand(N, N), rand(N), N, bad, B=16)
