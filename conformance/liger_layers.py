"""Norms, activations, rotary embeddings, attention and mixtures of `liger_kernel.ops`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from liger_kernel import ops
from liger_kernel.transformers import functional as liger

from conformance.compare import Case, case, const, leaf, operation

BF16, F16 = torch.bfloat16, torch.float16


def _rms(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@operation("rms_norm")
def _() -> Iterator[Case]:
    for shape, dtype, mode, offset, weighted in [
        ((3, 5, 77), torch.float32, "llama", 0.0, True),
        ((2, 9, 256), BF16, "llama", 0.0, True),
        ((4, 130), torch.float32, "gemma", 1.0, True),
        ((4, 130), BF16, "gemma", 1.0, True),
        ((4, 33), torch.float32, "none", 0.0, True),
        ((6, 64), torch.float32, "llama", 0.0, False),
        ((300, 40), torch.float32, "llama", 0.0, True),
    ]:
        yield case(
            f"{shape}, {dtype}, {mode}{'' if weighted else ', no weight'}",
            lambda x, w, m=mode, o=offset: liger.liger_rms_norm(x, w, 1e-6, o, m),
            lambda x, w, o=offset: _rms(x) * (1.0 if w is None else w + o),
            leaf(*shape, dtype=dtype),
            leaf(shape[-1], dtype=dtype, shift=1.0, scale=0.2) if weighted else None,
        )


@operation("fused_add_rms_norm")
def _() -> Iterator[Case]:
    for shape, dtype, mode, offset in [
        ((3, 5, 77), torch.float32, "llama", 0.0),
        ((4, 130), torch.float32, "gemma", 1.0),
        ((2, 9, 256), BF16, "llama", 0.0),
    ]:
        yield case(
            f"{shape}, {dtype}, {mode}",
            lambda x, r, w, m=mode, o=offset: liger.liger_fused_add_rms_norm(x, r, w, 1e-6, o, m),
            lambda x, r, w, o=offset: (_rms(x + r) * (w + o), x + r),
            leaf(*shape, dtype=dtype),
            leaf(*shape, dtype=dtype),
            leaf(shape[-1], dtype=dtype, shift=1.0, scale=0.2),
        )


@operation("modulated_rms_norm")
def _() -> Iterator[Case]:
    def ref(x, w, scale, shift, offset):
        x = _rms(x) * (1.0 if w is None else w + offset)
        if scale.dim() == 2 and x.dim() == 3 and scale.shape[0] == x.shape[0]:
            scale = scale[:, None]
            shift = None if shift is None else shift[:, None]
        return x * (1 + scale) + (0.0 if shift is None else shift)

    for name, mod, weighted, shifted, mode, offset in [
        ("shared", (77,), True, True, "llama", 0.0),
        ("per batch", (3, 77), True, True, "gemma", 1.0),
        ("per token", (3, 5, 77), False, True, "llama", 0.0),
        ("no shift", (3, 77), True, False, "none", 0.0),
    ]:
        yield case(
            name,
            lambda x, w, s, t, m=mode, o=offset: liger.liger_modulated_rms_norm(
                x, w, s, t, 1e-6, o, m
            ),
            lambda x, w, s, t, o=offset: ref(x, w, s, t, o),
            leaf(3, 5, 77),
            leaf(77, shift=1.0, scale=0.2) if weighted else None,
            leaf(*mod, scale=0.3),
            leaf(*mod) if shifted else None,
            ratio=1e-4,
        )


@operation("layer_norm")
def _() -> Iterator[Case]:
    for shape, dtype in [((3, 5, 77), torch.float32), ((4, 512), BF16), ((130, 33), torch.float32)]:
        yield case(
            f"{shape}, {dtype}",
            lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-6),
            lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-6),
            leaf(*shape, dtype=dtype),
            leaf(shape[-1], dtype=dtype, shift=1.0, scale=0.2),
            leaf(shape[-1], dtype=dtype),
        )


@operation("group_norm")
def _() -> Iterator[Case]:
    for shape, groups in [((2, 12, 33), 3), ((3, 8, 5, 7), 8), ((1, 6, 300), 1)]:
        yield case(
            f"{shape} in {groups} groups",
            lambda x, w, b, g=groups: liger.liger_group_norm(x, w, b, x.shape[1], g, 1e-6),
            lambda x, w, b, g=groups: F.group_norm(x, g, w, b, 1e-6),
            leaf(*shape),
            leaf(shape[1], shift=1.0, scale=0.2),
            leaf(shape[1]),
            ratio=1e-4,
        )


@operation("poly_norm")
def _() -> Iterator[Case]:
    def ref(x, w, b):
        return w[0] * _rms(x**3) + w[1] * _rms(x**2) + w[2] * _rms(x) + b

    for shape in [(3, 5, 77), (130, 64)]:
        yield case(
            f"{shape}",
            lambda x, w, b: liger.liger_poly_norm(x, w, b),
            ref,
            leaf(*shape),
            leaf(3),
            leaf(),
            ratio=1e-4,
        )


@operation("dyt")
def _() -> Iterator[Case]:
    for shape, biased in [((3, 5, 77), True), ((6, 1100), False)]:
        yield case(
            f"{shape}{'' if biased else ', no beta'}",
            liger.liger_dyt,
            lambda x, a, g, b: torch.tanh(a * x) * g + (0.0 if b is None else b),
            leaf(*shape),
            leaf(1, shift=0.5, scale=0.1),
            leaf(shape[-1]),
            leaf(shape[-1]) if biased else None,
            ratio=1e-4,
        )


@operation("geglu")
def _() -> Iterator[Case]:
    for shape, dtype in [((3, 5, 77), torch.float32), ((2, 300), BF16)]:
        yield case(
            f"{shape}, {dtype}",
            liger.liger_geglu,
            lambda a, b: F.gelu(a, approximate="tanh") * b,
            leaf(*shape, dtype=dtype),
            leaf(*shape, dtype=dtype),
            ratio=None if dtype is BF16 else 1e-4,
        )


@operation("swiglu")
def _() -> Iterator[Case]:
    for shape, dtype in [((3, 5, 77), torch.float32), ((2, 300), BF16), ((2, 9001), torch.float32)]:
        yield case(
            f"{shape}, {dtype}",
            liger.liger_swiglu,
            lambda a, b: F.silu(a) * b,
            leaf(*shape, dtype=dtype),
            leaf(*shape, dtype=dtype),
        )
    yield case(
        "gate multiplier",
        lambda a, b: ops.LigerSiLUMulFunction.apply(a, b, 0.7, 1.3),
        lambda a, b: F.silu(a * 0.7) * b * 1.3,
        leaf(4, 65),
        leaf(4, 65),
    )
    for in_place in (False, True):
        yield case(
            f"fused gate and up{', in place' if in_place else ''}",
            lambda y, i=in_place: ops.LigerFusedGateUpSiLUMulFunction.apply(y * 1.0, i),
            lambda y: F.silu(y[..., :65]) * y[..., 65:],
            leaf(4, 130),
        )


@operation("relu_squared")
def _() -> Iterator[Case]:
    yield case("(3, 5, 77)", liger.liger_relu_squared, lambda x: F.relu(x).square(), leaf(3, 5, 77))


@operation("softmax")
def _() -> Iterator[Case]:
    for shape, dtype in [((3, 5, 77), torch.float32), ((4, 1025), torch.float32), ((3, 64), BF16)]:
        yield case(
            f"{shape}, {dtype}",
            liger.liger_softmax,
            lambda x: x.softmax(-1),
            leaf(*shape, dtype=dtype),
        )
    yield case("many columns", liger.liger_softmax, lambda x: x.softmax(-1), leaf(2, 40_001))


def _sparsemax(x: torch.Tensor) -> torch.Tensor:
    """Projection of each row onto the probability simplex."""
    ordered = x.sort(-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    rank = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    support = (ordered * rank > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, support - 1) / support).clamp_min(0)


@operation("sparsemax")
def _() -> Iterator[Case]:
    for shape, dim in [((3, 5, 77), -1), ((4, 1025), -1), ((3, 9, 4), 1)]:
        yield case(
            f"{shape}, dim {dim}",
            lambda x, d=dim: liger.liger_sparsemax(x, d),
            lambda x, d=dim: _sparsemax(x.transpose(d, -1)).transpose(d, -1),
            leaf(*shape),
        )


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def _angles(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    half = torch.rand(*shape[:-1], shape[-1] // 2) * 6.28
    both = torch.cat((half, half), -1)
    return both.cos(), both.sin()


@operation("rope")
def _() -> Iterator[Case]:
    for batch, heads, keys, length, dim in [(2, 4, 2, 5, 16), (1, 3, 1, 9, 64), (2, 6, 6, 3, 24)]:
        cos, sin = _angles(1, length, dim)
        yield case(
            f"{heads}/{keys} heads of {dim}",
            lambda q, k, c, s: liger.liger_rope(q, k, c, s),
            lambda q, k, c, s: (
                _rotate(q, c[:, None], s[:, None]),
                _rotate(k, c[:, None], s[:, None]),
            ),
            leaf(batch, heads, length, dim),
            leaf(batch, keys, length, dim),
            cos,
            sin,
        )
    cos, sin = _angles(1, 5, 16)
    yield case(
        "half of each head",
        lambda q, k, c, s: liger.liger_rope(q, k, c, s),
        lambda q, k, c, s: tuple(
            torch.cat((_rotate(t[..., :16], c[:, None], s[:, None]), t[..., 16:]), -1)
            for t in (q, k)
        ),
        leaf(2, 4, 5, 32),
        leaf(2, 2, 5, 32),
        cos,
        sin,
    )


@operation("llama4_rope")
def _() -> Iterator[Case]:
    def ref(q, k, freqs):
        turn = torch.view_as_complex(freqs)[None, :, None]
        turned = [torch.view_as_complex(t.unflatten(-1, (-1, 2))) * turn for t in (q, k)]
        return tuple(torch.view_as_real(t).flatten(-2) for t in turned)

    for batch, length, heads, keys, dim in [(2, 5, 4, 2, 16), (1, 7, 3, 1, 100)]:
        angle = torch.rand(length, dim // 2) * 6.28
        yield case(
            f"{heads}/{keys} heads of {dim}",
            lambda q, k, f: ops.LigerLlama4RopeFunction.apply(q, k, torch.view_as_complex(f)),
            ref,
            leaf(batch, length, heads, dim),
            leaf(batch, length, keys, dim),
            torch.stack((angle.cos(), angle.sin()), -1),
        )


@operation("qwen2vl_mrope")
def _() -> Iterator[Case]:
    section = (4, 6, 6)

    def ref(q, k, cos, sin):
        parts = list(section) * 2
        c, s = (
            torch.cat([piece[i % 3] for i, piece in enumerate(t.split(parts, -1))], -1)[:, None]
            for t in (cos, sin)
        )
        return _rotate(q, c, s), _rotate(k, c, s)

    cos, sin = _angles(3, 2, 5, 32)
    yield case(
        "4/2 heads of 32",
        lambda q, k, c, s: liger.liger_qwen2vl_mrope(q, k, c, s, list(section)),
        ref,
        leaf(2, 4, 5, 32),
        leaf(2, 2, 5, 32),
        cos,
        sin,
    )


@operation("multi_token_attention")
def _() -> Iterator[Case]:
    def ref(scores, weight, bias, sparse):
        size = scores.shape[-1]
        future = torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1)
        # A finite stand-in for minus infinity, since the reference sorts and sums its rows.
        masked = scores.masked_fill(future, -1e9 if sparse else -float("inf"))
        probs = _sparsemax(masked) if sparse else masked.softmax(-1)
        out = F.conv2d(probs, weight, bias, padding=1)
        return out.masked_fill(future, 0.0)

    for sparse in (False, True):
        yield case(
            "sparsemax" if sparse else "softmax",
            lambda s, w, b, p=sparse: liger.liger_multi_token_attention(
                s, w, b, padding=1, sparse=p
            ),
            lambda s, w, b, p=sparse: ref(s, w, b, p),
            leaf(2, 3, 21, 21),
            leaf(4, 3, 3, 3),
            leaf(4),
            ratio=1e-4,
        )


@operation("fused_neighborhood_attention")
def _() -> Iterator[Case]:
    def ref(q, k, v, size, dilation):
        length = q.shape[2]
        gap = torch.arange(length, device=q.device)
        gap = gap[None] - gap[:, None]
        near = (gap.abs() <= size // 2 * dilation) & (gap % dilation == 0)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return scores.masked_fill(~near, -float("inf")).softmax(-1) @ v

    for length, dim, size, dilation, dtype in [
        (33, 16, 5, 1, torch.float32),
        (70, 32, 3, 2, torch.float32),
        (64, 32, 7, 1, BF16),
    ]:
        yield case(
            f"length {length}, window {size}, dilation {dilation}, {dtype}",
            lambda q, k, v, n=size, d=dilation: liger.liger_fused_neighborhood_attention(
                q, k, v, n, d
            ),
            lambda q, k, v, n=size, d=dilation: ref(q, k, v, n, d),
            leaf(2, 2, length, dim, dtype=dtype),
            leaf(2, 2, length, dim, dtype=dtype),
            leaf(2, 2, length, dim, dtype=dtype),
            ratio=2e-3 if dtype is torch.float32 else 3e-2,
        )


@operation("attn_res")
def _() -> Iterator[Case]:
    def ref(v, query, norm):
        scores = ((_rms(v) * norm) * query).sum(-1)
        return (scores.softmax(0)[..., None] * v).sum(0)

    for blocks, dim in [(3, 77), (8, 128)]:
        yield case(
            f"{blocks} blocks of {dim}",
            lambda v, q, n: liger.liger_attn_res(v, q, n),
            ref,
            leaf(blocks, 2, 5, dim),
            leaf(dim, scale=0.3),
            leaf(dim, shift=1.0, scale=0.2),
            ratio=1e-4,
        )


@operation("mhc_coeffs")
def _() -> Iterator[Case]:
    def ref(x, phi, b, pre, post, res):
        streams = x.shape[-2]
        mix = _rms(x.flatten(-2)) @ phi
        a = torch.sigmoid(mix[..., :streams] * pre + b[:streams])
        c = 2 * torch.sigmoid(mix[..., streams : 2 * streams] * post + b[streams : 2 * streams])
        logits = (mix[..., 2 * streams :] * res + b[2 * streams :]).unflatten(-1, (streams, -1))
        m = logits.softmax(-1) + 1e-6
        m = m / (m.sum(-2, keepdim=True) + 1e-6)
        for _ in range(19):
            m = m / (m.sum(-1, keepdim=True) + 1e-6)
            m = m / (m.sum(-2, keepdim=True) + 1e-6)
        return a, c, m

    for tokens, streams, dim, dtype in [(5, 4, 24, torch.float32), (33, 2, 64, BF16)]:
        yield case(
            f"{streams} streams of {dim}, {dtype}",
            lambda *a: liger.liger_mhc_coeffs(*a, allow_fp32=True),
            ref,
            leaf(tokens, streams, dim, dtype=dtype),
            leaf(streams * dim, streams * streams + 2 * streams, dtype=dtype, scale=0.1),
            leaf(streams * streams + 2 * streams, scale=0.3),
            *(leaf(shift=0.7, scale=0.0) for _ in range(3)),
            ratio=2e-3 if dtype is torch.float32 else 3e-2,
        )


@operation("mhc_pre")
def _() -> Iterator[Case]:
    for tokens, streams, dim in [(5, 4, 77), (40, 2, 130)]:
        yield case(
            f"{streams} streams of {dim}",
            liger.liger_mhc_pre,
            lambda x, h: (x * h[..., None]).sum(-2),
            leaf(tokens, streams, dim),
            leaf(tokens, streams),
            ratio=1e-4,
        )


@operation("mhc_post_res")
def _() -> Iterator[Case]:
    for tokens, streams, dim in [(5, 4, 77), (40, 2, 130)]:
        yield case(
            f"{streams} streams of {dim}",
            liger.liger_mhc_post_res,
            lambda x, f, post, res: res @ x + post[..., None] * f[..., None, :],
            leaf(tokens, streams, dim),
            leaf(tokens, dim),
            leaf(tokens, streams),
            leaf(tokens, streams, streams),
            ratio=1e-4,
        )


@operation("fused_moe")
def _() -> Iterator[Case]:
    def ref(x, up, down, index, weights):
        out = torch.zeros_like(x)
        for k in range(index.shape[1]):
            gate, value = torch.einsum("th,tnh->tn", x, up[index[:, k]]).chunk(2, -1)
            each = torch.einsum("ti,thi->th", F.silu(gate) * value, down[index[:, k]])
            out = out + each * weights[:, k, None]
        return out

    for tokens, experts, dim, inner, dtype in [
        (20, 4, 48, 40, torch.float32),
        (33, 3, 64, 32, BF16),
    ]:
        yield case(
            f"{tokens} tokens, {experts} experts, {dtype}",
            lambda *a: ops.LigerFusedMoEFunction.apply(*a),
            ref,
            leaf(tokens, dim, dtype=dtype),
            leaf(experts, 2 * inner, dim, dtype=dtype, scale=0.2),
            leaf(experts, dim, inner, dtype=dtype, scale=0.2),
            torch.stack([torch.randperm(experts)[:2] for _ in range(tokens)]).int(),
            leaf(tokens, 2, dtype=dtype, scale=0.1, shift=0.5),
            ratio=3e-3 if dtype is torch.float32 else 4e-2,
        )


@operation("mlp")
def _() -> Iterator[Case]:
    for tokens, dim, inner, dtype in [(96, 64, 128, BF16), (50, 128, 64, F16)]:
        yield case(
            f"{tokens} tokens, {dim} to {inner}, {dtype}",
            lambda x, g, u, d: ops.LigerMLPFunction.apply(x, g, u, d),
            lambda x, g, u, d: (F.silu(x @ g.T) * (x @ u.T)) @ d.T,
            leaf(2, tokens // 2, dim, dtype=dtype),
            leaf(inner, dim, dtype=dtype, scale=0.1),
            leaf(inner, dim, dtype=dtype, scale=0.1),
            leaf(dim, inner, dtype=dtype, scale=0.1),
            ratio=3e-2,
        )


@operation("tiled_mlp")
def _() -> Iterator[Case]:
    def ours(x, w):
        layer = torch.nn.Linear(8, 8, bias=False).to(x.device)
        layer.weight = torch.nn.Parameter(w.detach())
        return ops.apply_tiled_mlp(lambda m, part: liger.liger_relu_squared(m(part)), layer, x, 3)

    yield case("3 shards", ours, lambda x, w: F.relu(x @ w.T).square(), leaf(2, 9, 8), const(8, 8))


@operation("embedding")
def _() -> Iterator[Case]:
    for rows, dim in [(50, 64), (33, 100)]:
        yield case(
            f"{rows}x{dim}",
            lambda table, ids: ops.LigerEmbeddingFunction.apply(table, ids),
            lambda table, ids: table[ids],
            leaf(rows, dim),
            torch.randint(0, rows, (3, 7)),
        )


@operation("mm_int8int2")
def _() -> Iterator[Case]:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul

    def ref(a, b):
        full = torch.cat([((b >> (2 * i)) & 3).int() - 1 for i in range(4)])
        return a.int() @ full

    yield case(
        "128x256x128",
        matmul,
        ref,
        torch.randint(-128, 127, (128, 256), dtype=torch.int8),
        torch.randint(0, 171, (64, 128), dtype=torch.uint8),
        backward=False,
    )
