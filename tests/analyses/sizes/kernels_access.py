"""Kernels in pairs, of many ways to address: strides, halos, windows, gathers, views, in place.

`bad` puts one slip into a kernel that is right without it; most do not show at the launch's sizes.
"""
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.analyses.sizes.capture import Table
from tests.analyses.sizes.kernels_pairs import BOUNDS, RACE, WRAPS, pair_of, rand

ACCESS = Table()
pair = pair_of(ACCESS)


@triton.jit
def spread_kernel(x, o, rows, cols, xr, orow, oc, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * xr + c, mask=c < cols)
    step = cols if BAD else orow
    tl.store(o + r * step + c * oc, v, mask=c < cols)


@pair(RACE)
def output_of_every_other_column(bad: bool) -> None:
    rows, cols = 7, 50
    x, o = rand(rows, cols), rand(rows, 3 * cols)[:, ::3]
    spread_kernel[(rows, triton.cdiv(cols, 32))](
        x, o, rows, cols, x.stride(0), *o.stride(), bad, B=32
    )


@triton.jit
def turn_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask)
    other = (n[:, None] < M) & (m[None, :] < N) if BAD else (n[:, None] < N) & (m[None, :] < M)
    tl.store(o + n[:, None] * M + m[None, :], tl.trans(v), mask=other)


@pair(BOUNDS, RACE)
def mask_of_the_wrong_axis(bad: bool) -> None:
    M, N = 50, 70
    turn_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](rand(M, N), rand(N, M), M, N, bad, B=16)


@triton.jit
def five_points_kernel(x, o, H, W, BAD: tl.constexpr, B: tl.constexpr):
    y = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    at = y * W + i
    inside = i < W
    v = tl.load(x + at, mask=inside)
    v += tl.load(x + at - W, mask=inside & (y > 0), other=0.0)
    v += tl.load(x + at + W, mask=inside & (y <= H - 1 if BAD else y < H - 1), other=0.0)
    v += tl.load(x + at - 1, mask=inside & (i > 0), other=0.0)
    v += tl.load(x + at + 1, mask=inside & (i + 1 < W), other=0.0)
    tl.store(o + at, v, mask=inside)


@pair(BOUNDS)
def stencil_of_five_points(bad: bool) -> None:
    H, W = 9, 50
    five_points_kernel[(H, triton.cdiv(W, 32))](rand(H, W), rand(H, W), H, W, bad, B=32)


@triton.jit
def window_kernel(x, o, n, K: tl.constexpr, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    outs = n if BAD else n - K + 1
    total = tl.zeros([B], tl.float32)
    for j in tl.static_range(K):
        total += tl.load(x + i + j, mask=i < outs, other=0.0)
    tl.store(o + i, total, mask=i < n - K + 1)


@pair(BOUNDS)
def window_without_padding(bad: bool) -> None:
    n, K = 301, 5
    grid = (triton.cdiv(n - K + 1, 64),)
    window_kernel[grid](rand(n), rand(n - K + 1), n, K, bad, B=64)


@triton.jit
def halo_kernel(x, o, n, R: tl.constexpr, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for j in range(-R, R + 1):
        at = i + j
        mask = (at >= 0) & (i < n) if BAD else (at >= 0) & (at < n)
        total += tl.load(x + at, mask=mask, other=0.0)
    tl.store(o + i, total, mask=i < n)


@pair(BOUNDS)
def halo_in_a_loop(bad: bool) -> None:
    n = 400
    halo_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, 3, bad, B=64)


@triton.jit
def pooled_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    outs = (n + 1) // 2
    a = tl.load(x + 2 * i, mask=i < outs, other=0.0)
    second = i < outs if BAD else 2 * i + 1 < n
    b = tl.load(x + 2 * i + 1, mask=second, other=0.0)
    tl.store(o + i, tl.maximum(a, b), mask=i < outs)


@pair(BOUNDS)
def pooling_of_an_odd_number(bad: bool) -> None:
    n = 301
    pooled_kernel[(triton.cdiv((n + 1) // 2, 64),)](rand(n), rand((n + 1) // 2), n, bad, B=64)


@triton.jit
def twice_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    step = 1 if BAD else 2
    tl.store(o + step * i, v, mask=i < n)
    tl.store(o + step * i + 1, v, mask=i < n)


@pair(RACE)
def each_element_twice(bad: bool) -> None:
    n = 200
    twice_kernel[(triton.cdiv(n, 64),)](rand(n), rand(2 * n), n, bad, B=64)


@triton.jit
def woven_kernel(x, y, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    both = tl.interleave(a, b)
    j = tl.program_id(0) * (B if BAD else 2 * B) + tl.arange(0, 2 * B)
    tl.store(o + j, both, mask=j < 2 * n)


@pair(RACE)
def two_rows_woven(bad: bool) -> None:
    n = 200
    woven_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), rand(2 * n), n, bad, B=64)


@triton.jit
def joined_kernel(x, y, o, n, m, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    first = i < n
    a = tl.load(x + i, mask=first, other=0.0)
    rest = i < n + m if BAD else (i >= n) & (i < n + m)
    b = tl.load(y + i - n, mask=rest, other=0.0)
    tl.store(o + i, tl.where(first, a, b), mask=i < n + m)


@pair(BOUNDS)
def one_row_after_the_other(bad: bool) -> None:
    n, m = 130, 75
    joined_kernel[(triton.cdiv(n + m, 64),)](rand(n), rand(m), rand(n + m), n, m, bad, B=64)


@triton.jit
def rolled_kernel(x, o, n, shift, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    to = i + shift if BAD else (i + shift) % n
    tl.store(o + to, tl.load(x + i, mask=i < n), mask=i < n)


@pair(BOUNDS, assume="n <= 2 ** 30; shift < n")
def rolled(bad: bool) -> None:
    n = 300
    rolled_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, 17, bad, B=64)


@triton.jit
def diagonal_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < M if BAD else i < tl.minimum(M, N)
    tl.store(x + i * (N + 1), 1.0, mask=mask)


@pair(BOUNDS, RACE)
def diagonal(bad: bool) -> None:
    M, N = 130, 90
    diagonal_kernel[(triton.cdiv(M, 32),)](rand(M, N), rand(M), M, N, bad, B=32)


@triton.jit
def flipped_rows_kernel(x, o, rows, cols, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    other = rows - r if BAD else rows - 1 - r
    for k in range(0, cols, B):
        v = tl.load(x + other * cols + k + c, mask=k + c < cols)
        tl.store(o + r * cols + k + c, v, mask=k + c < cols)


@pair(BOUNDS)
def rows_from_the_last(bad: bool) -> None:
    rows, cols = 12, 90
    flipped_rows_kernel[(rows,)](rand(rows, cols), rand(rows, cols), rows, cols, bad, B=64)


@triton.jit
def swapped_ends_kernel(x, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < (n if BAD else n // 2)
    a = tl.load(x + i, mask=mask)
    b = tl.load(x + n - 1 - i, mask=mask)
    tl.store(x + i, b, mask=mask)
    tl.store(x + n - 1 - i, a, mask=mask)


@pair(RACE)
def reversal_in_place(bad: bool) -> None:
    n = 501
    swapped_ends_kernel[(triton.cdiv(n, 64),)](rand(n), n, bad, B=64)


@triton.jit
def butterfly_kernel(x, half, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < half
    at = half - 1 if BAD else half
    a = tl.load(x + i, mask=mask)
    b = tl.load(x + i + at, mask=mask)
    tl.store(x + i, a + b, mask=mask)
    tl.store(x + i + at, a - b, mask=mask)


@pair(RACE)
def halves_in_place(bad: bool) -> None:
    half = 300
    butterfly_kernel[(triton.cdiv(half, 64),)](rand(2 * half), half, bad, B=64)


@triton.jit
def shifted_kernel(x, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n) * 2
    if BAD:
        tl.store(x + i + 1, v, mask=i + 1 < n)
    else:
        tl.store(x + i, v, mask=i < n)


@pair(RACE)
def shifted_in_place(bad: bool) -> None:
    n = 300
    shifted_kernel[(triton.cdiv(n, 64),)](rand(n), n, bad, B=64)


@triton.jit
def descriptor_rows_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(o, [M, N], [N, 1], [B, B])
    m = tl.program_id(0) * (B // 2 if BAD else B)
    for n in range(0, N, B):
        target.store([m, n], source.load([m, n]))


@pair(RACE)
def descriptors_in_a_loop(bad: bool) -> None:
    M, N = 50, 64
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda").byte())
    descriptor_rows_kernel[(triton.cdiv(M, 16),)](rand(M, N), rand(M, N), M, N, bad, B=16)


@triton.jit
def paged_kernel(kv, table, o, length, pages, stride, PAGE: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0) * PAGE + tl.arange(0, PAGE)
    page = tl.load(table + tl.program_id(0)).to(tl.int64)
    v = tl.load(kv + page * stride + tl.arange(0, PAGE), mask=t < length)
    if BAD:
        tl.store(o + t, v)
    else:
        tl.store(o + t, v, mask=t < length)


@pair(BOUNDS, assume="0 <= values(table) < pages")
def pages_of_a_table(bad: bool) -> None:
    length, pages = 230, 40
    table = torch.randperm(pages, device="cuda", dtype=torch.int32)[: triton.cdiv(length, 16)]
    kv = rand(pages, 24)
    paged_kernel[(triton.cdiv(length, 16),)](
        kv, table, rand(length), length, pages, kv.stride(0), 16, bad
    )


@triton.jit
def bins_kernel(x, o, n, bins, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    at = v + 1 if BAD else v
    tl.atomic_add(o + at, 1, mask=i < n, sem="relaxed")


@pair(BOUNDS, assume="0 <= values(x) < bins")
def histogram_by_atomics(bad: bool) -> None:
    n, bins = 300, 37
    x = torch.randint(0, bins - 1, (n,), device="cuda", dtype=torch.int32)
    o = torch.zeros(bins, device="cuda", dtype=torch.int32)
    bins_kernel[(triton.cdiv(n, 64),)](x, o, n, bins, bad, B=64)


@triton.jit
def batched_kernel(x, o, sb, sh, sn, H, N, BAD: tl.constexpr, B: tl.constexpr):
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    n = tl.program_id(1) * B + tl.arange(0, B)
    if BAD:
        first = b * sb + h * sh
    else:
        first = b.to(tl.int64) * sb + h.to(tl.int64) * sh
    v = tl.load(x + first + n.to(tl.int64) * sn, mask=n < N)
    at = tl.program_id(0).to(tl.int64) * N + n
    tl.store(o + at, v, mask=n < N)


@pair(WRAPS, BOUNDS, assume="len(x) <= 2 ** 34")
def batches_of_a_large_tensor(bad: bool) -> None:
    Z, H, N = 3, 5, 70
    x = rand(Z, H, N, 8)[..., 0]
    batched_kernel[(Z * H, triton.cdiv(N, 32))](x, rand(Z, H, N), *x.stride(), H, N, bad, B=32)


@triton.jit
def expanded_kernel(x, o, rows, cols, sx, so, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * sx + c, mask=c < cols)
    row = 0 if BAD else r
    tl.store(o + row * so + c, v, mask=c < cols)


@pair(RACE)
def rows_that_are_one(bad: bool) -> None:
    rows, cols = 6, 50
    x, o = rand(1, cols).expand(rows, cols), rand(rows, cols)
    expanded_kernel[(rows,)](x, o, rows, cols, x.stride(0), o.stride(0), bad, B=64)


@triton.jit
def exchanged_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = i ^ 1
    mask = i < n if BAD else (i < n) & (j < n)
    tl.store(o + j, tl.load(x + i, mask=mask), mask=mask)


@pair(BOUNDS)
def neighbours_exchanged(bad: bool) -> None:
    n = 300
    exchanged_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, bad, B=64)


@triton.jit
def triangle_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    start = r * (r + 1) // 2
    for k in range(0, r + 1, B):
        mask = k + c <= (r + 1 if BAD else r)
        tl.store(o + start + k + c, tl.load(x + r * n + k + c, mask=k + c < n), mask=mask)


@pair(RACE, unknown="")
def rows_of_a_triangle(bad: bool) -> None:
    n = 40
    triangle_kernel[(n,)](rand(n, n), rand(n * (n + 1) // 2), n, bad, B=16)


@triton.jit
def pool_kernel(table, kv, o, stride, BAD: tl.constexpr, D: tl.constexpr):
    t = tl.program_id(0)
    page = tl.load(table + t)
    if not BAD:
        page = page.to(tl.int64)
    v = tl.load(kv + page * stride + tl.arange(0, D))
    tl.store(o + t * D + tl.arange(0, D), v)


@pair(WRAPS, BOUNDS, unknown="data of table")
def pages_of_a_pool_without_a_size(bad: bool) -> None:
    stride, pages, rows = 276480, 4, 3
    table = torch.tensor([3, 0, 2], device="cuda", dtype=torch.int32)
    pool_kernel[(rows,)](table, rand(pages * stride), rand(rows, 64), stride, bad, D=64)


@triton.jit
def rows_kernel(table, idx, o, n, dim, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    which = tl.load(idx + r)
    c = tl.arange(0, B)
    v = tl.load(table + which * dim + c, mask=c < dim)
    tl.store(o + r * dim + c, v, mask=c <= dim if BAD else c < dim)


@pair(BOUNDS, RACE)
def rows_of_a_table_by_narrow_indices(bad: bool) -> None:
    """A table is as long as other tensors: 32 bits are enough for its rows."""
    n, dim, words = 12, 50, 30
    idx = torch.randint(0, words, (n,), device="cuda", dtype=torch.int32)
    idx[0] = words - 1
    rows_kernel[(n,)](rand(words, dim), idx, rand(n, dim), n, dim, bad, B=64)
