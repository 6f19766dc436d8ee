"""Softmax-like attention of `fla.ops`, and memory rules that are more than one recurrence.

References are plain torch, or the naive version that the package itself ships.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from conformance.compare import Case, case, const, leaf, operation
from conformance.fla_recurrent import DOT, EXACT, B, H, K, V, load, qkv, unit, variants

BF16 = torch.bfloat16


def _repeat(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.repeat_interleave(heads // x.shape[2], 2)


def _causal(length: int, window: int | None, device) -> torch.Tensor:
    gap = torch.arange(length, device=device)
    gap = gap[:, None] - gap[None]
    return (gap >= 0) & (gap < (window or length))


def _attention(q, k, v, gate=None, window=None, scale=None, sink=None):
    """Causal attention, [B, T, H, D]; `gate`: log decays [B, T, H]; `sink`: a logit a head."""
    k, v = _repeat(k, q.shape[2]), _repeat(v, q.shape[2])
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * (scale or q.shape[-1] ** -0.5)
    if gate is not None:
        total = gate.cumsum(1).transpose(1, 2)
        scores = scores + total[..., :, None] - total[..., None, :]
    scores = scores.masked_fill(~_causal(q.shape[1], window, q.device), -float("inf"))
    if sink is not None:
        extra = sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        probs = torch.cat((scores, extra), -1).softmax(-1)[..., :-1]
    else:
        probs = scores.softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", probs, v)


@operation("attn")
def _() -> Iterator[Case]:
    fn = load("fla.ops.attn:parallel_attn")
    for name, length, heads, window, gated, sunk, dtype in [
        ("plain", 37, 2, None, False, False, torch.float32),
        ("grouped heads", 130, 4, None, False, False, torch.float32),
        ("window", 130, 2, 20, False, False, torch.float32),
        ("gate", 70, 4, None, True, False, torch.float32),
        ("sink", 70, 2, None, False, True, torch.float32),
        ("bf16", 130, 4, None, False, False, BF16),
    ]:
        yield case(
            name,
            lambda q, k, v, g, s, w=window: fn(
                q, k, v, g=None if g is None else F.logsigmoid(g), window_size=w, sink_bias=s
            ),
            lambda q, k, v, g, s, w=window: _attention(
                q, k, v, None if g is None else F.logsigmoid(g), w, sink=s
            ),
            leaf(B, length, heads, 64, dtype=dtype),
            leaf(B, length, 2, 64, dtype=dtype),
            leaf(B, length, 2, 64, dtype=dtype),
            leaf(B, length, heads, dtype=dtype, shift=2.0) if gated else None,
            leaf(heads) if sunk else None,
            ratio=DOT if dtype is torch.float32 else 2e-2,
        )
    ends = torch.tensor([0, 19, 60, 61], dtype=torch.int64)
    yield case(
        "decoding",
        lambda q, k, v, c: load("fla.ops.attn.decoding:attn_decoding_one_step")(
            q, k, v, cu_seqlens=c
        ),
        lambda q, k, v, c: load("fla.ops.attn.naive:naive_attn_decoding")(q, k, v, cu_seqlens=c),
        const(1, 3, 4, 64),
        const(1, 61, 2, 64),
        const(1, 61, 2, 64),
        ends,
        ratio=DOT,
        backward=False,
    )
    yield case(
        "packed sequences",
        lambda q, k, v, c: fn(q, k, v, cu_seqlens=c),
        lambda q, k, v, c: torch.cat(
            [
                _attention(q[:, a:b], k[:, a:b], v[:, a:b])
                for a, b in zip(c[:-1].tolist(), c[1:].tolist(), strict=True)
            ],
            1,
        ),
        leaf(1, 61, 2, 64),
        leaf(1, 61, 2, 64),
        leaf(1, 61, 2, 64),
        ends,
        ratio=DOT,
    )


@operation("forgetting_attn")
def _() -> Iterator[Case]:
    fn = load("fla.ops.forgetting_attn:parallel_forgetting_attn")
    for length, heads, window in [(37, 2, None), (130, 4, None), (130, 2, 31)]:
        yield case(
            f"T={length}, {heads} heads, window {window}",
            lambda q, k, v, g, w=window: fn(q, k, v, F.logsigmoid(g), window_size=w),
            lambda q, k, v, g, w=window: _attention(q, k, v, F.logsigmoid(g), w),
            leaf(B, length, heads, 64),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64),
            leaf(B, length, heads, shift=2.0),
            ratio=DOT,
        )


@operation("stickbreaking_attn")
def _() -> Iterator[Case]:
    for length in (37, 130):
        yield case(
            f"T={length}",
            lambda q, k, v: load("fla.ops.stickbreaking_attn:parallel_stickbreaking_attn")(q, k, v),
            lambda q, k, v: load("fla.ops.stickbreaking_attn:naive_stickbreaking_attn")(q, k, v),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64),
            ratio=DOT,
        )


@operation("path_attn")
def _() -> Iterator[Case]:
    for length, gated in [(70, False), (130, True)]:
        yield case(
            f"T={length}{', gate' if gated else ''}",
            lambda q, k, v, w, b, g: load("fla.ops.path_attn:parallel_path_attn")(
                q, k, v, unit(w), b.sigmoid(), None if g is None else F.logsigmoid(g)
            )[0],
            lambda q, k, v, w, b, g: load("fla.ops.path_attn:naive_path_attn")(
                q, k, v, unit(w), b.sigmoid(),
                torch.zeros(q.shape[:3], device=q.device) if g is None else F.logsigmoid(g),
                q.shape[-1] ** -0.5,
            ),
            leaf(1, length, 2, 64, dtype=torch.float16),
            leaf(1, length, 2, 64, dtype=torch.float16),
            leaf(1, length, 2, 64, dtype=torch.float16),
            leaf(1, length, 2, 64),
            leaf(1, length, 2),
            leaf(1, length, 2, shift=3.0) if gated else None,
            ratio=1e-2,
        )  # fmt: skip


@operation("wall_attn")
def _() -> Iterator[Case]:
    for length, window in [(37, None), (130, 40)]:
        yield case(
            f"T={length}, window {window}",
            lambda q, k, v, g, w=window: load("fla.ops.wall_attn:parallel_wall_attn")(
                q, k, v, F.logsigmoid(g), window_size=w
            ),
            lambda q, k, v, g, w=window: load("fla.ops.wall_attn:naive_wall_attn")(
                q, k, v, F.logsigmoid(g), scale=q.shape[-1] ** -0.5, window_size=w
            ),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64),
            leaf(B, length, 2, 64, shift=4.0),
            ratio=DOT,
        )


@operation("wall_attn_decode")
def _() -> Iterator[Case]:
    size = 16

    def ours(q, k, v, g):
        total = (F.logsigmoid(g) / 0.6931471805599453).cumsum(1)
        keys, anchors = load("fla.ops.wall_attn:build_wall_kv_cache")(k, total, size)
        last = q.shape[1]
        return load("fla.ops.wall_attn:parallel_wall_attn_decode")(
            q, v, total[:, -last:].contiguous(), keys, anchors, None, q.shape[-1] ** -0.5, size
        )[0]

    def ref(q, k, v, g):
        whole = torch.cat((torch.zeros_like(k[:, : k.shape[1] - q.shape[1]]), q), 1)
        return load("fla.ops.wall_attn:naive_wall_attn")(
            whole, k, v, F.logsigmoid(g), scale=q.shape[-1] ** -0.5
        )[:, -q.shape[1] :]

    for length, last in [(37, 1), (64, 5)]:
        yield case(
            f"T={length}, the last {last}",
            ours,
            ref,
            const(B, last, 2, 64),
            const(B, length, 2, 64),
            const(B, length, 2, 64),
            const(B, length, 2, 64, shift=4.0),
            ratio=DOT,
            backward=False,
        )


def _graded(wanted: bool, function, arguments: dict):
    """The recurrent form is for inference, and refuses to run where gradients are wanted."""
    with torch.set_grad_enabled(wanted):
        return function(**arguments)


@operation("cyfa")
def _() -> Iterator[Case]:
    def arguments(q, k, v, g, delta, beta, readout, wq, wk):
        return {
            "q": q, "k": k, "v": v, "g": F.logsigmoid(g), "delta": delta.sigmoid(),
            "beta": beta.sigmoid(), "readout": readout, "q_norm_weight": wq, "k_norm_weight": wk,
            "q_norm_eps": 1e-5, "k_norm_eps": 1e-5,
        }  # fmt: skip

    slots, dim = 7, 32
    for name, fn, _bound in variants("fla.ops.cyfa", ("chunk_cyfa", "fused_recurrent_cyfa")):
        yield case(
            f"{name}, T=70",
            lambda *a, f=fn, c="chunk" in name: _graded(c, f, arguments(*a))[0],
            lambda *a: load("fla.ops.cyfa.naive:naive_recurrent_cyfa")(**arguments(*a))[0],
            *qkv(70, dim, dim),
            leaf(B, 70, H, shift=2.0),
            leaf(B, 70, H),
            leaf(B, 70, H),
            leaf(H, slots, slots),
            leaf(dim, shift=1.0, scale=0.1),
            leaf(dim, shift=1.0, scale=0.1),
            ratio=DOT,
            backward="chunk" in name,
        )


@operation("parallax")
def _() -> Iterator[Case]:
    def ref(q, r, k, v):
        k, v = _repeat(k, q.shape[2]), _repeat(v, q.shape[2])
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~_causal(q.shape[1], None, q.device), -float("inf"))
        p1 = scores.softmax(-1)
        p2 = p1 * torch.einsum("bqhd,bkhd->bhqk", r, k)
        first, second = (torch.einsum("bhqk,bkhd->bqhd", p, v) for p in (p1, p2))
        return first * (1 + p2.sum(-1).transpose(1, 2)[..., None]) - second

    for length in (37, 130):
        yield case(
            f"T={length}",
            lambda q, r, k, v: load("fla.ops.parallax:parallel_parallax")(q, r, k, v),
            ref,
            leaf(B, length, 4, 64, dtype=BF16),
            leaf(B, length, 4, 64, dtype=BF16, scale=0.2),
            leaf(B, length, 2, 64, dtype=BF16),
            leaf(B, length, 2, 64, dtype=BF16),
            ratio=3e-2,
        )


@operation("nsa")
def _() -> Iterator[Case]:
    length, block, chosen = 128, 32, 4

    def indices() -> torch.Tensor:
        """Blocks that each token may read, its own block first, the unused ones out of range."""
        found = torch.full((1, length, 1, chosen), length)
        for t in range(length):
            past = torch.randperm(max(1, t // block))[: chosen - 1]
            found[0, t, 0, : len(past)] = past
            found[0, t, 0, -1] = t // block
        return found.sort(-1).values

    yield case(
        "selected blocks",
        lambda q, k, v, g, i: load("fla.ops.nsa:parallel_nsa")(
            q, k, v, g_slc=g.sigmoid(), block_indices=i, block_counts=chosen, block_size=block
        ),
        lambda q, k, v, g, i: load("fla.ops.nsa:naive_nsa")(
            q, k, v, g_slc=g.sigmoid(), block_indices=i, block_counts=chosen, block_size=block
        ),
        leaf(1, length, 16, 64),
        leaf(1, length, 1, 64),
        leaf(1, length, 1, 64),
        leaf(1, length, 16),
        indices(),
        ratio=1e-2,
    )
    yield case(
        "compression",
        lambda q, k, v: load("fla.ops.nsa.compression:parallel_nsa_compression")(
            q, k, v, length, block, 0.125
        )[0],
        lambda q, k, v: load("fla.ops.nsa.naive:naive_nsa_compression")(
            q, k, v, block, 0.125
        )[0],
        leaf(1, length, 16, 64),
        leaf(1, length // block, 1, 64),
        leaf(1, length // block, 1, 64),
        ratio=1e-2,
    )  # fmt: skip


@operation("based")
def _() -> Iterator[Case]:
    def ref(q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = (1 + scores + scores.square() / 2) * _causal(q.shape[1], None, q.device)
        total = scores.sum(-1).transpose(1, 2)[..., None]
        return torch.einsum("bhqk,bkhd->bqhd", scores, v) / (total + 1e-6)

    for name, fn, _bound in variants("fla.ops.based", ("parallel_based", "fused_chunk_based")):
        yield case(f"{name}, T=130", fn, ref, *qkv(130, 16, 64), ratio=DOT)


@operation("rebased")
def _() -> Iterator[Case]:
    def ref(q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = scores.square() * _causal(q.shape[1], None, q.device)
        total = scores.sum(-1).transpose(1, 2)[..., None]
        return torch.einsum("bhqk,bkhd->bqhd", scores, v) / (total + 1e-5)

    yield case(
        "T=128", load("fla.ops.rebased:parallel_rebased"), ref, *qkv(128, 16, 64), ratio=2e-2
    )


@operation("gsa")
def _() -> Iterator[Case]:
    for name, fn, bound in variants("fla.ops.gsa", ("chunk_gsa", "fused_recurrent_gsa")):
        for length in (37, 130):
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, s, g, f=fn: f(q, k, v, s.sigmoid(), F.logsigmoid(g))[0],
                lambda q, k, v, s, g: load("fla.ops.gsa.naive:naive_recurrent_gsa")(
                    q, k, v, s.sigmoid(), F.logsigmoid(g)
                )[0],
                *qkv(length, 32, 32),
                leaf(B, length, H, 32),
                leaf(B, length, H, 32, shift=2.0),
                ratio=bound,
            )


@operation("abc")
def _() -> Iterator[Case]:
    def naive(q, k, v, s):
        return load("fla.ops.gsa.naive:naive_recurrent_gsa")(q, k, v, s)[0]

    for length in (37, 130):
        yield case(
            f"chunk_abc, T={length}",
            lambda q, k, v, s: load("fla.ops.abc:chunk_abc")(q, k, v, s)[0],
            naive,
            *qkv(length, 32, 32),
            leaf(B, length, H, 32),
            ratio=DOT,
        )


@operation("log_linear_attn")
def _() -> Iterator[Case]:
    length = 128
    yield case(
        f"T={length}",
        lambda q, k, v, g, s: load("fla.ops.log_linear_attn:chunk_log_linear_attn")(
            q, k, v, F.logsigmoid(g), F.softplus(s)
        )[0],
        lambda q, k, v, g, s: load("fla.ops.log_linear_attn.naive:naive_log_linear_attn")(
            q, k, v, F.logsigmoid(g), F.softplus(s)
        ),
        leaf(1, length, 2, 64),
        leaf(1, length, 2, 64, scale=0.3),
        leaf(1, length, 2, 64),
        leaf(1, length, 2, shift=2.0),
        leaf(1, length, 2, 8),
        ratio=1e-2,
    )


@operation("mesa_net")
def _() -> Iterator[Case]:
    for length in (64, 130):
        yield case(
            f"T={length}",
            lambda q, k, v, g, b, m: load("fla.ops.mesa_net:chunk_mesa_net")(
                q, unit(k), v, F.logsigmoid(g), b.sigmoid(), F.softplus(m) + 0.25
            )[0],
            lambda q, k, v, g, b, m: load("fla.ops.mesa_net:naive_mesa_net_exact")(
                q, unit(k), v, F.logsigmoid(g), F.softplus(m) + 0.25, b.sigmoid()
            )[0],
            leaf(1, length, 2, 32),
            leaf(1, length, 2, 32),
            leaf(1, length, 2, 32),
            leaf(1, length, 2, shift=3.0),
            leaf(1, length, 2),
            leaf(2, 32),
            ratio=2e-2,
        )


@operation("ttt")
def _() -> Iterator[Case]:
    names = ("chunk_ttt_linear", "fused_chunk_ttt_linear")
    for name, fn, _bound in variants("fla.ops.ttt", names):
        for length in (48, 70):
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, w, b, e, f=fn: f(unit(q), unit(k), v, w, b, e.sigmoid() * 0.1)[0],
                lambda q, k, v, w, b, e: load("fla.ops.ttt.naive:chunk_ttt_linear_ref")(
                    unit(q), unit(k), v, w, b, e.sigmoid() * 0.1
                )[0],
                *qkv(length, 32, 32),
                leaf(H, 32, shift=1.0, scale=0.1),
                leaf(H, 32, scale=0.1),
                leaf(B, length, H, 1),
                ratio=2e-2,
            )


@operation("momentum_delta_rule")
def _() -> Iterator[Case]:
    def arguments(q, k, v, p, alpha, mu, beta, eta):
        return {
            "q": unit(q), "k": unit(k), "v": v, "p": unit(p), "beta": beta.sigmoid(),
            "log_alpha": F.logsigmoid(alpha), "log_mu": F.logsigmoid(mu), "eta": eta.sigmoid(),
        }  # fmt: skip

    # The chunk form has no Triton kernel.
    names = ("fused_recurrent_momentum_delta_rule",)
    for name, fn, _bound in variants("fla.ops.momentum_delta_rule", names):
        for length in (37, 130):
            yield case(
                f"{name}, T={length}",
                lambda *a, f=fn: f(
                    **arguments(*a), use_qk_l2norm_in_kernel=False, use_p_times_alpha=False
                )[0],
                lambda *a: load(
                    "fla.ops.momentum_delta_rule.naive:recurrent_momentum_delta_rule_ref"
                )(**arguments(*a))[0],
                *qkv(length, 32, 32),
                leaf(B, length, H, 32),
                leaf(B, length, H, shift=2.0),
                leaf(B, length, H),
                leaf(B, length, H),
                leaf(B, length, H),
                ratio=1e-3,
            )


@operation("gated_oja_rule")
def _() -> Iterator[Case]:
    def ref(q, k, v, g, beta):
        # The state forgets along the values, and the error is taken on the keys.
        s = q.new_zeros(B, H, K, V)
        outputs = []
        for t in range(q.shape[1]):
            s = s * g[:, t].exp()[..., None, :]
            gap = k[:, t] - (s * v[:, t][..., None, :]).sum(-1)
            s = s + (beta[:, t][..., None] * gap)[..., None] * v[:, t][..., None, :]
            outputs.append((q[:, t][..., None] * s).sum(-2) * K**-0.5)
        return torch.stack(outputs, 1)

    names = ("chunk_gated_oja_rule", "fused_recurrent_gated_oja_rule")
    for name, fn, bound in variants("fla.ops.gated_oja_rule", names):
        for length in (37, 130):
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, g, b, f=fn: f(q, k, unit(v), gv=F.logsigmoid(g), beta=b.sigmoid())[
                    0
                ],
                lambda q, k, v, g, b: ref(q, k, unit(v), F.logsigmoid(g), b.sigmoid()),
                *qkv(length),
                leaf(B, length, H, V, shift=2.0),
                leaf(B, length, H),
                ratio=bound,
                backward="chunk" in name,
            )


@operation("precond_gated_delta_rule")
def _() -> Iterator[Case]:
    def arguments(q, k, v, ga, g, ba, b):
        return {
            "q": q, "k": k, "v": v, "g_atk": F.logsigmoid(ga), "g": F.logsigmoid(g),
            "beta_atk": ba.sigmoid(), "beta": b.sigmoid(),
        }  # fmt: skip

    names = ("chunk_precond_gated_delta_rule", "fused_recurrent_precond_gated_delta_rule")
    naive = "fla.ops.precond_gated_delta_rule.naive:naive_recurrent_precond_gated_delta_rule"
    for name, fn, bound in variants("fla.ops.precond_gated_delta_rule", names):
        for length in (37, 130):
            yield case(
                f"{name}, T={length}",
                lambda *a, f=fn: f(**arguments(*a))[0],
                lambda *a: load(naive)(**arguments(*a))[0],
                *qkv(length, 64, 64),
                leaf(B, length, H, shift=2.0),
                leaf(B, length, H, shift=2.0),
                leaf(B, length, H),
                leaf(B, length, H),
                ratio=bound,
                backward="chunk" in name,
            )


@operation("precond_kda")
def _() -> Iterator[Case]:
    def arguments(q, k, v, ga, g, ba, b):
        return {
            "q": unit(q), "k": unit(k), "v": v, "g_atk": F.logsigmoid(ga),
            "g": F.logsigmoid(g), "beta_atk": ba.sigmoid(), "beta": b.sigmoid(),
        }  # fmt: skip

    names = ("chunk_precond_kda", "fused_recurrent_precond_kda")
    naive = "fla.ops.precond_kda.naive:naive_recurrent_precond_kda"
    for name, fn, bound in variants("fla.ops.precond_kda", names):
        for length in (37, 130):
            yield case(
                f"{name}, T={length}",
                lambda *a, f=fn: f(**arguments(*a))[0],
                lambda *a: load(naive)(**arguments(*a))[0],
                *qkv(length, 64, 64),
                leaf(B, length, H, shift=2.0),
                leaf(B, length, H, 64, shift=2.0),
                leaf(B, length, H),
                leaf(B, length, H),
                ratio=bound,
                backward="chunk" in name,
            )


@operation("attnres")
def _() -> Iterator[Case]:
    def ref(query, norm, *parts):
        x = torch.stack(parts)
        scores = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * norm * query).sum(-1)
        return (scores.softmax(0)[..., None] * x).sum(0)

    for count, dim in [(3, 77), (5, 128)]:
        yield case(
            f"{count} sources of {dim}",
            lambda query, norm, *parts: load("fla.ops.attnres:fused_attnres")(query, parts, norm),
            ref,
            leaf(dim, scale=0.3),
            leaf(dim, shift=1.0, scale=0.1),
            *(leaf(2, 9, dim) for _ in range(count)),
            ratio=EXACT,
        )
