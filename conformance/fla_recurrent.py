"""Linear attention and its relatives in `fla.ops`, against one plain recurrence.

Nearly all of them are the same loop over tokens on a state S of K x V numbers a head: decay it,
optionally erase along one direction, add a key-value product, read it out with the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from importlib import import_module

import torch
import torch.nn.functional as F

from conformance.compare import Case, case, leaf, operation

B, H, K, V = 2, 2, 32, 48
LENGTHS = (37, 130)
DOT, EXACT = 5e-3, 2e-4
"""Bounds for kernels that multiply matrices in tf32, and for those that do not."""


def scan(q, k, v, *, decay=None, erase=None, scale=None, state=None, order=None):
    """Outputs and last state of the recurrence. Everything [B, T, H, D], state [B, H, K, V].

    `decay`: logarithms that broadcast to [B, T, H, K, V]. `erase`: (p, b), both [B, T, H, K]; after
    the decay S becomes S + b (p^T S). `order` "late" erases before the decay.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]) if state is None else state
    outputs = []
    for t in range(q.shape[1]):
        before = s
        if decay is not None:
            s = s * decay[:, t].exp()
        if erase is not None:
            p, b = erase[0][:, t], erase[1][:, t]
            seen = ((before if order == "late" else s) * p[..., None]).sum(-2)
            s = s + b[..., None] * seen[..., None, :]
        s = s + k[:, t][..., None] * v[:, t][..., None, :]
        outputs.append((q[:, t][..., None] * s).sum(-2) * scale)
    return torch.stack(outputs, 1), s


def load(path: str) -> Callable:
    """`fla.ops.X:name`, imported when the case runs, so that one broken module stops one case."""

    def call(*args, **kwargs):
        module, name = path.split(":")
        return getattr(import_module(module), name)(*args, **kwargs)

    return call


def unit(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


def qkv(length: int, k: int = K, v: int = V, heads: int = H, dtype=torch.float32) -> tuple:
    return (
        leaf(B, length, heads, k, dtype=dtype),
        leaf(B, length, heads, k, dtype=dtype, scale=0.5),
        leaf(B, length, heads, v, dtype=dtype),
    )


def start(k: int = K, v: int = V, heads: int = H):
    return leaf(B, heads, k, v, scale=0.3)


def variants(path: str, names: tuple[str, ...]) -> Iterator[tuple[str, Callable, float]]:
    for name in names:
        bound = EXACT if "recurrent" in name else DOT
        yield name, load(f"{path}:{name}"), bound


@operation("linear_attn")
def _() -> Iterator[Case]:
    names = ("chunk_linear_attn", "fused_chunk_linear_attn", "fused_recurrent_linear_attn")
    for name, fn, bound in variants("fla.ops.linear_attn", names):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, s, f=fn: f(
                    q, k, v, initial_state=s, output_final_state=True, normalize=False
                ),
                lambda q, k, v, s: scan(q, k, v, state=s),
                *qkv(length),
                start(),
                ratio=bound,
            )


@operation("gla")
def _() -> Iterator[Case]:
    for name, fn, bound in variants("fla.ops.gla", ("chunk_gla", "fused_recurrent_gla")):
        for length in LENGTHS:
            for dtype in (torch.float32, torch.bfloat16):
                yield case(
                    f"{name}, T={length}, {dtype}",
                    lambda q, k, v, g, s, f=fn: f(
                        q, k, v, F.logsigmoid(g), initial_state=s, output_final_state=True
                    ),
                    lambda q, k, v, g, s: scan(q, k, v, decay=F.logsigmoid(g)[..., None], state=s),
                    *qkv(length, dtype=dtype),
                    leaf(B, length, H, K, dtype=dtype, shift=2.0),
                    start(),
                    ratio=bound if dtype is torch.float32 else 3e-2,
                )


@operation("simple_gla")
def _() -> Iterator[Case]:
    names = ("chunk_simple_gla", "fused_chunk_simple_gla", "fused_recurrent_simple_gla")
    for name, fn, bound in variants("fla.ops.simple_gla", names):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, g, s, f=fn: f(
                    q, k, v, F.logsigmoid(g), initial_state=s, output_final_state=True
                ),
                lambda q, k, v, g, s: scan(
                    q, k, v, decay=F.logsigmoid(g)[..., None, None], state=s
                ),
                *qkv(length),
                leaf(B, length, H, shift=2.0),
                start(),
                ratio=bound,
            )
    yield case(
        "parallel_simple_gla, T=130",
        lambda q, k, v, g: load("fla.ops.simple_gla:parallel_simple_gla")(q, k, v, F.logsigmoid(g))[
            0
        ],
        lambda q, k, v, g: scan(q, k, v, decay=F.logsigmoid(g)[..., None, None])[0],
        *qkv(130),
        leaf(B, 130, H, shift=2.0),
        ratio=DOT,
    )


def _fading(heads: int) -> torch.Tensor:
    """Log decay of each retention head."""
    return torch.tensor([math.log(1 - 2.0 ** (-5 - h)) for h in range(heads)])


@operation("retention")
def _() -> Iterator[Case]:
    names = ("chunk_retention", "fused_chunk_retention", "fused_recurrent_retention")
    for name, fn, bound in variants("fla.ops.retention", names):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, s, f=fn: f(q, k, v, initial_state=s, output_final_state=True),
                lambda q, k, v, s: scan(
                    q, k, v, decay=_fading(H).view(1, 1, H, 1, 1).expand(B, q.shape[1], -1, -1, -1),
                    state=s,
                ),
                *qkv(length),
                start(),
                ratio=bound,
            )  # fmt: skip
    yield case(
        "parallel_retention, T=130",
        lambda q, k, v: load("fla.ops.retention:parallel_retention")(q, k, v)[0],
        lambda q, k, v: scan(
            q, k, v, decay=_fading(H).view(1, 1, H, 1, 1).expand(B, q.shape[1], -1, -1, -1)
        )[0],
        *qkv(130),
        ratio=DOT,
    )


@operation("lightning_attn")
def _() -> Iterator[Case]:
    names = ("chunk_lightning_attn", "fused_recurrent_lightning_attn")
    slope = [-(8 / H * (1 - 3 / 12)) * (h) for h in range(H)]
    for name, fn, bound in variants("fla.ops.lightning_attn", names):
        yield case(
            f"{name}, T=70",
            lambda q, k, v, f=fn: f(q, k, v, 3, 12)[0],
            lambda q, k, v: scan(
                q, k, v, decay=torch.tensor(slope).view(1, 1, H, 1, 1).expand(B, 70, -1, -1, -1)
            )[0],
            *qkv(70),
            ratio=bound,
        )


@operation("delta_rule")
def _() -> Iterator[Case]:
    names = ("chunk_delta_rule", "fused_recurrent_delta_rule")
    for name, fn, bound in variants("fla.ops.delta_rule", names):
        # The chunk form takes no float32.
        dtype = torch.float32 if "recurrent" in name else torch.bfloat16
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, b, s, f=fn: f(
                    q, unit(k), v, b.sigmoid(), initial_state=s, output_final_state=True
                ),
                lambda q, k, v, b, s: _delta(q, unit(k), v, b.sigmoid(), None, s),
                *qkv(length, dtype=dtype),
                leaf(B, length, H, dtype=dtype),
                start(),
                ratio=bound if "recurrent" in name else 3e-2,
            )


def _delta(q, k, v, beta, decay, state, scale=None):
    wide = beta[..., None]
    return scan(q, k, v * wide, decay=decay, erase=(k, -k * wide), state=state, scale=scale)


@operation("gated_delta_rule")
def _() -> Iterator[Case]:
    names = ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule")
    for name, fn, bound in variants("fla.ops.gated_delta_rule", names):
        for length, dtype in [(37, torch.float32), (130, torch.float32), (70, torch.bfloat16)]:
            yield case(
                f"{name}, T={length}, {dtype}",
                lambda q, k, v, g, b, s, f=fn: f(
                    q, unit(k), v, F.logsigmoid(g), beta=b.sigmoid(), initial_state=s,
                    output_final_state=True,
                ),
                lambda q, k, v, g, b, s: _delta(
                    q, unit(k), v, b.sigmoid(), F.logsigmoid(g)[..., None, None], s
                ),
                *qkv(length, dtype=dtype),
                leaf(B, length, H, dtype=dtype, shift=2.0),
                leaf(B, length, H, dtype=dtype),
                start(),
                ratio=bound if dtype is torch.float32 else 3e-2,
                backward="chunk" in name,
            )  # fmt: skip


@operation("kda")
def _() -> Iterator[Case]:
    for name, fn, bound in variants("fla.ops.kda", ("chunk_kda", "fused_recurrent_kda")):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, g, b, s, f=fn: f(
                    q, unit(k), v, F.logsigmoid(g), b.sigmoid(), initial_state=s,
                    output_final_state=True,
                ),
                lambda q, k, v, g, b, s: _delta(
                    q, unit(k), v, b.sigmoid(), F.logsigmoid(g)[..., None], s
                ),
                *qkv(length),
                leaf(B, length, H, K, shift=2.0),
                leaf(B, length, H),
                start(),
                ratio=bound,
                backward="chunk" in name,
            )  # fmt: skip


@operation("gdn2")
def _() -> Iterator[Case]:
    def ref(q, k, v, g, erase, write, s):
        k, erase, write = unit(k), erase.sigmoid(), write.sigmoid()
        return scan(
            q, k, v * write, decay=F.logsigmoid(g)[..., None], erase=(erase * k, -k), state=s
        )

    for name, fn, bound in variants("fla.ops.gdn2", ("chunk_gdn2", "fused_recurrent_gdn2")):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, g, b, w, s, f=fn: f(
                    q, unit(k), v, F.logsigmoid(g), b.sigmoid(), w.sigmoid(), initial_state=s,
                    output_final_state=True,
                ),
                ref,
                *qkv(length),
                leaf(B, length, H, K, shift=2.0),
                leaf(B, length, H, K),
                leaf(B, length, H, V),
                start(),
                ratio=bound,
                backward="chunk" in name,
            )  # fmt: skip


@operation("comba")
def _() -> Iterator[Case]:
    def ref(q, k, v, p, g, beta, s):
        wide = beta.sigmoid()[..., None]
        decay = F.logsigmoid(g)[..., None, None]
        # The kernels erase from the state before it decays.
        erase = (unit(p), -unit(k) * wide)
        return scan(q, unit(k), v * wide, decay=decay, erase=erase, state=s, order="late")

    for name, fn, bound in variants("fla.ops.comba", ("chunk_comba", "fused_recurrent_comba")):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, p, g, b, s, f=fn: f(
                    q=q, k=unit(k), v=v, p=unit(p), g=F.logsigmoid(g), beta=b.sigmoid(),
                    initial_state=s, output_final_state=True,
                ),
                ref,
                *qkv(length),
                leaf(B, length, H, K),
                leaf(B, length, H, shift=2.0),
                leaf(B, length, H),
                start(),
                ratio=bound,
                backward="chunk" in name,
            )  # fmt: skip


@operation("generalized_delta_rule")
def _() -> Iterator[Case]:
    dplr = ("chunk_dplr_delta_rule", "fused_recurrent_dplr_delta_rule")
    for name, fn, bound in variants("fla.ops.generalized_delta_rule", dplr):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, a, g, s, f=fn: f(
                    q=q, k=k, v=v, a=-unit(a), b=unit(a) * 0.5, gk=F.logsigmoid(g),
                    initial_state=s, output_final_state=True,
                ),
                lambda q, k, v, a, g, s: scan(
                    q, k, v, decay=F.logsigmoid(g)[..., None], erase=(-unit(a), unit(a) * 0.5),
                    state=s, order="late",
                ),
                *qkv(length),
                leaf(B, length, H, K),
                leaf(B, length, H, K, shift=3.0),
                start(),
                ratio=bound if "recurrent" in name else 1e-2,
                backward="chunk" in name,
            )  # fmt: skip
    iplr = ("chunk_iplr_delta_rule", "fused_recurrent_iplr_delta_rule")
    for name, fn, bound in variants("fla.ops.generalized_delta_rule", iplr):
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda q, k, v, a, s, f=fn: f(
                    q=q, k=k, v=v, a=-unit(a), b=unit(a) * 0.5, initial_state=s,
                    output_final_state=True,
                ),
                lambda q, k, v, a, s: scan(
                    q, k, v, erase=(-unit(a), unit(a) * 0.5), state=s, order="late"
                ),
                *qkv(length),
                leaf(B, length, H, K),
                start(),
                ratio=bound,
                backward="recurrent" in name,
            )  # fmt: skip


@operation("rwkv7")
def _() -> Iterator[Case]:
    for name, fn, bound in variants("fla.ops.rwkv7", ("chunk_rwkv7", "fused_recurrent_rwkv7")):
        yield case(
            f"{name}, T=70",
            lambda r, k, v, a, w, s, f=fn: f(
                r=r, w=F.logsigmoid(w), k=k, v=v, a=-unit(a), b=unit(a) * 0.5, scale=1.0,
                initial_state=s, output_final_state=True,
            ),
            lambda r, k, v, a, w, s: scan(
                r, k, v, decay=F.logsigmoid(w)[..., None], erase=(-unit(a), unit(a) * 0.5),
                scale=1.0, state=s, order="late",
            ),
            *qkv(70),
            leaf(B, 70, H, K),
            leaf(B, 70, H, K, shift=3.0),
            start(),
            ratio=bound if "recurrent" in name else 1e-2,
            backward="chunk" in name,
        )  # fmt: skip
    yield case(
        "fused_mul_recurrent_rwkv7, T=37",
        lambda r, k, v, kk, a, w: load("fla.ops.rwkv7:fused_mul_recurrent_rwkv7")(
            r, F.logsigmoid(w), k, v, unit(kk), a.sigmoid()
        )[0],
        lambda r, k, v, kk, a, w: scan(
            r, k, v, decay=F.logsigmoid(w)[..., None], scale=1.0, order="late",
            erase=(-unit(kk), unit(kk) * a.sigmoid()),
        )[0],
        *qkv(37),
        leaf(B, 37, H, K),
        leaf(B, 37, H, K),
        leaf(B, 37, H, K, shift=3.0),
        ratio=EXACT,
        backward=False,
    )  # fmt: skip


@operation("rwkv6")
def _() -> Iterator[Case]:
    def ref(r, k, v, w, u, s):
        scale = r.shape[-1] ** -0.5
        outputs = []
        for t in range(r.shape[1]):
            kv = k[:, t][..., None] * v[:, t][..., None, :]
            outputs.append((r[:, t][..., None] * (s + u[None, ..., None] * kv)).sum(-2) * scale)
            s = s * w[:, t].exp()[..., None] + kv
        return torch.stack(outputs, 1), s

    for name, fn, bound in variants("fla.ops.rwkv6", ("chunk_rwkv6", "fused_recurrent_rwkv6")):
        # The recurrent form drops the gradient of its last state.
        used = 1 if "recurrent" in name else 2
        for length in LENGTHS:
            yield case(
                f"{name}, T={length}",
                lambda r, k, v, w, u, s, f=fn, n=used: f(
                    r, k, v, F.logsigmoid(w), u, initial_state=s, output_final_state=True
                )[:n],
                lambda r, k, v, w, u, s, n=used: ref(r, k, v, F.logsigmoid(w), u, s)[:n],
                *qkv(length),
                leaf(B, length, H, K, shift=2.0),
                leaf(H, K),
                start(),
                ratio=bound,
            )


@operation("rwkv4")
def _() -> Iterator[Case]:
    def ref(w, u, k, v, state):
        alpha, beta, eps = state[:, 0, 0], state[:, 1, 0], state[:, 2, 0]
        outputs = []
        for t in range(k.shape[1]):
            top = torch.maximum(u + k[:, t], eps)
            e1, e2 = (eps - top).exp(), (u + k[:, t] - top).exp()
            outputs.append((e1 * alpha + e2 * v[:, t]) / (e1 * beta + e2))
            top = torch.maximum(w + eps, k[:, t])
            e1, e2 = (w + eps - top).exp(), (k[:, t] - top).exp()
            alpha, beta, eps = e1 * alpha + e2 * v[:, t], e1 * beta + e2, top
        return torch.stack(outputs, 1)

    first = torch.zeros(B, 3, 1, 40)
    first[:, 2] = -1e38
    yield case(
        "T=23",
        lambda w, u, k, v, s: load("fla.ops.rwkv4:fused_recurrent_rwkv4")(w, u, k, v, s)[0],
        lambda w, u, k, v, s: ref(-w.exp(), u, k, v, s),
        leaf(40, scale=0.3),
        leaf(40),
        leaf(B, 23, 40),
        leaf(B, 23, 40),
        first,
        ratio=EXACT,
    )


@operation("hgrn")
def _() -> Iterator[Case]:
    def ref(x, g, h):
        outputs = []
        for t in range(x.shape[1]):
            h = g[:, t].exp() * h + x[:, t]
            outputs.append(h)
        return torch.stack(outputs, 1), h

    for name, fn, bound in variants("fla.ops.hgrn", ("chunk_hgrn", "fused_recurrent_hgrn")):
        # The chunk form has no gradient for its first and last state.
        used = 2 if "recurrent" in name else 1
        for length, dim in [(37, 70), (130, 64)]:
            yield case(
                f"{name}, T={length}, D={dim}",
                lambda x, g, h, f=fn, n=used: f(x, F.logsigmoid(g), h, output_final_state=True)[:n],
                lambda x, g, h, n=used: ref(x, F.logsigmoid(g), h)[:n],
                leaf(B, length, dim),
                leaf(B, length, dim, shift=1.0),
                leaf(B, dim) if "recurrent" in name else torch.randn(B, dim),
                ratio=bound,
            )


@operation("gated_delta_product")
def _() -> Iterator[Case]:
    count = 2

    def ref(q, k, v, g, beta):
        # Each token takes `count` delta steps; it decays before the first, reads after the last.
        length = q.shape[1]
        s = q.new_zeros(B, H, K, V)
        outputs = []
        for t in range(length):
            s = s * g[:, t].exp()[..., None, None]
            for j in range(t * count, (t + 1) * count):
                gap = (v[:, j] - (s * k[:, j][..., None]).sum(-2)) * beta[:, j][..., None]
                s = s + k[:, j][..., None] * gap[..., None, :]
            outputs.append((q[:, t][..., None] * s).sum(-2) * K**-0.5)
        return torch.stack(outputs, 1)

    for length in LENGTHS:
        yield case(
            f"{count} steps a token, T={length}",
            lambda q, k, v, g, b: load("fla.ops.gated_delta_product:chunk_gated_delta_product")(
                q, unit(k), v, F.logsigmoid(g), b.sigmoid(), num_householder=count
            )[0],
            lambda q, k, v, g, b: ref(q, unit(k), v, F.logsigmoid(g), b.sigmoid()),
            leaf(B, length, H, K, dtype=torch.bfloat16),
            leaf(B, length * count, H, K, dtype=torch.bfloat16),
            leaf(B, length * count, H, V, dtype=torch.bfloat16),
            leaf(B, length, H, shift=2.0),
            leaf(B, length * count, H, dtype=torch.bfloat16),
            ratio=3e-2,
        )


@operation("lightnet")
def _() -> Iterator[Case]:
    def ref(q, k, v):
        total = k.logcumsumexp(1)
        decay = torch.cat((total[:, :1], total[:, :-1]), 1) - total
        return scan(q, (k - total).exp(), v, decay=decay[..., None])[0]

    names = ("chunk_lightnet", "fused_recurrent_lightnet")
    for name, fn, bound in variants("fla.ops.lightnet", names):
        yield case(f"{name}, T=70", lambda q, k, v, f=fn: f(q, k, v)[0], ref, *qkv(70), ratio=bound)
