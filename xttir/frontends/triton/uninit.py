"""Memory that the user allocated and nobody wrote: `torch.empty` and its relatives.

The user's own calls are told from torch's internal ones because only the Python functions are
wrapped. Such memory is filled with a pattern (floats: a NaN with a payload of its own) and gets a
validity shadow when a launch first sees it. Host writes show in the tensor's version counter: then
elements that lost the pattern are valid, or, where a pattern proves nothing, all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from xttir.frontends.triton import storage
from xttir.frontends.triton.callsite import user_site
from xttir.frontends.triton.patches import Patches

_PATTERNS: dict[Any, bytes] = {
    torch.float64: b"\xda\xde\xad\xde\xad\xde\xfc\x7f",
    torch.float32: b"\xad\xde\xda\x7f",
    torch.float16: b"\xad\x7f",
    torch.bfloat16: b"\xda\x7f",
    torch.int64: b"\xad\xde\xad\xde\xda\xda\xda\x5a",
    torch.int32: b"\xad\xde\xda\x5a",
    torch.int16: b"\xad\x5a",
    torch.uint16: b"\xad\x5a",
    torch.uint32: b"\xad\xde\xda\x5a",
    torch.uint64: b"\xad\xde\xad\xde\xda\xda\xda\x5a",
    torch.float8_e5m2: b"\x7d",
    torch.float8_e4m3fn: b"\x7f",
    torch.float8_e5m2fnuz: b"\x80",
    torch.float8_e4m3fnuz: b"\x80",
    torch.int8: b"\x5a",
    torch.uint8: b"\x5a",
    torch.complex64: b"\xad\xde\xda\x7f" * 2,
    torch.complex128: b"\xda\xde\xad\xde\xad\xde\xfc\x7f" * 2,
}
"""Little-endian element patterns. Floats are quiet NaNs; torch.bool keeps what it has."""

FILL_LIMIT = 256 << 20
"""Bytes. Larger memory is not filled (its pages stay untouched), only shadowed."""

_TELLING = 4
"""Patterns of at least this many bytes, and NaN payloads, are not written by accident."""


def mark(tensor: torch.Tensor, depth: int = 2) -> torch.Tensor:
    """Poison fresh memory and remember where it was allocated."""
    record = storage.record_of(tensor)
    if not len(record.bytes):
        return tensor
    pattern = _PATTERNS.get(tensor.dtype)
    record.pending = True
    record.valid = None
    record.unit, record.poison = 0, None
    if pattern is not None and len(record.bytes) <= FILL_LIMIT:
        unit = len(pattern)
        poison = np.frombuffer(pattern, np.uint8)
        _elements(record.bytes, unit)[...] = _elements(poison, unit)[0]
        telling = unit >= _TELLING or tensor.dtype in (torch.float16, torch.bfloat16)
        record.unit, record.poison = (unit if telling else 0), poison
    record.version = _version(tensor)
    site = user_site(depth + 1)
    record.created = f"{site.file}:{site.line}" if site.file else ""
    return tensor


def _elements(data: np.ndarray, unit: int) -> np.ndarray:
    """`data` (uint8) as whole elements of `unit` bytes."""
    kind = f"u{unit}" if unit <= 8 else f"V{unit}"
    return data[: len(data) // unit * unit].view(kind)


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:
        return -1  # inference tensors count nothing: every launch looks again


def refresh(record: storage.TorchStorage, tensor: torch.Tensor) -> None:
    """Bring the shadow up to date with what the host wrote since. Called at every launch."""
    version = _version(tensor)
    if version == record.version != -1:
        if record.pending:
            record.pending = False
            record.valid = np.zeros(len(record.bytes), bool)
        elif record.valid is not None and record.valid.all():
            record.valid = None
        return
    record.version = version
    if not record.unit or record.poison is None:
        record.pending, record.valid = False, None
        return
    elements = _elements(record.bytes, record.unit)
    written = elements != _elements(record.poison, record.unit)[0]
    if record.pending:
        record.valid = np.zeros(len(record.bytes), bool)
        record.pending = False
    if record.valid is None:
        return
    if written.all():
        record.valid = None
    else:
        head = record.valid[: len(elements) * record.unit].reshape(-1, record.unit)
        head |= written[:, None]


def reachable() -> Iterator[storage.TorchStorage]:
    """`Launch.memory`: every storage that a pointer from memory may lead to.

    There is no tensor here to ask for a version, so only patterns that tell are relied on.
    """
    for record in storage.device_storages():
        if record.pending and record.unit:
            record.pending = False
            record.valid = np.zeros(len(record.bytes), bool)
        yield record


def _wrap(original: Callable[..., Any], is_fresh: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(original)
    def allocate(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if is_fresh(result, kwargs):
            mark(result)
        return result

    return allocate


def _fresh(result: Any, kwargs: dict[str, Any]) -> bool:
    if torch.compiler.is_compiling() or not isinstance(result, torch.Tensor):
        return False
    record = storage.peek(result)
    return record is not None and record.device == storage.CUDA and "out" not in kwargs


FUNCTIONS = ("empty", "empty_like", "empty_strided", "empty_permuted")
METHODS = ("new_empty", "new_empty_strided")


def install(patches: Patches) -> None:
    """Wrap the allocation functions. Comes after `torch_cuda`, whose device tags it reads."""
    for owner, names in ((torch, FUNCTIONS), (torch.Tensor, METHODS)):
        for name in names:
            patches.set(owner, name, _wrap(getattr(owner, name), _fresh))
