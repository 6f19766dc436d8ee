"""One `Storage` per torch storage: what launches see of a tensor's memory, and what is known of it.

The record hangs on torch's own storage object (torch keeps that Python object for as long as the
memory lives), so views share it, shadows survive from launch to launch, and it costs two attribute
look-ups. Memory is never copied.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from xttir.diagnostics import InputError
from xttir.interp.launch import Storage

_ATTRIBUTE = "_xttir_storage"

CUDA, CPU, PINNED = "cuda", "cpu", "pinned"
"""Where a storage is meant to be. None means that nothing said so: it counts as `CUDA`."""


class TorchStorage(Storage):
    """A `Storage` over a `torch.UntypedStorage`.

    `device`: CUDA, CPU, PINNED or None. `version`: the tensor version for which `valid` holds.
    `unit`: bytes of one element of the poison, 0 when the memory was not poisoned.
    """

    device: str | None = None
    version: int = 0
    unit: int = 0
    counted: int = 0
    pending: bool = False
    """The memory is uninitialised as a whole and no shadow was made yet."""


class _Counter:
    """Bytes of device memory now and at most."""

    now = 0
    peak = 0


def allocated() -> int:
    """Bytes of live storages that were put on the device."""
    return _Counter.now


def peak() -> int:
    """The most bytes there were at once since `reset_peak`."""
    return _Counter.peak


def reset_peak() -> None:
    """Count the peak from now on."""
    _Counter.peak = _Counter.now


def _count(record: TorchStorage, nbytes: int) -> None:
    _Counter.now += nbytes - record.counted
    record.counted = nbytes
    _Counter.peak = max(_Counter.peak, _Counter.now)


_live: dict[int, weakref.ref[TorchStorage]] = {}
_keys = itertools.count()


def memory_view(address: int, nbytes: int) -> np.ndarray:
    """uint8[nbytes] over the memory at `address`; the caller sees to it that it stays alive."""
    if not nbytes or not address:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(address))


def _died(key: int, record_ref: weakref.ref[TorchStorage]) -> None:
    _live.pop(key, None)
    record = record_ref()
    if record is not None:
        record.live = False
        _count(record, 0)
        record.bytes = np.empty(0, np.uint8)


def _attach(storage: Any) -> TorchStorage:
    if storage.device.type != "cpu":
        raise InputError(
            f"a tensor is in memory of {storage.device}, made before the session was opened",
            hint="open the session before tensors are made",
        )
    address, nbytes = storage.data_ptr(), storage.nbytes()
    record = TorchStorage(memory_view(address, nbytes), address)
    setattr(storage, _ATTRIBUTE, record)
    key = next(_keys)
    _live[key] = weakref.ref(record)
    weakref.finalize(storage, _died, key, _live[key]).atexit = False
    return record


def peek(tensor: torch.Tensor) -> TorchStorage | None:
    """The record of a tensor's storage if it has one."""
    try:
        return getattr(tensor.untyped_storage(), _ATTRIBUTE, None)
    except (NotImplementedError, RuntimeError):
        return None  # sparse, fake, functorch-wrapped: no storage


def record_of(tensor: torch.Tensor) -> TorchStorage:
    """The record of a tensor's storage, made on first use and brought up to date."""
    storage = tensor.untyped_storage()
    record = getattr(storage, _ATTRIBUTE, None)
    if record is None:
        return _attach(storage)
    address = storage.data_ptr()
    if address != record.address or storage.nbytes() != len(record.bytes):
        # torch gave the storage other memory (resize_, set_): nothing known of the old one holds.
        nbytes = storage.nbytes()
        record.address, record.bytes = address, memory_view(address, nbytes)
        record.valid, record.pending, record.unit, record.poison = None, False, 0, None
    return record


def device_storages() -> Iterator[TorchStorage]:
    """Every live storage known here that kernels may reach: not empty, not in host memory."""
    for reference in list(_live.values()):
        record = reference()
        if record is not None and len(record.bytes) and record.device != CPU:
            yield record


def storage_at(address: int) -> TorchStorage | None:
    """The storage of device memory that holds `address`, or None."""
    for record in device_storages():
        if record.address <= address < record.address + len(record.bytes):
            return record
    return None


def set_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Say where the memory of `tensor` is meant to be. Tensors without storage are left alone."""
    try:
        record = record_of(tensor)
        record.device = device
        if device == CUDA:
            _count(record, len(record.bytes))
    except (NotImplementedError, RuntimeError):
        pass
    return tensor


def device_of(tensor: torch.Tensor) -> str | None:
    """CUDA, CPU, PINNED, or None when nothing is known."""
    record = peek(tensor)
    return None if record is None else record.device
