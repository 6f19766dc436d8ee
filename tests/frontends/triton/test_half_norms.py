"""torch's half-precision norms are as accurate on "cuda" tensors as a GPU's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def test_layer_norm_gradients_are_added_in_f32() -> None:
    import xttir

    torch.manual_seed(0)
    rows, columns = 1200, 64
    with xttir.sanitize():
        x = torch.randn(rows, columns).half().cuda().requires_grad_()
        weight = torch.rand(columns).half().cuda().requires_grad_()
        bias = torch.rand(columns).half().cuda().requires_grad_()
        dy = torch.randn(rows, columns).half().cuda()
        y = torch.nn.LayerNorm(columns).half().cuda()(x)
        assert y.dtype == torch.float16
        z = torch.nn.functional.layer_norm(x, (columns,), weight, bias)
        z.backward(dy)
        assert weight.grad.dtype == torch.float16
        exact = dy.double().sum(0)
        error = (bias.grad.double() - exact).abs().max()
    # One rounding of a number below 128 to 11 bits.
    assert float(error) <= 0.0625 / 2
