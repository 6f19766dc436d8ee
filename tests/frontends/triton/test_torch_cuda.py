"""`device="cuda"` on the CPU: where tensors say they are, and that the usual calls work."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("gpu")

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")

FACTORIES: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(3, device="cuda"),
    "zeros": lambda: torch.zeros(3, device="cuda:0"),
    "ones": lambda: torch.ones(3, device=CUDA),
    "full": lambda: torch.full((3,), 2.0, device="cuda"),
    "rand": lambda: torch.rand(3, device="cuda"),
    "randn": lambda: torch.randn(3, device="cuda"),
    "randint": lambda: torch.randint(0, 5, (3,), device="cuda"),
    "randperm": lambda: torch.randperm(3, device="cuda"),
    "arange": lambda: torch.arange(3, device="cuda"),
    "linspace": lambda: torch.linspace(0, 1, 3, device="cuda"),
    "logspace": lambda: torch.logspace(0, 1, 3, device="cuda"),
    "eye": lambda: torch.eye(3, device="cuda"),
    "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda"),
    "as_tensor": lambda: torch.as_tensor([1.0, 2.0], device="cuda"),
    "asarray": lambda: torch.asarray([1.0, 2.0], device="cuda"),
    "tril_indices": lambda: torch.tril_indices(3, 3, device="cuda"),
    "triu_indices": lambda: torch.triu_indices(3, 3, device="cuda"),
    "empty_strided": lambda: torch.empty_strided((3,), (1,), device="cuda"),
    "empty_permuted": lambda: torch.empty_permuted((3,), (0,), device="cuda"),
    "scalar_tensor": lambda: torch.scalar_tensor(3.0, device="cuda"),
    "normal": lambda: torch.normal(0.0, 1.0, (3,), device="cuda"),
    "hann_window": lambda: torch.hann_window(3, device="cuda"),
    "like with device": lambda: torch.zeros_like(torch.ones(3), device="cuda"),
    "randint_like": lambda: torch.randint_like(torch.ones(3), 3, device="cuda"),
    "new_zeros": lambda: torch.ones(3).new_zeros(3, device="cuda"),
    "new_tensor": lambda: torch.ones(3).new_tensor([1.0], device="cuda"),
    "to": lambda: torch.ones(3).to("cuda"),
    "to keyword": lambda: torch.ones(3).to(device="cuda", dtype=torch.float16),
    "to dtype": lambda: torch.ones(3).to("cuda", torch.float16, non_blocking=True),
    "to index": lambda: torch.ones(3).to(0),
    "to other": lambda: torch.ones(3).to(torch.ones(1, device="cuda")),
    "cuda": lambda: torch.ones(3).cuda(),
    "cuda index": lambda: torch.ones(3).cuda(0, non_blocking=True),
    "legacy type": lambda: torch.cuda.FloatTensor([1.0, 2.0]),
    "type": lambda: torch.ones(3).type(torch.cuda.HalfTensor),
    "like": lambda: torch.empty_like(torch.ones(3, device="cuda")),
    "operation": lambda: torch.ones(3, device="cuda") + 1,
    "view": lambda: torch.ones(4, device="cuda").view(2, 2).t(),
    "fp8": lambda: torch.ones(4, device="cuda").to(torch.float8_e4m3fn),
    "generator": lambda: torch.randn(3, device="cuda", generator=torch.Generator("cuda")),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_made_on_cuda(name: str) -> None:
    tensor = FACTORIES[name]()
    assert tensor.device == CUDA
    assert tensor.is_cuda
    assert not tensor.is_cpu
    assert tensor.get_device() == 0


MADE_ON_CPU: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(3),
    "randn": lambda: torch.randn(3),
    "tensor": lambda: torch.tensor([1.0]),
    "arange": lambda: torch.arange(3),
    "from_numpy": lambda: torch.from_numpy(torch.ones(3).numpy()),
    "explicit": lambda: torch.zeros(3, device="cpu"),
    "like": lambda: torch.zeros_like(torch.ones(3)),
    "new": lambda: torch.ones(3).new_empty(3),
    "arithmetic": lambda: torch.ones(3) * 2 - 1,
    "reversed": lambda: 1 - torch.ones(3),
    "dtype": lambda: torch.ones(3).half(),
    "to dtype": lambda: torch.ones(3).to(torch.int32),
    "function": lambda: torch.cat([torch.ones(3), torch.ones(3)]),
    "cpu()": lambda: torch.ones(3, device="cuda").cpu(),
    "to cpu": lambda: torch.ones(3, device="cuda").to("cpu"),
    "pinned": lambda: torch.ones(3).pin_memory(),
    "like to cpu": lambda: torch.zeros_like(torch.ones(3, device="cuda"), device="cpu"),
}


@pytest.mark.parametrize("name", MADE_ON_CPU)
def test_made_on_cpu(name: str) -> None:
    tensor = MADE_ON_CPU[name]()
    assert tensor.device == CPU
    assert not tensor.is_cuda
    assert tensor.get_device() == -1


def test_moving_copies_and_staying_does_not() -> None:
    host = torch.zeros(3)
    device = host.cuda()
    device.add_(1)
    assert host.tolist() == [0, 0, 0]
    assert device.cuda() is device
    assert device.to("cuda") is device
    back = device.cpu()
    back.add_(1)
    assert device.tolist() == [1, 1, 1]
    assert host.to("cpu") is host
    assert device.to("cuda", copy=True).data_ptr() != device.data_ptr()


def test_device_given_by_its_index() -> None:
    model = torch.zeros(3)
    for made in (
        torch.randn(3, device=0),
        torch.empty(3, device=0),
        torch.ones_like(model, device=0),
    ):
        assert made.device == torch.device("cuda", 0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(3, device=1)


def test_ordinal_beyond_the_one_gpu() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(3, device="cuda:1")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(3).to("cuda:1")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(1)


def test_default_device() -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.randn(3).device == CUDA
        assert torch.tensor([1.0]).device == CUDA
        assert torch.nn.Linear(2, 2).weight.device == CUDA
        assert torch.zeros(3, device="cpu").device == CPU
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.tensor([1.0]).device == CUDA
    assert torch.tensor([1.0]).device == CPU


def test_modules() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    assert net[0].weight.device == CPU
    for moved in (net.cuda(), torch.nn.Linear(4, 4).to("cuda"), torch.nn.Linear(4, 4, device=CUDA)):
        assert all(p.device == CUDA for p in moved.parameters())
        assert all(b.device == CUDA for b in moved.buffers())
    assert all(p.device == CPU for p in net.cpu().parameters())


def test_autograd_and_optimiser() -> None:
    net = torch.nn.Linear(4, 1).cuda()
    optimiser = torch.optim.AdamW(net.parameters())
    before = net.weight.detach().clone()
    devices = []

    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            devices.append(g.device)
            return torch.empty_like(g).copy_(g)

    Probe.apply(net(torch.randn(8, 4, device="cuda"))).sum().backward()
    optimiser.step()
    assert devices == [CUDA]
    assert net.weight.grad is not None
    assert net.weight.grad.device == CUDA
    assert not torch.equal(before, net.weight)


def test_other_threads() -> None:
    found = []

    def work() -> None:
        x = torch.randn(3, device="cuda", requires_grad=True)
        (x * x).sum().backward()
        found.append((x.device, x.grad.device, torch.cuda.current_stream().cuda_stream))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(CUDA, CUDA, 0)]


def test_autocast() -> None:
    net = torch.nn.Linear(4, 4).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        assert torch.is_autocast_enabled("cuda")
        assert net(torch.randn(3, 4, device="cuda")).dtype == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert net(torch.randn(3, 4, device="cuda")).dtype == torch.float32
    assert net(torch.randn(3, 4, device="cuda")).dtype == torch.float32
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        assert net(torch.randn(3, 4, device="cuda")).dtype == torch.bfloat16
    scaler = torch.amp.GradScaler("cuda")
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler.scale(net(torch.randn(3, 4, device="cuda")).sum()).backward()
    scaler.step(optimiser)
    scaler.update()


def test_seeds_and_generators() -> None:
    def draw(seed: Callable[[int], object]) -> torch.Tensor:
        seed(7)
        return torch.randn(5, device="cuda")

    assert torch.equal(draw(torch.cuda.manual_seed), draw(torch.cuda.manual_seed))
    assert torch.equal(draw(torch.manual_seed), draw(torch.manual_seed))
    one, two = (torch.Generator(device="cuda").manual_seed(3) for _ in range(2))
    assert one.device == CUDA
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device == CPU
    first = torch.rand(4, device="cuda", generator=one)
    assert torch.equal(first, torch.rand(4, device="cuda", generator=two))
    state = torch.cuda.get_rng_state()
    a = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(a, torch.rand(3, device="cuda"))


def test_streams_and_events() -> None:
    side = torch.cuda.Stream()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        x = torch.ones(3, device="cuda")
        x.record_stream(side)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    torch.cuda.synchronize()
    assert start.query()
    assert start.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_graph_replays_what_it_captured() -> None:
    static = torch.zeros(4, device="cuda")
    counter = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        out = static * 2 + 1
        counter.add_(1)
    assert counter.item() == 0, "capturing executes nothing"
    static.fill_(5)
    graph.replay()
    assert out.tolist() == [11] * 4
    static.fill_(1)
    graph.replay()
    assert out.tolist() == [3] * 4
    assert counter.item() == 2


def test_queries() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    assert torch.cuda.get_device_capability() == (9, 0)
    assert "H100" in torch.cuda.get_device_name(0)
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.multi_processor_count == 132
    assert properties.shared_memory_per_block_optin == 232448
    assert properties.major == 9
    assert torch.cuda.is_bf16_supported()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    with torch.cuda.device(0):
        pass
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    torch.cuda.nvtx.range_push("x")
    torch.cuda.nvtx.range_pop()


@pytest.mark.parametrize(("gpu", "name"), [(80, "A100"), (100, "B200")], indirect=["gpu"])
def test_other_devices(gpu: object, name: str) -> None:
    assert name in torch.cuda.get_device_name()


def test_memory_statistics() -> None:
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before == 1 << 20
    torch.cuda.empty_cache()


def test_save_and_load() -> None:
    file = io.BytesIO()
    torch.save({"d": torch.ones(3, device="cuda"), "h": torch.ones(3)}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["d"].device == CUDA
    file.seek(0)
    assert torch.load(file, map_location="cpu")["d"].device == CPU
    file.seek(0)
    assert torch.load(file, map_location="cuda")["h"].device == CUDA


def test_text_of_a_tensor() -> None:
    assert "device='cuda:0'" in repr(torch.ones(2, device="cuda"))
    assert "device" not in repr(torch.ones(2))


def test_pinned_memory() -> None:
    assert torch.zeros(3, pin_memory=True).is_pinned()
    assert torch.zeros(3).pin_memory().is_pinned()
    assert not torch.zeros(3).is_pinned()


def test_deepcopy_and_pickle_keep_the_device() -> None:
    import copy

    assert copy.deepcopy(torch.ones(3, device="cuda")).device == CUDA
    assert copy.deepcopy(torch.nn.Linear(2, 2).cuda()).weight.device == CUDA
    assert copy.deepcopy(torch.ones(3)).device == CPU


def test_data_loaders() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for options in ({}, {"num_workers": 1}, {"pin_memory": True}):
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, **options):
            assert batch.device == CPU
            assert batch.to("cuda", non_blocking=True).device == CUDA


def test_default_tensor_type() -> None:
    torch.set_default_tensor_type("torch.cuda.HalfTensor")
    try:
        made = torch.ones(2)
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
        torch.set_default_device(None)
    assert (made.device, made.dtype) == (CUDA, torch.float16)


def test_scripting_and_tracing() -> None:
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.relu(x), torch.zeros([2], device=x.device), torch.empty_like(x)])

    x = torch.ones(3, device="cuda")
    assert scripted(x)[:5].tolist() == [1, 1, 1, 0, 0]

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.relu(x), x + 1]).reshape(-1)

    for traced in (torch.fx.symbolic_trace(Net()), torch.export.export(Net(), (x,)).module()):
        assert traced(x).tolist() == [1, 1, 1, 2, 2, 2]
    assert torch.vmap(lambda a: a * 2)(x).device == CUDA
    assert torch.func.grad(lambda a: (a**2).sum())(x).tolist() == [2, 2, 2]
