"""Helpers of `fla.ops.utils` and the kernels of `fla.modules`: norms, losses, convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from conformance.compare import Case, case, const, labels, leaf, operation
from conformance.fla_recurrent import DOT, EXACT, load

BF16 = torch.bfloat16


@operation("cumsum")
def _() -> Iterator[Case]:
    def local(x, size, reverse):
        parts = [p.flip(1).cumsum(1).flip(1) if reverse else p.cumsum(1) for p in x.split(size, 1)]
        return torch.cat(parts, 1)

    for shape in [(2, 70, 3), (2, 130, 3, 20)]:
        for reverse in (False, True):
            yield case(
                f"local, {shape}, reverse {reverse}",
                lambda x, r=reverse: load("fla.ops.utils.cumsum:chunk_local_cumsum")(
                    x, 32, reverse=r
                ),
                lambda x, r=reverse: local(x, 32, r),
                const(*shape),
                ratio=EXACT,
            )
            yield case(
                f"global, {shape}, reverse {reverse}",
                lambda x, r=reverse: load("fla.ops.utils.cumsum:chunk_global_cumsum")(x, reverse=r),
                lambda x, r=reverse: local(x, x.shape[1], r),
                const(*shape),
                ratio=EXACT,
            )


@operation("ops_utils")
def _() -> Iterator[Case]:
    def pool(x, size):
        return torch.stack([p.mean(1) for p in x.split(size, 1)], 1)

    def inverse(a):
        eye = torch.eye(a.shape[-1], device=a.device)
        rows = a.transpose(1, 2)
        blocks = [
            torch.linalg.inv(eye[: part.shape[2], : part.shape[2]] + part[..., : part.shape[2]])
            for part in rows.split(a.shape[-1], 2)
        ]
        full = [F.pad(block, (0, a.shape[-1] - block.shape[-1])) for block in blocks]
        return torch.cat(full, 2).transpose(1, 2)

    yield case(
        "mean_pooling",
        lambda x: load("fla.ops.utils.pooling:mean_pooling")(x, 32),
        lambda x: pool(x, 32),
        leaf(2, 130, 3, 20),
        ratio=EXACT,
    )
    for size in (16, 32, 64):
        strict = torch.rand(2, 128, 2, size) * 0.2
        strict = strict * (torch.arange(size) < (torch.arange(128) % size)[:, None])[:, None]
        yield case(
            f"solve_tril {size}",
            lambda a: load("fla.ops.utils.solve_tril:solve_tril")(a),
            inverse,
            strict,
            ratio=DOT,
        )
    yield case(
        "matmul",
        lambda a, b: load("fla.ops.utils.matmul:matmul")(a, b),
        lambda a, b: a @ b,
        const(65, 70),
        const(70, 33),
        ratio=DOT,
    )
    yield case(
        "addmm",
        lambda x, a, b: load("fla.ops.utils.matmul:addmm")(x, a, b),
        lambda x, a, b: x + a @ b,
        const(65, 33),
        const(65, 70),
        const(70, 33),
        ratio=DOT,
    )
    yield case(
        "softmax",
        lambda x: load("fla.ops.utils.softmax:softmax_fwd")(x),
        lambda x: x.softmax(-1),
        const(5, 7, 77),
        ratio=EXACT,
    )
    yield case(
        "logsumexp",
        lambda x: load("fla.ops.utils.logsumexp:logsumexp_fwd")(x),
        lambda x: x.logsumexp(-1),
        const(9, 3001),
        ratio=EXACT,
    )
    yield case(
        "pack and unpack",
        lambda x, c: _round_trip(x, c),
        lambda x, c: torch.cat([x[0, 2:], x[1, 5:], x[2]]),
        leaf(3, 9, 20),
        torch.tensor([0, 7, 11, 20]),
        ratio=EXACT,
    )
    yield case(
        "sinkhorn",
        lambda x: load("fla.ops.utils.sinkhorn.ops:sinkhorn")(x, 6),
        lambda x: load("fla.ops.utils.sinkhorn.naive:naive_sinkhorn")(x, 6),
        leaf(7, 4, 4),
        ratio=1e-3,
    )


def _round_trip(x, ends):
    return load("fla.ops.utils.pack:pack_sequence")(x, ends, "left").reshape(-1, x.shape[-1])


@operation("activations")
def _() -> Iterator[Case]:
    names = {
        "sigmoid": torch.sigmoid,
        "logsigmoid": F.logsigmoid,
        "swish": F.silu,
    }
    for name, ref in names.items():
        for dtype in (torch.float32, BF16):
            yield case(
                f"{name}, {dtype}",
                load(f"fla.modules.activations:{name}"),
                ref,
                leaf(3, 5, 77, dtype=dtype),
                ratio=EXACT if dtype is torch.float32 else None,
            )
    for name, gate in [("swiglu", F.silu), ("sigmoidglu", torch.sigmoid)]:
        yield case(
            name,
            load(f"fla.modules.activations:{name}"),
            lambda x, y, g=gate: g(x) * y,
            leaf(3, 5, 77),
            leaf(3, 5, 77),
            ratio=EXACT,
        )
        yield case(
            f"{name}_linear",
            load(f"fla.modules.activations:{name}_linear"),
            lambda x, y, w, b, g=gate: F.linear(g(x) * y, w, b),
            leaf(3, 5, 77),
            leaf(3, 5, 77),
            leaf(20, 77),
            leaf(20),
            ratio=EXACT,
        )


@operation("norms")
def _() -> Iterator[Case]:
    path = "fla.modules.norm.layernorm:"
    for dim, rows in [(77, 15), (300, 40), (1030, 3)]:
        yield case(
            f"layer_norm {rows}x{dim}",
            lambda x, w, b: load(path + "layer_norm")(x, w, b),
            lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
            leaf(rows, dim), leaf(dim, shift=1.0), leaf(dim), ratio=EXACT,
        )  # fmt: skip
        yield case(
            f"rms_norm {rows}x{dim}",
            lambda x, w: load(path + "rms_norm")(x, w, None),
            lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5),
            leaf(rows, dim), leaf(dim, shift=1.0), ratio=EXACT,
        )  # fmt: skip
        yield case(
            f"l2norm {rows}x{dim}",
            lambda x: load("fla.modules.norm.l2norm:l2norm")(x),
            lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6),
            leaf(rows, dim), ratio=EXACT,
        )  # fmt: skip
    yield case(
        "group_norm",
        lambda x, w, b: load(path + "group_norm")(x, w, b, num_groups=4),
        lambda x, w, b: F.group_norm(x.flatten(0, 1), 4, w, b, 1e-5).view_as(x),
        leaf(2, 9, 48), leaf(48, shift=1.0), leaf(48), ratio=EXACT,
    )  # fmt: skip
    yield case(
        "residual",
        lambda x, w, b, r: load(path + "layer_norm")(x, w, b, residual=r, prenorm=True),
        lambda x, w, b, r: (F.layer_norm(x + r, x.shape[-1:], w, b, 1e-5), x + r),
        leaf(15, 77), leaf(77, shift=1.0), leaf(77), leaf(15, 77), ratio=EXACT,
    )  # fmt: skip
    for name in ("layer_norm_gated", "rms_norm_gated"):
        yield case(
            name,
            lambda x, g, w, n=name: load("fla.modules.norm.fused_norm_gate:" + n)(
                x, g, w, None, eps=1e-5
            ),
            lambda x, g, w, n=name: F.silu(g) * (
                F.layer_norm(x, x.shape[-1:], w, None, 1e-5) if n.startswith("layer")
                else F.rms_norm(x, x.shape[-1:], w, 1e-5)
            ),
            leaf(15, 77), leaf(15, 77), leaf(77, shift=1.0), ratio=EXACT,
        )  # fmt: skip
    yield case(
        "rmsnorm_fn, gate inside",
        lambda x, w, z: load("fla.modules.norm.layernorm_gated:rmsnorm_fn")(
            x, w, None, z, norm_before_gate=False
        ),
        lambda x, w, z: F.rms_norm(x * F.silu(z), x.shape[-1:], w, 1e-6),
        leaf(15, 64), leaf(64, shift=1.0), leaf(15, 64), ratio=EXACT,
    )  # fmt: skip


@operation("causal_conv1d")
def _() -> Iterator[Case]:
    def ref(x, w, b, act):
        y = F.conv1d(
            F.pad(x.transpose(1, 2), (w.shape[1] - 1, 0)), w[:, None], b, groups=w.shape[0]
        )
        y = y.transpose(1, 2)
        return F.silu(y) if act else y

    for length, dim, width, act, biased in [(37, 48, 4, None, False), (130, 100, 3, "silu", True)]:
        yield case(
            f"T={length}, width {width}, {act}",
            lambda x, w, b, a=act: load("fla.modules.causal_conv1d:causal_conv1d")(
                x, w, b, activation=a, backend="triton"
            )[0],
            lambda x, w, b, a=act: ref(x, w, b, a),
            leaf(2, length, dim),
            leaf(dim, width),
            leaf(dim) if biased else None,
            ratio=EXACT,
        )


@operation("module_losses")
def _() -> Iterator[Case]:
    for smooth, dtype in [(0.0, torch.float32), (0.1, torch.float32), (0.0, BF16)]:
        yield case(
            f"cross_entropy_loss, smoothing {smooth}, {dtype}",
            lambda x, t, s=smooth: load("fla.modules.fused_cross_entropy:cross_entropy_loss")(
                x, t, label_smoothing=s
            )[0],
            lambda x, t, s=smooth: F.cross_entropy(x, t, reduction="none", label_smoothing=s),
            leaf(9, 1031, dtype=dtype),
            labels(9, 1031, -100),
            ratio=EXACT if dtype is torch.float32 else None,
        )
    yield case(
        "fused_linear_cross_entropy_loss",
        lambda x, t, w, b: load(
            "fla.modules.fused_linear_cross_entropy:fused_linear_cross_entropy_loss"
        )(x, t, w, b, num_chunks=3),
        lambda x, t, w, b: F.cross_entropy(F.linear(x, w, b), t),
        leaf(13, 24),
        labels(13, 131, -100),
        leaf(131, 24),
        leaf(131),
        ratio=EXACT,
    )
    yield case(
        "fused_kl_div_loss",
        lambda x, y, w, u: load("fla.modules.fused_kl_div:fused_kl_div_loss")(x, y, w, u),
        lambda x, y, w, u: F.kl_div(
            (x @ w.T).log_softmax(-1), (y @ u.T).softmax(-1), reduction="batchmean"
        ),
        leaf(13, 24),
        const(13, 24),
        leaf(131, 24, scale=0.3),
        const(131, 24, scale=0.3),
        ratio=EXACT,
    )


@operation("rotary")
def _() -> Iterator[Case]:
    def ref(x, cos, sin):
        half = cos.shape[-1]
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        c, s = cos[None, :, None], sin[None, :, None]
        return torch.cat((a * c - b * s, b * c + a * s, rest), -1)

    for length, dim, turned in [(37, 32, 32), (70, 64, 48)]:
        angle = torch.rand(length, turned // 2) * 6.28
        yield case(
            f"T={length}, {turned} of {dim}",
            lambda x, c, s: load("fla.modules.rotary:rotary_embedding")(x, c, s),
            ref,
            leaf(2, length, 3, dim),
            angle.cos(),
            angle.sin(),
            ratio=EXACT,
        )


@operation("token_shift")
def _() -> Iterator[Case]:
    for length, dim in [(37, 48), (130, 100)]:
        yield case(
            f"T={length}, D={dim}",
            lambda x: load("fla.modules.token_shift:token_shift")(x),
            lambda x: F.pad(x, (0, 0, 1, -1)) - x,
            leaf(2, length, dim),
            ratio=EXACT,
        )


@operation("rwkv7_helpers")
def _() -> Iterator[Case]:
    dim = 64
    yield case(
        "fused_addcmul_rwkv7",
        lambda x, d, *m: load("fla.ops.rwkv7.fused_addcmul:fused_addcmul_rwkv7")(x, d, *m),
        lambda x, d, *m: tuple(torch.addcmul(x, d, each) for each in m),
        leaf(2, 9, dim),
        leaf(2, 9, dim),
        *(leaf(1, 1, dim) for _ in range(6)),
        ratio=EXACT,
    )
    yield case(
        "fused_k_rwkv7",
        lambda k, a, ka: load("fla.ops.rwkv7.fused_k_update:fused_k_rwkv7")(k, a, ka),
        lambda k, a, ka: k * (1 + (a - 1) * ka),
        leaf(2, 9, dim),
        leaf(2, 9, dim),
        leaf(dim),
        ratio=EXACT,
    )
    yield case(
        "gate_output_correction",
        lambda *a: load("fla.ops.rwkv7.gate_output_correction:gate_output_correction")(*a),
        lambda *a: load("fla.ops.rwkv7.gate_output_correction:gate_output_correction_ref")(*a),
        leaf(2, 9, 4 * 16),
        *(leaf(2, 9, 4, 16) for _ in range(2)),
        leaf(4, 16),
        leaf(2, 9, 4, 16),
        leaf(2, 9, 4 * 16),
        ratio=EXACT,
    )
    yield case(
        "channel_mixing_rwkv7",
        lambda *a: load("fla.ops.rwkv7.channel_mixing:channel_mixing_rwkv7")(*a)[0],
        lambda *a: load("fla.ops.rwkv7.channel_mixing:channel_mixing_rwkv7_torch")(*a)[0],
        leaf(2, 9, 48),
        const(2, 48),
        leaf(48),
        leaf(48, 96),
        leaf(96, 48),
        ratio=EXACT,
    )


@operation("gates")
def _() -> Iterator[Case]:
    yield case(
        "fused_beta_sigmoid",
        lambda x: load("fla.ops.common.gate:fused_beta_sigmoid")(x, 2.0),
        lambda x: x.sigmoid() * 2.0,
        leaf(2, 9, 5),
        ratio=EXACT,
    )
    yield case(
        "fused_gdn_gate",
        lambda g, a, b: load("fla.ops.gated_delta_rule.gate:fused_gdn_gate")(g, a, b),
        lambda g, a, b: -a.exp() * F.softplus(g + b),
        leaf(2, 9, 5),
        leaf(5),
        leaf(5),
        ratio=EXACT,
    )
    yield case(
        "fused_kda_gate",
        lambda g, a, b: load("fla.ops.kda.gate:fused_kda_gate")(g, a, b),
        lambda g, a, b: -a.exp()[:, None] * F.softplus(g + b.view(5, 32)),
        leaf(2, 9, 5, 32),
        leaf(5),
        leaf(5 * 32),
        ratio=EXACT,
    )
