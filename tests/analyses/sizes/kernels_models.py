"""Kernels in pairs, of layers of models: convolutions, norms, products of batches, quantisation.

`bad` puts one slip into a kernel that is right without it; most do not show at the launch's sizes.
"""
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.analyses.sizes.capture import Table
from tests.analyses.sizes.kernels_pairs import BOUNDS, RACE, WRAPS, pair_of, rand

MODELS = Table()
pair = pair_of(MODELS)
cdiv = triton.cdiv


@triton.jit
def group_norm_kernel(x, w, b, y, C, HW, G, cpg, eps, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    n = pid // G
    g = pid % G
    base = n * C * HW + g * cpg * HW
    size = cpg * HW
    s = 0.0
    s2 = 0.0
    for i in range(0, size, B):
        j = i + tl.arange(0, B)
        v = tl.load(x + base + j, mask=j < size, other=0.0)
        s += tl.sum(v, 0)
        s2 += tl.sum(v * v, 0)
    mean = s / size
    rstd = 1 / tl.sqrt(s2 / size - mean * mean + eps)
    for i in range(0, size, B):
        j = i + tl.arange(0, B)
        v = tl.load(x + base + j, mask=j < size, other=0.0)
        c = (n if BAD else g) * cpg + j // HW
        ww = tl.load(w + c, mask=j < size, other=0.0)
        bb = tl.load(b + c, mask=j < size, other=0.0)
        tl.store(y + base + j, (v - mean) * rstd * ww + bb, mask=j < size)


@pair(BOUNDS)
def group_norm(bad: bool) -> None:
    N, C, HW, G = 5, 12, 25, 4
    group_norm_kernel[(N * G,)](
        rand(N, C, HW), rand(C), rand(C), rand(N, C, HW), C, HW, G, C // G, 1e-5, bad, 32
    )


@triton.jit
def conv_kernel(
    x,
    w,
    y,
    N,
    H,
    W,
    C,
    KO,
    OH,
    OW,
    P: tl.constexpr,
    S: tl.constexpr,
    R: tl.constexpr,
    BAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    m = pm * BM + tl.arange(0, BM)
    n = m // (OH * OW)
    oh = (m % (OH * OW)) // OW
    ow = m % OW
    ko = pn * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for r in range(R):
        for s in range(R):
            ih = oh * S - P + r
            iw = ow * S - P + s
            ok = (n < N) & (ih >= 0) & (ih < H) & (iw < W)
            if not BAD:
                ok = ok & (iw >= 0)
            for c0 in range(0, C, BK):
                c = c0 + tl.arange(0, BK)
                px = x + ((n * H + ih) * W + iw)[:, None] * C + c[None, :]
                v = tl.load(px, mask=ok[:, None] & (c[None, :] < C), other=0.0)
                pw = w + ((ko[None, :] * R + r) * R + s) * C + c[:, None]
                u = tl.load(pw, mask=(c[:, None] < C) & (ko[None, :] < KO), other=0.0)
                acc += tl.dot(v, u)
    tl.store(
        y + m[:, None] * KO + ko[None, :], acc, mask=(m[:, None] < N * OH * OW) & (ko[None, :] < KO)
    )


@pair(BOUNDS)
def conv2d_nhwc(bad: bool) -> None:
    N, H, W, C, KO, R, P, S = 6, 9, 14, 20, 40, 3, 1, 2
    OH, OW = (H + 2 * P - R) // S + 1, (W + 2 * P - R) // S + 1
    x, w, y = rand(N, H, W, C), rand(KO, R, R, C), rand(N, OH, OW, KO)
    conv_kernel[(cdiv(N * OH * OW, 16), cdiv(KO, 16))](
        x, w, y, N, H, W, C, KO, OH, OW, P, S, R, bad, 16, 16, 16
    )


@triton.jit
def rope2_kernel(x, cos, sin, o, S, H, D: tl.constexpr, BAD: tl.constexpr):
    s = tl.program_id(0)
    h = tl.program_id(1)
    i = tl.arange(0, D // 2)
    base = (s * H + h) * D
    a = tl.load(x + base + 2 * i)
    b = tl.load(x + base + 2 * i + 1)
    t = s * (D if BAD else D // 2) + i
    c = tl.load(cos + t)
    n = tl.load(sin + t)
    tl.store(o + base + 2 * i, a * c - b * n)
    tl.store(o + base + 2 * i + 1, a * n + b * c)


@pair(BOUNDS)
def rope_interleaved(bad: bool) -> None:
    S, H, D = 10, 3, 64
    rope2_kernel[(S, H)](
        rand(S, H, D), rand(S, D // 2), rand(S, D // 2), rand(S, H, D), S, H, D, bad
    )


@triton.jit
def partial_kernel(x, part, rows, cols, per, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for r in range(pid * per, tl.minimum((pid + 1) * per, rows)):
        acc += tl.load(x + r * cols + c, mask=c < cols, other=0.0)
    at = (pid // 2 if BAD else pid) * cols + c
    tl.store(part + at, acc, mask=c < cols)


@pair(RACE)
def partial_columns(bad: bool) -> None:
    rows, cols, P = 37, 50, 8
    partial_kernel[(P, cdiv(cols, 32))](
        rand(rows, cols), rand(P, cols), rows, cols, cdiv(rows, P), bad, B=32
    )


@triton.jit
def upsample_kernel(x, o, H, W, F: tl.constexpr, BAD: tl.constexpr, B: tl.constexpr):
    y = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    OW = W * F
    ok = i < OW
    src = (y // F) * W + (i // F)
    if BAD:
        src += 1
    tl.store(o + y * OW + i, tl.load(x + src, mask=ok), mask=ok)


@pair(BOUNDS)
def upsample_nearest(bad: bool) -> None:
    H, W, F = 5, 21, 2
    upsample_kernel[(H * F, cdiv(W * F, 32))](rand(H, W), rand(H * F, W * F), H, W, F, bad, B=32)


@triton.jit
def concat_kernel(a, b, o, ca, cb, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.program_id(1) * B + tl.arange(0, B)
    co = ca + cb
    va = tl.load(a + r * ca + j, mask=j < ca, other=0.0)
    vb = tl.load(b + r * cb + j - ca, mask=(j >= (0 if BAD else ca)) & (j < co), other=0.0)
    tl.store(o + r * co + j, tl.where(j < ca, va, vb), mask=j < co)


@pair(BOUNDS)
def concat(bad: bool) -> None:
    R, ca, cb = 6, 30, 45
    concat_kernel[(R, cdiv(ca + cb, 32))](
        rand(R, ca), rand(R, cb), rand(R, ca + cb), ca, cb, bad, B=32
    )


@triton.jit
def dequant_kernel(
    q, s, o, K, N, GS: tl.constexpr, BAD: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr
):
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = (k[:, None] < K) & (n[None, :] < N)
    w = tl.load(q + (k[:, None] // (4 if BAD else 8)) * N + n[None, :], mask=ok, other=0)
    sc = tl.load(s + (k[:, None] // GS) * N + n[None, :], mask=ok, other=0.0)
    v = ((w >> ((k[:, None] % 8) * 4)) & 15).to(tl.float32) * sc
    tl.store(o + k[:, None] * N + n[None, :], v, mask=ok)


@pair(BOUNDS)
def dequant_int4(bad: bool) -> None:
    K, N, GS = 64, 50, 32
    q = torch.randint(0, 1 << 30, (K // 8, N), dtype=torch.int32, device="cuda")
    dequant_kernel[(cdiv(K, 16), cdiv(N, 16))](
        q, rand(K // GS, N), rand(K, N), K, N, GS, bad, 16, 16
    )


@triton.jit
def maxpool_kernel(x, o, H, W, OH, OW, BAD: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    p = tl.program_id(1) * B + tl.arange(0, B)
    ok = p < OH * OW
    y = (p // OW) * 2
    z = (p % OW) * 2
    best = tl.full([B], -float("inf"), tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            inside = ok & (y + i < H) & (z + j < (W + 1 if BAD else W))
            best = tl.maximum(
                best,
                tl.load(x + pid * H * W + (y + i) * W + z + j, mask=inside, other=-float("inf")),
            )
    tl.store(o + pid * OH * OW + p, best, mask=ok)


@pair(BOUNDS)
def maxpool_ceil(bad: bool) -> None:
    N, H, W = 4, 9, 11
    OH, OW = cdiv(H, 2), cdiv(W, 2)
    maxpool_kernel[(N, cdiv(OH * OW, 16))](rand(N, H, W), rand(N, OH, OW), H, W, OH, OW, bad, B=16)


@triton.jit
def copy64_kernel(x, o, n, cols, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    if not BAD:
        r = r.to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * cols + c, mask=c < cols)
    tl.store(o + r * cols + c, v, mask=c < cols)


@pair(WRAPS, BOUNDS)
def rows_in_64_bits(bad: bool) -> None:
    R, C = 70000, 40000
    x = torch.empty(R, C, device="cuda", dtype=torch.int8)
    copy64_kernel[(R, cdiv(C, 1024))](
        x,
        x.clone() if False else torch.empty(R, C, device="cuda", dtype=torch.int8),
        R * 1,
        C,
        bad,
        B=1024,
    )


@triton.jit
def argmax_kernel(x, vals, idx, n, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.program_id(1)
    j = s * B + tl.arange(0, B)
    v = tl.load(x + r * n + j, mask=j < n, other=-float("inf"))
    nb = tl.num_programs(1)
    at = r * (nb - 1 if BAD else nb) + s
    tl.store(vals + at, tl.max(v, 0))
    tl.store(idx + at, s * B + tl.argmax(v, 0))


@pair(RACE)
def argmax_two_phase(bad: bool) -> None:
    R, n = 5, 100
    nb = cdiv(n, 32)
    argmax_kernel[(R, nb)](
        rand(R, n), rand(R, nb), torch.empty(R, nb, dtype=torch.int32, device="cuda"), n, bad, B=32
    )


@triton.jit
def rms_residual_kernel(x, res, w, D, stride, eps, BAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    ok = j < D
    v = tl.load(x + r * stride + j, mask=ok, other=0.0) + tl.load(
        res + r * stride + j, mask=ok, other=0.0
    )
    tl.store(res + r * stride + j, v, mask=None if BAD else ok)
    rs = 1 / tl.sqrt(tl.sum(v * v, 0) / D + eps)
    tl.store(x + r * stride + j, v * rs * tl.load(w + j, mask=ok), mask=ok)


@pair(BOUNDS, RACE)
def rms_norm_residual(bad: bool) -> None:
    R, D = 9, 50
    rms_residual_kernel[(R,)](rand(R, D), rand(R, D), rand(D), D, D, 1e-6, bad, B=64)


@triton.jit
def gemv_kernel(a, x, y, M, N, BAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    av = tl.load(
        a + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0.0
    )
    xv = tl.load(x + n, mask=n < N, other=0.0)
    r = tl.sum(av * xv[None, :], 1)
    if BAD:
        tl.store(y + m, tl.load(y + m, mask=m < M) + r, mask=m < M)
    else:
        tl.atomic_add(y + m, r, mask=m < M)


@pair(RACE)
def gemv_split(bad: bool) -> None:
    M, N = 50, 90
    gemv_kernel[(cdiv(M, 16), cdiv(N, 32))](
        rand(M, N), rand(N), torch.zeros(M, device="cuda"), M, N, bad, 16, 32
    )


@triton.jit
def bmm_kernel(
    a, b, c, M, N, K, sab, sam, sak, sbb, sbk, sbn, scb, scm, scn,
    BAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    bat = tl.program_id(1)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    pm = pid // nn
    pn = pid % (nm if BAD else nn)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + bat * sab + rm[:, None] * sam + rk[None, :] * sak
    pb = b + bat * sbb + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < K - k * BK), other=0.0)
        y = tl.load(pb, mask=(rk[:, None] < K - k * BK) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
        pa += BK * sak
        pb += BK * sbk
    at = c + bat * scb + rm[:, None] * scm + rn[None, :] * scn
    tl.store(at, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@pair(RACE)
def bmm_of_plain_ids(bad: bool) -> None:
    B, M, N, K = 3, 50, 130, 70
    a, b, c = rand(B, M, K), rand(B, K, N), rand(B, M, N)
    strides = (*a.stride(), *b.stride(), *c.stride())
    bmm_kernel[(cdiv(M, 16) * cdiv(N, 16), B)](a, b, c, M, N, K, *strides, bad, 16, 16, 16)


@triton.jit
def decode_kernel(q, k, v, o, lse, L, per, H, D: tl.constexpr, BAD: tl.constexpr, B: tl.constexpr):
    h = tl.program_id(0)
    s = tl.program_id(1)
    d = tl.arange(0, D)
    qv = tl.load(q + h * D + d)
    start = s * per
    end = start + per if BAD else tl.minimum(start + per, L)
    m = -float("inf")
    z = 0.0
    acc = tl.zeros([D], tl.float32)
    for i in range(start, end, B):
        j = i + tl.arange(0, B)
        ok = j < end
        kv = tl.load(k + (j[:, None] * H + h) * D + d[None, :], mask=ok[:, None], other=0.0)
        sc = tl.sum(kv * qv[None, :], 1)
        sc = tl.where(ok, sc, -float("inf"))
        mn = tl.maximum(m, tl.max(sc, 0))
        al = tl.exp(m - mn)
        p = tl.exp(sc - mn)
        vv = tl.load(v + (j[:, None] * H + h) * D + d[None, :], mask=ok[:, None], other=0.0)
        acc = acc * al + tl.sum(p[:, None] * vv, 0)
        z = z * al + tl.sum(p, 0)
        m = mn
    ns = tl.num_programs(1)
    tl.store(o + (h * ns + s) * D + d, acc)
    tl.store(lse + h * ns + s, m + tl.log(z))


@pair(BOUNDS)
def split_kv_decode(bad: bool) -> None:
    H, L, D, S = 4, 100, 32, 3
    per = cdiv(L, S)
    decode_kernel[(H, S)](
        rand(H, D), rand(L, H, D), rand(L, H, D), rand(H, S, D), rand(H, S), L, per, H, D, bad, 16
    )
