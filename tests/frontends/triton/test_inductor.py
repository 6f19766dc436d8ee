"""`torch.compile` on the fake GPU: Inductor's kernels run as launches, the rest eagerly."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from tests.frontends.triton import kernels
from tests.frontends.triton.conftest import Recorder
from xttir.frontends.triton.inductor import EAGER


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path_factory.getbasetemp() / "inductor-cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(path))


def test_pointwise_runs_as_triton(running: Recorder) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y) * 2

    x, y = (torch.randn(1000, device="cuda") for _ in range(2))
    result = torch.compile(f, fullgraph=True)(x, y)
    assert result.device == torch.device("cuda", 0)
    torch.testing.assert_close(result, f(x, y))
    assert len(running.launches) >= 1
    assert running.unchecked == []
    assert running.launches[-1].site is not None
    assert running.launches[-1].site.file == __file__


def test_a_users_kernel_inside(running: Recorder) -> None:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(4,)](x * 2, out, 1000, B=256)
        return out * 3

    x = torch.randn(1000, device="cuda")
    counters.clear()
    torch.testing.assert_close(f(x), (x * 2 + 1) * 3)
    assert any("add" in launch.kernel for launch in running.launches)
    assert not counters["graph_break"]


def test_graphs_with_gradients_run_eagerly_and_are_counted(running: Recorder) -> None:
    net = torch.nn.Linear(8, 4).cuda()
    compiled = torch.compile(net)
    x = torch.randn(3, 8, device="cuda")
    out = compiled(x)
    out.sum().backward()
    assert net.weight.grad is not None
    assert running.unchecked == [EAGER]
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x))
    assert running.unchecked == [EAGER]


def test_what_cannot_be_compiled_runs_eagerly(
    running: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor import compile_fx

    def fail(*args: object, **kwargs: object) -> None:
        raise NotImplementedError("no")

    monkeypatch.setattr(compile_fx, "compile_fx", fail)
    x = torch.randn(16, device="cuda")
    assert torch.equal(torch.compile(lambda x: x * 3)(x), x * 3)
    assert running.unchecked == [EAGER]
    assert running.launches == []
