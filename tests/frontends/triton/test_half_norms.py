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


def test_products_may_have_a_wider_result() -> None:
    import xttir

    torch.manual_seed(0)
    with xttir.sanitize():
        a, b = torch.randn(4, 8).cuda().bfloat16(), torch.randn(8, 3).cuda().bfloat16()
        c = torch.randn(4, 3).cuda()
        product = torch.mm(a, b, out_dtype=torch.float32)
        assert product.dtype == torch.float32
        assert torch.equal(product, a.float() @ b.float())
        assert torch.allclose(torch.addmm(c, a, b, out_dtype=torch.float32), product + c)
        assert torch.mm(a, b).dtype == torch.bfloat16


def test_running_statistics_are_updated() -> None:
    import xttir

    with xttir.sanitize():
        norm = torch.nn.BatchNorm1d(4).half().cuda()
        norm(torch.full((8, 4), 3.0).half().cuda())
        assert torch.allclose(norm.running_mean.float(), torch.tensor(0.3).cuda(), atol=1e-3)
