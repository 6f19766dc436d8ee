"""Memory that nobody wrote: pattern, shadow, and how writes of the host are noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.frontends.triton import kernels
from tests.frontends.triton.conftest import Recorder
from xttir.frontends.triton import storage, uninit
from xttir.interp.launch import TensorArg

pytestmark = pytest.mark.usefixtures("gpu")


def shadow(gpu: Recorder, tensor: torch.Tensor) -> np.ndarray | None:
    """The validity that a launch which gets `tensor` sees, per element of 4 bytes."""
    kernels.add[(1,)](tensor, tensor, 0, B=16)
    argument = gpu.launches[-1].arguments[0]
    assert isinstance(argument, TensorArg)
    valid = argument.storage.valid
    return None if valid is None else valid[::4].copy()


UNINITIALISED: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(8, device="cuda"),
    "empty_like": lambda: torch.empty_like(torch.ones(8, device="cuda")),
    "empty_strided": lambda: torch.empty_strided((8,), (1,), device="cuda"),
    "empty_permuted": lambda: torch.empty_permuted((2, 4), (1, 0), device="cuda"),
    "new_empty": lambda: torch.ones(3, device="cuda").new_empty(8),
    "new_empty_strided": lambda: torch.ones(3, device="cuda").new_empty_strided((8,), (1,)),
    "like a CPU tensor": lambda: torch.empty_like(torch.ones(8), device="cuda"),
    "empty int": lambda: torch.empty(8, device="cuda", dtype=torch.int32),
    "view": lambda: torch.empty(8, device="cuda").view(2, 4),
}

WRITTEN: dict[str, Callable[[], torch.Tensor]] = {
    "zeros": lambda: torch.zeros(8, device="cuda"),
    "ones_like": lambda: torch.ones_like(torch.empty(8, device="cuda")),
    "rand": lambda: torch.rand(8, device="cuda"),
    "randn_like": lambda: torch.randn_like(torch.empty(8, device="cuda")),
    "full": lambda: torch.full((8,), 2.0, device="cuda"),
    "arange": lambda: torch.arange(8, device="cuda"),
    "tensor": lambda: torch.tensor([1.0] * 8, device="cuda"),
    "moved": lambda: torch.ones(8).cuda(),
    "result": lambda: torch.ones(8, device="cuda") + 1,
    "filled": lambda: torch.empty(8, device="cuda").fill_(3),
    "normal": lambda: torch.empty(8, device="cuda").normal_(),
    "copied into": lambda: torch.empty(8, device="cuda").copy_(torch.ones(8)),
    "out=": lambda: torch.add(torch.ones(8), 1, out=torch.empty(8, device="cuda")),
    "initialised": lambda: torch.nn.init.normal_(torch.empty(8, device="cuda")),
    "parameter": lambda: torch.nn.Linear(8, 8, device="cuda").weight.detach(),
}


@pytest.mark.parametrize("name", UNINITIALISED)
def test_uninitialised(gpu: Recorder, name: str) -> None:
    tensor = UNINITIALISED[name]()
    valid = shadow(gpu, tensor)
    assert valid is not None
    assert not valid.any()
    record = storage.record_of(tensor)
    file, _, line = record.created.rpartition(":")
    assert file == __file__
    assert "torch." in Path(__file__).read_text().splitlines()[int(line) - 1]


@pytest.mark.parametrize("name", WRITTEN)
def test_written(gpu: Recorder, name: str) -> None:
    assert shadow(gpu, WRITTEN[name]()) is None


def test_floats_are_nan() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.empty(4, device="cuda", dtype=dtype).isnan().all()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        assert torch.empty(4, device="cuda", dtype=dtype).float().isnan().all()
    assert torch.empty(2, device="cuda", dtype=torch.int32).tolist() == [0x5ADADEAD] * 2


def test_partial_writes_are_kept_apart(gpu: Recorder) -> None:
    x = torch.empty(8, device="cuda")
    x[:3] = 1
    valid = shadow(gpu, x)
    assert valid is not None
    assert valid.tolist() == [True] * 3 + [False] * 5
    x[3:] = 0
    assert shadow(gpu, x) is None


def test_what_kernels_write_stays_written(gpu: Recorder) -> None:
    x = torch.empty(8, device="cuda")
    assert shadow(gpu, x) is not None
    record = storage.record_of(x)
    assert record.valid is not None
    record.valid[:16] = True  # as the executor does
    valid = shadow(gpu, x)
    assert valid is not None
    assert valid.tolist() == [True] * 4 + [False] * 4
    x[7] = 1
    valid = shadow(gpu, x)
    assert valid is not None
    assert valid.tolist() == [True] * 4 + [False] * 3 + [True]


def test_small_elements_are_taken_as_written_at_once(gpu: Recorder) -> None:
    x = torch.empty(16, device="cuda", dtype=torch.int8)
    assert shadow(gpu, x) is not None
    x[0] = 1  # a pattern of one byte proves nothing for the rest
    assert shadow(gpu, x) is None


def test_writes_that_no_version_counts(gpu: Recorder) -> None:
    x = torch.empty(8, device="cuda")
    x.data.fill_(2)
    kernels.add[(1,)](x, x, 0, B=16)
    record = storage.record_of(x)
    assert record.poison is not None
    held = record.bytes.view(np.uint32) == record.poison.view(np.uint32)[0]
    assert not held.any(), "the executor can tell that the pattern is gone"


def test_inference_tensors(gpu: Recorder) -> None:
    with torch.inference_mode():
        x = torch.empty(8, device="cuda")
        assert shadow(gpu, x) is not None
        x.fill_(1)
        assert shadow(gpu, x) is None


def test_large_memory_is_shadowed_without_being_touched(
    gpu: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uninit, "FILL_LIMIT", 1024)
    x = torch.empty(1024, device="cuda")
    assert storage.record_of(x).poison is None
    assert shadow(gpu, x) is not None
    x[0] = 1
    assert shadow(gpu, x) is None


def test_cpu_memory_is_left_alone() -> None:
    assert storage.device_of(torch.empty(8)) == storage.CPU
    assert not storage.record_of(torch.empty(8)).pending
