"""Ten kernels as people write them; each is free of races and in bounds for every size."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.analyses.sizes.capture import Table

NAMED = Table()


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor on the device."""
    return torch.rand(shape, device="cuda").to(dtype)


@triton.jit
def vector_add_kernel(x, y, o, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(o + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@NAMED.add()
def vector_add() -> None:
    n = 1000
    x, y, o = rand(n), rand(n), rand(n)
    vector_add_kernel[(triton.cdiv(n, 128),)](x, y, o, n, BLOCK=128)


@triton.jit
def softmax_kernel(o, x, x_stride, o_stride, rows, cols, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, rows, step):
        columns = tl.arange(0, BLOCK)
        mask = columns < cols
        v = tl.load(x + row * x_stride + columns, mask, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(o + row * o_stride + columns, e / tl.sum(e, axis=0), mask)


@NAMED.add()
def softmax() -> None:
    rows, cols = 37, 781
    x, o = rand(rows, cols), rand(rows, cols)
    softmax_kernel[(8,)](o, x, x.stride(0), o.stride(0), rows, cols, BLOCK=1024)


@triton.jit
def layer_norm_kernel(x, y, w, b, mean, rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    y += row * stride
    x += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x + cols, mask=cols < N, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < N, other=0.0).to(tl.float32)
        v = tl.where(cols < N, v - m, 0.0)
        squares += v * v
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        v = tl.load(x + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + cols, (v - m) * r * tl.load(w + cols, mask) + tl.load(b + cols, mask), mask)


@NAMED.add()
def layer_norm() -> None:
    M, N = 11, 781
    x, y, w, b = rand(M, N), rand(M, N), rand(N), rand(N)
    mean, rstd = rand(M), rand(M)
    layer_norm_kernel[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK=256)


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * cols
    first = pid // width * GROUP
    size = min(rows - first, GROUP)
    m = first + (pid % width) % size
    n = (pid % width) // size
    am = (m * BM + tl.arange(0, BM)) % M
    bn = (n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    ap = a + (am[:, None] * sam + k[None, :] * sak)
    bp = b + (k[:, None] * sbk + bn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    cm = m * BM + tl.arange(0, BM)
    cn = n * BN + tl.arange(0, BN)
    cp = c + scm * cm[:, None] + scn * cn[None, :]
    tl.store(cp, acc.to(tl.float16), mask=(cm[:, None] < M) & (cn[None, :] < N))


@NAMED.add()
def matmul() -> None:
    M, N, K = 300, 200, 136
    a, b = rand(M, K, dtype=torch.float16), rand(K, N, dtype=torch.float16)
    c = rand(M, N, dtype=torch.float16)
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 32),)
    matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BM=64, BN=32, BK=16, GROUP=4
    )


@triton.jit
def attention_kernel(
    q, k, v, o, lse, scale, sqz, sqh, sqm, skz, skh, skn, svz, svh, svn, soz, soh, som,
    H, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0)
    z, h = tl.program_id(1) // H, tl.program_id(1) % H
    q += z.to(tl.int64) * sqz + h.to(tl.int64) * sqh
    k += z.to(tl.int64) * skz + h.to(tl.int64) * skh
    v += z.to(tl.int64) * svz + h.to(tl.int64) * svh
    o += z.to(tl.int64) * soz + h.to(tl.int64) * soh
    m = start * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    tile = tl.load(q + m[:, None] * sqm + d[None, :], mask=m[:, None] < N, other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = N
    if CAUSAL:
        end = min((start + 1) * BM, N)
    for j in range(0, end, BN):
        j = tl.multiple_of(j, BN)
        kk = tl.load(k + (j + n)[:, None] * skn + d[None, :], mask=(j + n)[:, None] < N, other=0.0)
        s = tl.dot(tile, kk.T) * scale
        s = tl.where((j + n)[None, :] < N, s, float("-inf"))
        if CAUSAL:
            s = tl.where(m[:, None] >= (j + n)[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, 1)
        vv = tl.load(v + (j + n)[:, None] * svn + d[None, :], mask=(j + n)[:, None] < N, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(vv.dtype), vv)
        top = new
    tl.store(lse + tl.program_id(1).to(tl.int64) * N + m, top + tl.log(total), mask=m < N)
    acc = acc / total[:, None]
    tl.store(o + m[:, None] * som + d[None, :], acc.to(o.dtype.element_ty), mask=m[:, None] < N)


def attention(causal: bool) -> None:
    Z, H, N, D = 3, 5, 170, 64
    q, k, v, o = (rand(Z, H, N, D, dtype=torch.float16) for _ in range(4))
    lse = rand(Z, H, N)
    attention_kernel[(triton.cdiv(N, 32), Z * H)](
        q, k, v, o, lse, 0.1, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3],
        H, N, BM=32, BN=16, D=D, CAUSAL=causal,
    )  # fmt: skip


@NAMED.add()
def attention_forward() -> None:
    attention(False)


@NAMED.add()
def attention_forward_causal() -> None:
    attention(True)


@triton.jit
def rope_kernel(q, q_stride, cos, sin, cs_stride, seq, HEADS: tl.constexpr, HALF: tl.constexpr,
                PAD_H: tl.constexpr, PAD_D: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    q += pid * q_stride
    position = pid % seq
    d = tl.arange(0, PAD_D)
    c = tl.load(cos + position * cs_stride + d, mask=d < HALF, other=0)
    s = tl.load(sin + position * cs_stride + d, mask=d < HALF, other=0)
    first = tl.arange(0, PAD_H)[:, None] * HALF * 2 + d[None, :]
    mask = (tl.arange(0, PAD_H)[:, None] < HEADS) & (d[None, :] < HALF)
    a = tl.load(q + first, mask=mask, other=0)
    b = tl.load(q + first + HALF, mask=mask, other=0)
    tl.store(q + first, a * c - b * s, mask=mask)
    tl.store(q + first + HALF, b * c + a * s, mask=mask)


@NAMED.add()
def rope() -> None:
    batch, seq, heads, dim = 3, 17, 6, 80
    q = rand(batch, seq, heads, dim)
    cos, sin = rand(seq, dim), rand(seq, dim)
    rope_kernel[(batch * seq,)](
        q, q.stride(1), cos, sin, cos.stride(0), seq, HEADS=heads, HALF=dim // 2, PAD_H=8, PAD_D=64
    )


@triton.jit
def embedding_kernel(table, idx, o, n, dim, BN: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BN + tl.arange(0, BN)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    which = tl.load(idx + rows, mask=rows < n, other=0)
    mask = (rows < n)[:, None] & (cols < dim)[None, :]
    v = tl.load(table + which[:, None] * dim + cols[None, :], mask=mask)
    tl.store(o + rows[:, None].to(tl.int64) * dim + cols[None, :], v, mask=mask)


def embed() -> None:
    n, dim, words = 77, 100, 1000
    idx = torch.randint(0, words, (n,), device="cuda")
    table, o = rand(words, dim), rand(n, dim)
    embedding_kernel[(triton.cdiv(n, 16), triton.cdiv(dim, 32))](
        table, idx, o, n, dim, BN=16, BD=32
    )


@NAMED.add()
def embedding() -> None:
    embed()


@triton.jit
def cross_entropy_kernel(
    x, x_stride, target, t_stride, loss, l_stride, cols, ignore, BLOCK: tl.constexpr
):
    pid = tl.program_id(0).to(tl.int64)
    y = tl.load(target + pid * t_stride)
    x += pid * x_stride
    if y == ignore:
        for i in range(0, cols, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(x + at, 0.0, mask=at < cols)
        return
    loss += pid * l_stride
    m = float("-inf")
    d = 0.0
    picked = tl.load(x + y)
    for i in range(0, cols, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=float("-inf"))
        top = tl.maximum(m, tl.max(v))
        d = d * tl.exp(m - top) + tl.sum(tl.exp(v - top))
        m = top
    for i in range(0, cols, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=float("-inf"))
        v = tl.exp(v - m) / d
        v = tl.where(at == y, v - 1, v)
        tl.store(x + at, v, mask=at < cols)
    tl.debug_barrier()
    tl.store(loss, tl.log(d) + m - picked)


@NAMED.add()
def cross_entropy() -> None:
    rows, cols = 9, 1000
    x, loss = rand(rows, cols), rand(rows)
    target = torch.randint(0, cols, (rows,), device="cuda")
    cross_entropy_kernel[(rows,)](
        x, x.stride(0), target, target.stride(0), loss, loss.stride(0), cols, -100, BLOCK=256
    )


@triton.jit
def dropout_kernel(x, o, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(o + at, tl.where(keep, v / (1 - p), 0.0), mask=mask)


@NAMED.add()
def dropout() -> None:
    n = 1000
    x, o = rand(n), rand(n)
    dropout_kernel[(triton.cdiv(n, 256),)](x, o, n, 0.5, 1234, BLOCK=256)


@triton.jit
def split_k_kernel(
    a, b, c, M, N, K, sam, sbk, scm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK * SPLIT)):
        at = k + i * BK * SPLIT
        x = tl.load(a + m[:, None] * sam + at[None, :],
                    mask=(m[:, None] < M) & (at[None, :] < K), other=0.0)  # fmt: skip
        y = tl.load(b + at[:, None] * sbk + n[None, :],
                    mask=(at[:, None] < K) & (n[None, :] < N), other=0.0)  # fmt: skip
        acc = tl.dot(x, y, acc)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(c + m[:, None] * scm + n[None, :], acc, mask=mask, sem="relaxed")


@NAMED.add()
def split_k_atomic() -> None:
    M, N, K = 70, 50, 300
    a, b, c = rand(M, K), rand(K, N), torch.zeros(M, N, device="cuda")
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 16), 4)
    split_k_kernel[grid](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), BM=32, BN=16, BK=16, SPLIT=4
    )
