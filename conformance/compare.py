"""Compare a kernel's results and gradients with a reference written in plain torch.

Both sides get their own copies of the same inputs; the reference computes in float32 (or float64
where asked). Values agree when the root mean square of the difference, over that of the reference,
stays under a bound that depends on the dtype, and no single element is far off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

DEVICE = "cuda"

RATIO = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
"""Allowed relative root-mean-square difference by dtype of the result."""


class Different(Exception):
    """The kernel's values are not the reference's. The text says which output and by how much."""


@dataclass(frozen=True)
class Case:
    """One call of an operation, with its reference.

    `inputs`: tensors or plain values, given to both callables in order; floating tensors marked
    with `leaf` get gradients. `ratio`: bound for all results, None chooses by dtype.
    """

    op: str
    name: str
    ours: Callable[..., Any]
    reference: Callable[..., Any]
    inputs: tuple[Any, ...]
    ratio: float | None = None
    reference_dtype: torch.dtype = torch.float32
    backward: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


Maker = Callable[[], Iterator[Case]]
TABLE: dict[str, Maker] = {}
"""Operations by name; each maker yields cases (with `op` left empty)."""


def operation(name: str) -> Callable[[Maker], Maker]:
    """Register a maker of cases under the name of its operation."""

    def register(make: Maker) -> Maker:
        def named() -> Iterator[Case]:
            for case in make():
                yield replace(case, op=name)

        TABLE[name] = named
        return make

    return register


def case(name: str, ours: Callable, reference: Callable, *inputs: Any, **options: Any) -> Case:
    return Case("", name, ours, reference, inputs, **options)


@dataclass(frozen=True)
class Leaf:
    """A floating input that wants a gradient."""

    value: torch.Tensor


def leaf(*shape: int, dtype=torch.float32, scale: float = 1.0, shift: float = 0.0) -> Leaf:
    """A random input of that shape which gets a gradient."""
    return Leaf((torch.randn(shape) * scale + shift).to(dtype))


def const(*shape: int, dtype=torch.float32, scale: float = 1.0, shift: float = 0.0) -> torch.Tensor:
    """A random input of that shape which gets none."""
    return (torch.randn(shape) * scale + shift).to(dtype)


def labels(count: int, classes: int, ignore: int | None = None) -> torch.Tensor:
    """Random class numbers; every third one is `ignore` if given."""
    found = torch.randint(0, classes, (count,))
    if ignore is not None:
        found[::3] = ignore
    return found


def run(case: Case) -> str:
    """Run both sides, forward and backward. Returns the largest ratio seen, as text.

    Raises Different, and whatever the kernel's side raises.
    """
    ours_in = [_give(value, None) for value in case.inputs]
    ref_in = [_give(value, case.reference_dtype) for value in case.inputs]
    ours_out = _flatten(case.ours(*ours_in))
    ref_out = _flatten(case.reference(*ref_in))
    if len(ours_out) != len(ref_out):
        raise Different(f"{len(ours_out)} outputs, the reference has {len(ref_out)}")
    worst = 0.0
    for i, (got, want) in enumerate(zip(ours_out, ref_out, strict=True)):
        worst = max(worst, _agree(f"output {i}", got, want, case.ratio))
    if case.backward:
        worst = max(worst, _backward(case, ours_in, ours_out, ref_in, ref_out))
    return f"{worst:.1e}"


def exercise(case: Case) -> None:
    """Run the operation itself, forward and backward, and compare nothing."""
    outputs = _flatten(case.ours(*(_give(value, None) for value in case.inputs)))
    wanted = [o for o in outputs if case.backward and o.requires_grad and o.is_floating_point()]
    if wanted:
        torch.autograd.backward(wanted, [torch.randn_like(o) for o in wanted])


def _give(value: Any, dtype: torch.dtype | None) -> Any:
    tensor = value.value if isinstance(value, Leaf) else value
    if not isinstance(tensor, torch.Tensor):
        return tensor
    copy = tensor.detach().clone().to(DEVICE)
    if dtype is not None and copy.is_floating_point():
        copy = copy.to(dtype)
    return copy.requires_grad_() if isinstance(value, Leaf) else copy


def _flatten(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _flatten(part)]
    return []


def _backward(case: Case, ours_in: list, ours_out: list, ref_in: list, ref_out: list) -> float:
    """Send the same random cotangents through both sides and compare the leaves' gradients."""
    pairs = [
        (got, want, torch.randn(want.shape, device=want.device))
        for got, want in zip(ours_out, ref_out, strict=True)
        if want.requires_grad and want.is_floating_point()
    ]
    if not pairs:
        return 0.0
    without = [i for i, (got, _, _) in enumerate(pairs) if not got.requires_grad]
    if without:
        raise Different(f"outputs {without} have no gradient")
    torch.autograd.backward([w for _, w, _ in pairs], [g.to(w.dtype) for _, w, g in pairs])
    torch.autograd.backward([o for o, _, _ in pairs], [g.to(o.dtype) for o, _, g in pairs])
    worst = 0.0
    for i, (value, got, want) in enumerate(zip(case.inputs, ours_in, ref_in, strict=True)):
        if not isinstance(value, Leaf) or want.grad is None:
            continue
        if got.grad is None:
            raise Different(f"input {i} got no gradient")
        worst = max(worst, _agree(f"gradient of input {i}", got.grad, want.grad, case.ratio))
    return worst


def _agree(what: str, got: torch.Tensor, want: torch.Tensor, ratio: float | None) -> float:
    if got.shape != want.shape:
        raise Different(f"{what}: shape {tuple(got.shape)}, reference {tuple(want.shape)}")
    if not want.is_floating_point():
        wrong = int((got.to(want.dtype) != want).sum())
        if wrong:
            raise Different(f"{what}: {wrong} of {want.numel()} values differ")
        return 0.0
    bound = RATIO.get(got.dtype, 2e-2) if ratio is None else ratio
    a, b = got.detach().double(), want.detach().double()
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        bad = int((torch.isfinite(a) != torch.isfinite(b)).sum())
        raise Different(f"{what}: {bad} of {a.numel()} elements are not finite on one side only")
    finite = torch.isfinite(b)
    a, b = a[finite], b[finite]
    if not b.numel():
        return 0.0
    # A reference that is zero but for rounding is compared absolutely.
    size = max(float(b.square().mean().sqrt()), 1e-3)
    off = float((a - b).square().mean().sqrt()) / size
    peak = float((a - b).abs().max()) / max(float(b.abs().max()), size)
    if off > bound or peak > 30 * bound:
        at = int((a - b).abs().argmax())
        raise Different(
            f"{what}: relative rms difference {off:.2e}, largest {peak:.2e} (bound {bound:.0e}); "
            f"{float(a[at]):.6g} instead of {float(b[at]):.6g}"
        )
    return off
