"""The losses of `liger_kernel.ops` with references written from their definitions.

`fused_linear_scaled_cross_entropy` is left out: it has no Triton kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from liger_kernel import ops
from liger_kernel.transformers.functional import (
    liger_cross_entropy,
    liger_fused_linear_cross_entropy,
)

from conformance.compare import Case, case, const, labels, leaf, operation

BF16, F16 = torch.bfloat16, torch.float16


def _cross_entropy(x, target, *, weight=None, ignore=-100, reduction="mean", smooth=0.0, z=0.0, cap=None):  # fmt: skip  # noqa: E501
    """Cross entropy of logits `x` with soft cap, label smoothing and a z-loss."""
    if cap is not None:
        x = cap * torch.tanh(x / cap)
    kept = target != ignore
    base = F.cross_entropy(
        x, target, weight, ignore_index=ignore, label_smoothing=smooth, reduction=reduction
    )
    lse = torch.logsumexp(x, -1).square() * z * kept
    if reduction == "none":
        return base + lse
    return base + (lse.sum() / kept.sum() if reduction == "mean" else lse.sum())


@operation("cross_entropy")
def _() -> Iterator[Case]:
    settings = [
        ("plain", 7, 97, torch.float32, {}),
        ("ignored", 9, 513, torch.float32, {"ignore": -100}),
        ("sum", 5, 64, torch.float32, {"reduction": "sum"}),
        ("none", 5, 65, torch.float32, {"reduction": "none"}),
        ("smooth", 6, 130, torch.float32, {"smooth": 0.1, "ignore": 3}),
        ("z-loss", 6, 130, torch.float32, {"z": 1e-2}),
        ("soft cap", 6, 130, torch.float32, {"cap": 3.0}),
        ("all", 8, 4099, torch.float32, {"cap": 5.0, "z": 1e-3, "smooth": 0.2, "ignore": 1}),
        ("bf16", 8, 1000, BF16, {"ignore": -100}),
        ("big vocabulary", 3, 40_001, torch.float32, {}),
    ]
    names = {"ignore": "ignore_index", "smooth": "label_smoothing", "z": "lse_square_scale"}
    names |= {"cap": "softcap", "reduction": "reduction"}
    for name, rows, classes, dtype, options in settings:
        yield case(
            name,
            lambda x, t, o=options: liger_cross_entropy(
                x, t, **{names[k]: v for k, v in o.items()}
            ),
            lambda x, t, o=options: _cross_entropy(x, t, **o),
            leaf(rows, classes, dtype=dtype, scale=2.0),
            labels(rows, classes, options.get("ignore")),
        )
    yield case(
        "class weights",
        lambda x, t, w: liger_cross_entropy(x, t, w, ignore_index=2),
        lambda x, t, w: _cross_entropy(x, t, weight=w, ignore=2),
        leaf(9, 33),
        labels(9, 33, 2),
        torch.rand(33) + 0.5,
    )
    yield case(
        "accuracy and predictions",
        lambda x, t: _named_outputs(x, t),
        lambda x, t: (_cross_entropy(x, t), (x.argmax(-1) == t).float().mean(), x.argmax(-1)),
        leaf(9, 33),
        labels(9, 33),
    )


def _named_outputs(x: torch.Tensor, target: torch.Tensor):
    out = liger_cross_entropy(x, target, return_token_accuracy=True, return_predicted_tokens=True)
    return out.loss, out.token_accuracy, out.predicted_tokens


@operation("fused_linear_cross_entropy")
def _() -> Iterator[Case]:
    def ours(x, w, t, b, **options):
        return liger_fused_linear_cross_entropy(x, w, t, b, **options)

    def ref(x, w, t, b, **options):
        return _cross_entropy(F.linear(x, w, b), t, **options)

    yield case("no bias", ours, ref, leaf(9, 32), leaf(70, 32), labels(9, 70), None)
    yield case("bias", ours, ref, leaf(13, 20), leaf(33, 20), labels(13, 33), leaf(33))
    yield case(
        "cap and smoothing",
        lambda *a: ours(*a, softcap=3.0, label_smoothing=0.1, ignore_index=1),
        lambda *a: ref(*a, cap=3.0, smooth=0.1, ignore=1),
        leaf(13, 20),
        leaf(33, 20),
        labels(13, 33, 1),
        leaf(33),
    )
    yield case(
        "bf16, float32 sums",
        lambda *a: ours(*a, accum_dtype=torch.float32),
        ref,
        leaf(24, 64, dtype=BF16),
        leaf(100, 64, dtype=BF16, scale=0.2),
        labels(24, 100),
        None,
        ratio=3e-2,
    )


def _jsd(x, y, target, beta, ignore=-100):
    """Generalised Jensen-Shannon divergence of log-probabilities `x` (student) and `y`."""
    kept = torch.ones_like(x[:, 0], dtype=torch.bool) if target is None else target != ignore
    p, q = y.exp(), x.exp()
    if beta == 0.0:
        each = p * (y - x)
    elif beta == 1.0:
        each = q * (x - y)
    else:
        middle = (beta * p + (1 - beta) * q).log()
        each = beta * p * (y - middle) + (1 - beta) * q * (x - middle)
    return (each.sum(-1) * kept).sum() / kept.sum()


@operation("jsd")
def _() -> Iterator[Case]:
    for beta, with_labels, dtype in [
        (0.5, False, torch.float32),
        (0.0, False, torch.float32),
        (1.0, True, torch.float32),
        (0.1, True, torch.float32),
        (0.5, True, BF16),
    ]:
        yield case(
            f"beta {beta}, {'labels' if with_labels else 'no labels'}, {dtype}",
            lambda x, y, t, b=beta: ops.LigerJSDFunction.apply(
                x.log_softmax(-1), y.log_softmax(-1), t, b, -100, None, None
            ),
            lambda x, y, t, b=beta: _jsd(x.log_softmax(-1), y.log_softmax(-1), t, b),
            leaf(11, 131, dtype=dtype),
            const(11, 131, dtype=dtype),
            labels(11, 131, -100) if with_labels else None,
            ratio=None if dtype == torch.float32 else 4e-2,
        )


@operation("fused_linear_jsd")
def _() -> Iterator[Case]:
    def ref(x, w, y, v, t, beta, temperature):
        student = (x @ w.T / temperature).log_softmax(-1)
        return _jsd(student, (y @ v.T / temperature).log_softmax(-1), t, beta)

    for beta, temperature, with_labels in [(0.5, 1.0, False), (0.1, 2.0, True), (0.0, 1.0, True)]:
        yield case(
            f"beta {beta}, temperature {temperature}",
            lambda x, w, y, v, t, b=beta, k=temperature: ops.LigerFusedLinearJSDFunction.apply(
                x, w, y, v, t, b, -100, k, None, None, None
            ),
            lambda x, w, y, v, t, b=beta, k=temperature: ref(x, w, y, v, t, b, k),
            leaf(10, 24),
            leaf(65, 24),
            const(10, 40),
            const(65, 40, scale=0.3),
            labels(10, 65, -100) if with_labels else None,
            ratio=1e-4,
        )


@operation("kl_div")
def _() -> Iterator[Case]:
    for reduction in ("batchmean", "sum", "mean", "none"):
        for log_target in (False, True):
            yield case(
                f"{reduction}, {'log target' if log_target else 'target'}",
                lambda x, y, r=reduction, g=log_target: ops.LigerKLDivLossFunction.apply(
                    x, y, r, g, 1e-10
                ),
                lambda x, y, r=reduction, g=log_target: F.kl_div(x, y, reduction=r, log_target=g),
                leaf(7, 133),
                const(7, 133).log_softmax(-1) if log_target else const(7, 133).softmax(-1),
            )


@operation("fused_linear_kl_div")
def _() -> Iterator[Case]:
    def ref(x, w, q, t, reduction, temperature):
        kept = torch.ones_like(q[:, 0]) if t is None else (t != -100).float()
        y = (x @ w.T / temperature).log_softmax(-1)
        total = ((q * (q.clamp_min(1e-10).log() - y)).sum(-1) * kept).sum()
        count = {"sum": 1.0, "batchmean": kept.sum(), "mean": kept.sum() * q.shape[1]}
        return total / count[reduction]

    for reduction, temperature, with_labels in [
        ("batchmean", 1.0, False),
        ("mean", 2.0, True),
        ("sum", 0.7, True),
    ]:
        yield case(
            f"{reduction}, temperature {temperature}",
            lambda x, w, q, t, r=reduction, k=temperature: ops.LigerFusedLinearKLDivFunction.apply(
                x, w, q, t, r, -100, k, 1e-10, None
            ),
            lambda x, w, q, t, r=reduction, k=temperature: ref(x, w, q, t, r, k),
            leaf(10, 24),
            leaf(65, 24, scale=0.3),
            const(10, 65).softmax(-1),
            labels(10, 65, -100) if with_labels else None,
            ratio=1e-4,
        )


@operation("tvd")
def _() -> Iterator[Case]:
    def ref(p, q, t, reduction):
        kept = torch.ones_like(p[:, :1]) if t is None else (t != -100).float()[:, None]
        each = (p - q).abs() * 0.5 * kept
        if reduction == "none":
            return each
        count = {"sum": 1.0, "batchmean": kept.sum(), "mean": kept.sum() * p.shape[1]}
        return each.sum() / count[reduction]

    for reduction, with_labels in [("batchmean", False), ("sum", True), ("mean", True), ("none", True)]:  # fmt: skip  # noqa: E501
        yield case(
            f"{reduction}, {'labels' if with_labels else 'no labels'}",
            lambda x, y, t, r=reduction: ops.LigerTVDLossFunction.apply(
                x.softmax(-1), y.softmax(-1), t, r, -100
            ),
            lambda x, y, t, r=reduction: ref(x.softmax(-1), y.softmax(-1), t, r),
            leaf(9, 133),
            const(9, 133),
            labels(9, 133, -100) if with_labels else None,
            ratio=1e-4,
        )


@operation("fused_ce_tvd")
def _() -> Iterator[Case]:
    def ref(x, y, t):
        kept = (t != -100).float()
        ce = F.cross_entropy(x, t, ignore_index=-100, reduction="none")
        return ce, (x.softmax(-1) - y.softmax(-1)).abs().sum(-1) * 0.5 * kept

    for rows, classes, ignore in [(7, 97, None), (9, 1025, -100), (2, 20_000, None)]:
        yield case(
            f"{rows}x{classes}",
            lambda x, y, t: ops.LigerFusedCETVDFunction.apply(x, y, t, -100),
            ref,
            leaf(rows, classes),
            const(rows, classes),
            labels(rows, classes, ignore),
            ratio=1e-4,
        )


@operation("vocab_parallel_cross_entropy")
def _() -> Iterator[Case]:
    def ref(x, t, smooth):
        flat = F.cross_entropy(
            x.flatten(0, 1),
            t.flatten(),
            ignore_index=-100,
            reduction="none",
            label_smoothing=smooth,
        )
        return flat.view(x.shape[:2])

    for smooth in (0.0, 0.1):
        yield case(
            f"one rank, smoothing {smooth}",
            lambda x, t, s=smooth: ops.LigerVocabParallelCEFunction.apply(
                x, t, None, -100, s, "pytorch", "global"
            ),
            lambda x, t, s=smooth: ref(x, t, s),
            leaf(5, 3, 131),
            labels(15, 131, -100).view(5, 3),
        )


def _policy_loss(logits, old, reference, ids, advantage, mask, *, kind, beta, low=0.2, high=0.3):
    """GRPO and its relatives at temperature 0.9, reduced to a scalar."""
    logp = (logits[:, :-1].float() / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    ratio = (logp - (logp.detach() if old is None else old)).exp()
    gain = advantage[:, None]
    if kind == "cispo":
        loss = -ratio.clamp(max=high).detach() * gain * logp
    elif kind == "sapo":
        heat = torch.where(gain > 0, 1.0, 1.05)
        loss = -torch.sigmoid(heat * (ratio - 1)) * 4 / heat * gain
    else:
        loss = -torch.minimum(ratio * gain, ratio.clamp(1 - low, 1 + high) * gain)
    if beta:
        loss = loss + beta * ((reference - logp).exp() - (reference - logp) - 1)
    if kind in ("grpo", "sapo"):
        return ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    if kind == "dr_grpo":
        return (loss * mask).sum() / mask.numel()
    return (loss * mask).sum() / mask.sum().clamp(min=1)


@operation("grpo_loss")
def _() -> Iterator[Case]:
    rows, length, classes = 3, 5, 2051
    for kind, beta, with_old in [
        ("grpo", 0.0, False),
        ("grpo", 0.04, True),
        ("bnpo", 0.04, True),
        ("dr_grpo", 0.0, True),
        ("dapo", 0.04, True),
        ("cispo", 0.0, True),
        ("sapo", 0.04, True),
    ]:
        mask = torch.ones(rows, length)
        mask[0, 3:] = 0
        high = 0.3 if kind != "cispo" else 1.1
        yield case(
            f"{kind}, beta {beta}",
            lambda x, old, ref, ids, adv, m, k=kind, b=beta, h=high: ops.GrpoLossFunction.apply(
                x, old, ref, ids, adv, m, 0.9, b, 0.2, h, False, k
            )[0],
            lambda x, old, ref, ids, adv, m, k=kind, b=beta, h=high: _policy_loss(
                x, old, ref, ids, adv, m, kind=k, beta=b, high=h
            ),
            leaf(rows, length + 1, classes),
            const(rows, length, scale=0.3, shift=-8) if with_old else None,
            const(rows, length, scale=0.3, shift=-8) if beta else None,
            torch.randint(0, classes, (rows, length)),
            const(rows),
            mask,
            ratio=1e-4,
        )
