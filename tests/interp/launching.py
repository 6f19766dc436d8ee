"""Launches on numpy arrays: run TTIR text with no Triton and no torch."""

from __future__ import annotations

import numpy as np

from xttir.dialects import tt
from xttir.frontends.mlir import parse_module
from xttir.interp.executor import run_launch
from xttir.interp.launch import Launch, LaunchResult, ScalarArg, Storage, TensorArg
from xttir.policy import RunPolicy


def tensor(array: np.ndarray, name: str, valid: np.ndarray | None = None) -> TensorArg:
    """A tensor argument on `array` (contiguous or a view: the storage is its base's memory)."""
    base = array
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    storage = _STORAGES.get(id(base))
    if storage is None:
        flat = base.reshape(-1).view(np.uint8)
        storage = Storage(flat, flat.ctypes.data, valid)
        _STORAGES[id(base)] = storage
        _KEEP.append(base)
    offset = array.ctypes.data - storage.address
    strides = tuple(s // array.itemsize for s in array.strides)
    return TensorArg(name, storage, offset, array.shape, strides, array.dtype)


_STORAGES: dict[int, Storage] = {}
_KEEP: list[np.ndarray] = []


def launch(
    text: str, grid: tuple[int, ...], arguments: dict[str, object], kernel: str = ""
) -> Launch:
    """A launch of `kernel` (the first public function) of the module `text`. Arrays become tensors,
    numbers scalars; `TensorArg` and the like stay as they are."""
    found = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            found.append(tensor(value, name))
        elif isinstance(value, int | float):
            found.append(ScalarArg(name, value))
        else:
            found.append(value)
    full = (*grid, 1, 1, 1)[:3]
    module = parse_module(text)
    functions = [op for op in module.body.block.ops if isinstance(op, tt.FuncOp)]
    public = [f.sym_name.data for f in functions if str(f.sym_visibility) != '"private"']
    return Launch(module, kernel or public[0], full, tuple(found))


def run(
    text: str,
    grid: tuple[int, ...],
    arguments: dict[str, object],
    checks: str = "all",
    **policy: object,
) -> LaunchResult:
    """Run a launch. `policy`: fields of `RunPolicy`."""
    chosen = RunPolicy(**policy).with_checks(checks)  # type: ignore[arg-type]
    return run_launch(launch(text, grid, arguments), chosen)


def kinds(result: LaunchResult) -> list[str]:
    """The kinds of a result's faults, sorted."""
    return sorted(f.kind.value for f in result.faults)
