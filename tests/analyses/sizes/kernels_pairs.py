"""Kernels in pairs: `bad` is a constant that puts one slip into a kernel that is right without it.

The launches have sizes at which most of the slips do not show.
"""
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.analyses.sizes.capture import Case, Table
from xttir.diagnostics import Kind

PAIRS = Table()
RACE, BOUNDS, WRAPS = Kind.RACE, Kind.OUT_OF_BOUNDS, Kind.INT_OVERFLOW


def rand(*shape: int) -> torch.Tensor:
    """A tensor on the device."""
    return torch.rand(shape, device="cuda")


def pair_of(table: Table) -> Any:
    """A decorator that adds `launch(False)`, which is right, and `launch(True)`, which has one of
    `kinds`, to a table."""

    def pair(*kinds: Kind, assume: str = "", unknown: str = "") -> Any:
        def register(launch: Any) -> Any:
            for bad in (False, True):
                name = f"{launch.__name__}{'_bad' if bad else ''}"
                found = frozenset(kinds) if bad else frozenset[Kind]()
                run = partial(launch, bad)
                table.cases[name] = Case(name, run, found, assume, unknown)
            return launch

        return register

    return pair


pair = pair_of(PAIRS)


@triton.jit
def mask_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i <= n if BAD else i < n
    tl.store(o + i, tl.load(x + i, mask=m), mask=m)


@pair(BOUNDS)
def mask_off_by_one(bad: bool) -> None:
    n = 1000
    mask_kernel[(triton.cdiv(n, 128),)](rand(n), rand(n), n, bad, B=128)


@triton.jit
def stride_kernel(x, o, rows, cols, xr, xc, orow, oc, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * xr + c * xc, mask=c < cols)
    step = xc if BAD else oc
    tl.store(o + r * orow + c * step, v, mask=c < cols)


@pair(BOUNDS, RACE)
def wrong_stride_in_one_axis(bad: bool) -> None:
    rows, cols = 9, 50
    x, o = rand(rows, cols, 3)[:, :, 0], rand(rows, cols)
    grid = (rows, triton.cdiv(cols, 32))
    stride_kernel[grid](x, o, rows, cols, *x.stride(), *o.stride(), bad, B=32)


@triton.jit
def overlap_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, 2 * B)
    m = (i < n) & (tl.arange(0, 2 * B) < (B + 1 if BAD else B))
    tl.store(o + i, tl.load(x + i, mask=m), mask=m)


@pair(RACE)
def neighbours_overlap(bad: bool) -> None:
    n = 200
    overlap_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, bad, B=64)


@triton.jit
def stencil_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, mask=i < n if BAD else (i > 0) & (i < n), other=0.0)
    right = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(o + i, left + right, mask=i < n)


@pair(BOUNDS)
def mask_missing_on_one_side(bad: bool) -> None:
    n = 500
    stencil_kernel[(triton.cdiv(n, 128),)](rand(n), rand(n), n, bad, B=128)


@pair(RACE)
def stencil_in_place(bad: bool) -> None:
    n = 300
    x = rand(n)
    stencil_kernel[(triton.cdiv(n, 128),)](x, x if bad else rand(n), n, False, B=128)


@triton.jit
def wide_kernel(x, rows, cols, stride, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    row = r * stride if BAD else r.to(tl.int64) * stride
    tl.store(x + row + c, 0.0, mask=c < cols)


@pair(WRAPS, BOUNDS, assume="len(x) <= 2 ** 36")
def offsets_of_large_tensors(bad: bool) -> None:
    rows, cols = 230, 100
    x = rand(rows, cols)
    wide_kernel[(rows,)](x, rows, cols, x.stride(0), bad, B=128)


@triton.jit
def reverse_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    last = n if BAD else n - 1
    tl.store(o + i, tl.load(x + last - i, mask=i < n), mask=i < n)


@pair(BOUNDS)
def counted_from_the_end(bad: bool) -> None:
    n = 300
    reverse_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, bad, B=64)


@triton.jit
def transpose_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask)
    width = N if BAD else M
    tl.store(o + n[None, :] * width + m[:, None], v, mask=mask)


@pair(RACE, BOUNDS)
def transposed_output(bad: bool) -> None:
    M, N = 50, 70
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    transpose_kernel[grid](rand(M, N), rand(N, M), M, N, bad, B=16)


@triton.jit
def histogram_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if BAD:
        tl.atomic_add(o + i, v, sem="relaxed")
    else:
        tl.atomic_add(o + i, v, mask=i < n, sem="relaxed")


@pair(BOUNDS)
def atomics_with_masks(bad: bool) -> None:
    n = 500
    histogram_kernel[(triton.cdiv(n, 128),)](rand(n), rand(n), n, bad, B=128)


@triton.jit
def total_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.sum(tl.load(x + i, mask=i < n, other=0.0))
    if BAD:
        tl.store(o, tl.load(o) + s)
    else:
        tl.atomic_add(o, s, sem="relaxed")


@pair(RACE)
def sum_without_atomics(bad: bool) -> None:
    n = 300
    total_kernel[(triton.cdiv(n, 128),)](rand(n), rand(1), n, bad, B=128)


@triton.jit
def descriptor_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(o, [M + 1 if BAD else M, N], [N, 1], [B, B])
    m, n = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([m, n], source.load([m, n]))


@pair(BOUNDS)
def descriptors_made_by_the_kernel(bad: bool) -> None:
    M, N = 60, 48
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda").byte())
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    descriptor_kernel[grid](rand(M, N), rand(M, N), M, N, bad, B=16)


@triton.jit
def host_descriptor_kernel(x, o, BAD: tl.constexpr, B: tl.constexpr):
    m, n = tl.program_id(0) * B, tl.program_id(1) * B
    o.store([m // 2 if BAD else m, n], x.load([m, n]))


@pair(RACE)
def descriptors_of_the_host(bad: bool) -> None:
    M, N = 50, 36
    x = TensorDescriptor.from_tensor(rand(M, N), [16, 16])
    o = TensorDescriptor.from_tensor(rand(M, N), [16, 16])
    host_descriptor_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, o, bad, B=16)


@triton.jit
def gather_kernel(x, idx, o, n, rows, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.load(idx + i, mask=i < n, other=0)
    tl.store(o + i, tl.load(x + j + (1 if BAD else 0), mask=i < n), mask=i < n)


@pair(BOUNDS, assume="0 <= values(idx) < rows")
def gather_in_a_declared_range(bad: bool) -> None:
    n, rows = 90, 700
    idx = torch.randint(0, rows - 10, (n,), device="cuda", dtype=torch.int32)
    gather_kernel[(triton.cdiv(n, 32),)](rand(rows), idx, rand(n), n, rows, bad, B=32)


@triton.jit
def scatter_kernel(x, idx, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.load(idx + i, mask=i < n, other=0)
    tl.store(o + j, tl.load(x + i, mask=i < n), mask=i < n)


@pair(RACE, unknown="data of idx")
def scatter_with_duplicates(bad: bool) -> None:
    n = 90
    order = torch.randperm(n, dtype=torch.int32)
    if bad:
        order = order // 2
    scatter_kernel[(triton.cdiv(n, 32),)](rand(n), order.cuda(), rand(n), n, bad, B=32)


@triton.jit
def tail_kernel(x, o, n, stride, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    whole = n // B
    i = tl.arange(0, B)
    for k in range(whole + 1 if BAD else whole):
        tl.store(o + r * stride + k * B + i, tl.load(x + r * stride + k * B + i))
    t = whole * B + i
    tl.store(o + r * stride + t, tl.load(x + r * stride + t, mask=t < n), mask=t < n)


@pair(BOUNDS, RACE)
def loop_with_a_tail(bad: bool) -> None:
    rows, n = 5, 200
    x, o = rand(rows, n), rand(rows, n)
    tail_kernel[(rows,)](x, o, n, x.stride(0), bad, B=32)


@triton.jit
def persistent_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    step = tl.num_programs(0)
    tiles = tl.cdiv(n, B)
    for t in range(tl.program_id(0), tiles, step - 1 if BAD else step):
        i = t * B + tl.arange(0, B)
        tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@pair(RACE)
def persistent_programs(bad: bool) -> None:
    n = 500
    persistent_kernel[(4,)](rand(n), rand(n), n, bad, B=128)


@triton.jit
def nested_kernel(x, o, M, N, BAD: tl.constexpr, B: tl.constexpr):
    b = tl.program_id(0)
    for m in range(M):
        for n in range(0, N, B):
            i = n + tl.arange(0, B)
            at = (b * M + m) * N + i
            mask = i < (N + B if BAD else N)
            tl.store(o + at, tl.load(x + at, mask=i < N), mask=mask)


@pair(BOUNDS, RACE)
def nested_loops(bad: bool) -> None:
    batch, M, N = 6, 7, 70
    nested_kernel[(batch,)](rand(batch, M, N), rand(batch, M, N), M, N, bad, B=32)


@triton.jit
def cube_kernel(o, X, Y, Z, BAD: tl.constexpr, B: tl.constexpr):
    x, y = tl.program_id(0), tl.program_id(1)
    z = tl.program_id(2) * B + tl.arange(0, B)
    row = x * X + y if BAD else x * Y + y
    tl.store(o + row * Z + z, 1.0, mask=z < Z)


@pair(RACE, BOUNDS)
def grid_of_three_axes(bad: bool) -> None:
    X, Y, Z = 5, 7, 40
    cube_kernel[(X, Y, triton.cdiv(Z, 16))](rand(X, Y, Z), X, Y, Z, bad, B=16)


@triton.jit
def swizzle_kernel(o, M, N, BAD: tl.constexpr, B: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, B), tl.cdiv(N, B)
    width = G * cols
    first = pid // width * G
    size = G if BAD else min(rows - first, G)
    m = first + (pid % width) % size
    n = (pid % width) // size
    i, j = m * B + tl.arange(0, B), n * B + tl.arange(0, B)
    mask = i[:, None] < M if BAD else (i[:, None] < M) & (j[None, :] < N)
    tl.store(o + i[:, None] * N + j[None, :], 1.0, mask=mask)


@pair(RACE, BOUNDS)
def grouped_programs(bad: bool) -> None:
    M, N = 100, 60
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16),)
    swizzle_kernel[grid](rand(M, N), M, N, bad, B=16, G=4)


@triton.jit
def constant_kernel(x, o, n, N: tl.constexpr, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    width = B if BAD else N
    v = tl.load(x + r * N + c, mask=c < N)
    tl.store(o + r * N + c, v, mask=c < width)


@pair(RACE, BOUNDS)
def sizes_as_constants(bad: bool) -> None:
    rows, cols = 6, 50
    constant_kernel[(rows,)](rand(rows, cols), rand(rows, cols), rows, cols, bad, B=64)


@triton.jit
def divided_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    per = n // tl.num_programs(0)
    first = tl.program_id(0) * per
    for k in range(0, per, B):
        i = first + k + tl.arange(0, B)
        m = i < n if BAD else i < first + per
        tl.store(o + i, tl.load(x + i, mask=m), mask=m)


@pair(RACE)
def a_share_for_each_program(bad: bool) -> None:
    n = 500
    divided_kernel[(4,)](rand(n), rand(n), n, bad, B=64)


@triton.jit
def halves_kernel(x, o, half, stride_x, stride_o, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    a = tl.load(x + r * stride_x + i, mask=i < half)
    b = tl.load(x + r * stride_x + half + i, mask=i < (half + 1 if BAD else half))
    tl.store(o + r * stride_o + i, a * b, mask=i < half)


@pair(BOUNDS)
def two_halves_of_a_row(bad: bool) -> None:
    rows, half = 8, 20
    x, o = rand(rows, 2 * half), rand(rows, half)
    halves_kernel[(rows,)](x, o, half, x.stride(0), o.stride(0), bad, B=32)


@triton.jit
def padded_kernel(x, o, n, BAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if BAD:
        tl.store(o + i, tl.load(x + i))
    else:
        tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@pair(BOUNDS)
def sizes_that_happen_to_divide(bad: bool) -> None:
    n = 1000
    padded_kernel[(triton.cdiv(n, 64),)](rand(n), rand(n), n, bad, B=64)
