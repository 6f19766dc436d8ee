"""Tensor data for a launch, and what the kernel should make of it.

Random data is drawn per tensor from the seed and the tensor's name, so that a description edited
in one place keeps its other inputs. The reference is a torch expression; torch is imported only
when there is one to evaluate.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.diagnostics import InputError, Location
from xttir.frontends.launch_description.dtypes import DTYPES
from xttir.frontends.launch_description.spec import LaunchDescription, TensorSpec

_TORCH_BITS = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}

_ITERATES = (all, any, dict, enumerate, len, list, range, reversed, set, slice, sorted, tuple, zip)
_COMPUTES = (abs, bool, divmod, float, int, max, min, pow, round, sum)
BUILTINS = {f.__name__: f for f in (*_ITERATES, *_COMPUTES)}
"""What a reference may call besides torch and math: it computes, and does nothing else."""


def materialise(
    description: LaunchDescription, seed: int = 0, only: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """The allocation of every tensor (or of those in `only`) before the launch.

    Each is 1-d with `spec.storage` elements of `spec.dtype.numpy`; `spec.view` gives the tensor in
    it. Outputs and scratch without `init` are random too: whoever reads them reads garbage.
    """
    wanted = set(description.tensors if only is None else only)
    out: dict[str, np.ndarray] = {}

    def make(name: str) -> np.ndarray:
        if name not in out:
            spec = description.tensors[name]
            out[name] = _filled(spec, seed)
            if spec.copy_of is not None:
                spec.view(out[name])[...] = description.tensors[spec.copy_of].view(
                    make(spec.copy_of)
                )
        return out[name]

    for name in description.tensors:
        if name in wanted:
            make(name)
    return {name: data for name, data in out.items() if name in wanted}


def _filled(spec: TensorSpec, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    if isinstance(spec.init, int | float):
        return np.full(spec.storage, spec.init).astype(spec.dtype.numpy)
    flat = _random(spec, random)
    if spec.init is not None:
        spec.view(flat)[...] = np.asarray(spec.init).astype(spec.dtype.numpy).reshape(spec.shape)
    return flat


def _random(spec: TensorSpec, random: np.random.Generator) -> np.ndarray:
    n, held = spec.storage, spec.dtype.numpy
    if spec.dtype.is_float:
        if spec.dtype.name == "f8e8m0":
            return random.integers(125, 130, n, dtype=np.uint8).view(held)
        # Quarters within [-2, 2]: sums and products are exact for long enough to be compared.
        if spec.range is not None:
            return random.uniform(*spec.range, n).astype(held)
        return (random.integers(-8, 9, n) * np.float32(0.25)).astype(held)
    if spec.dtype.kind == "bool":
        return random.integers(0, 2, n).astype(held)
    low, high = spec.range if spec.range is not None else _integers(spec)
    return random.integers(low, high, n, dtype=np.int64, endpoint=True).astype(held)


def _integers(spec: TensorSpec) -> tuple[int, int]:
    return (-8, 8) if spec.dtype.kind == "i" else (0, 8)


# The reference ------------------------------------------------------------------------------------


def reference(
    description: LaunchDescription, before: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Expected values (of the tensor's shape and dtype) of every tensor named in `ref`.

    `before` are allocations as `materialise` gives them. Raises `InputError` naming the entry when
    an expression cannot be evaluated or has the wrong shape.
    """
    if not description.ref:
        return {}
    torch = _torch(description)
    names: dict[str, Any] = {"torch": torch, "math": math, "__builtins__": BUILTINS}
    names |= {
        name: to_torch(description.tensors[name].view(data), torch) for name, data in before.items()
    }
    out = {}
    for name, expression in description.ref.items():
        spec, at = description.tensors[name], f"ref.{name}"
        try:
            if "__" in expression:
                raise NameError("names with `__` are not for references")
            value = eval(expression, dict(names))
        except Exception as error:
            what = f"{at}: cannot be evaluated: {type(error).__name__}: {_line(error)}"
            raise InputError(what, _file(description), f"the expression is {expression}") from error
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"{at}: expected a torch tensor, found {type(value).__name__}", _file(description)
            )
        if tuple(value.shape) != spec.shape:
            what = f"{at}: has shape {list(value.shape)}, but '{name}' has {list(spec.shape)}"
            raise InputError(what, _file(description))
        out[name] = from_torch(value.detach().to(torch_dtype(spec.dtype.name, torch)), spec)
    return out


def _torch(description: LaunchDescription) -> Any:
    try:
        import torch
    except ImportError as error:
        hint = "pip install torch, or leave 'ref' out"
        raise InputError("torch is needed to evaluate 'ref'", _file(description), hint) from error
    return torch


_TORCH_NAMES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
    "bool": "bool",
}


def torch_dtype(name: str, torch: Any) -> Any:
    """The torch dtype of a short name; raw bits are unsigned integers."""
    long = _TORCH_NAMES.get(name)
    if long is None:
        long = ("int" if name[0] == "i" else "uint") + name[1:]
    return getattr(torch, long)


def to_torch(array: np.ndarray, torch: Any) -> Any:
    """A torch tensor with a copy of `array` (also of types that numpy has from `ml_dtypes`)."""
    array = np.ascontiguousarray(array).reshape(array.shape).copy()
    name = next(d.name for d in DTYPES.values() if d.numpy == array.dtype)
    bits = torch.from_numpy(array.view(_TORCH_BITS[array.itemsize]).reshape(array.shape))
    return bits.view(torch_dtype(name, torch))


def from_torch(tensor: Any, spec: TensorSpec) -> np.ndarray:
    """`tensor` as numpy, in the dtype of `spec`."""
    import torch

    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[spec.dtype.size]
    array = tensor.contiguous().cpu().view(bits).numpy()
    return array.view(spec.dtype.numpy).reshape(spec.shape)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _file(description: LaunchDescription) -> Location | None:
    return Location(description.file) if description.file else None


# Comparison ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How a tensor compares with its reference. `index` is the worst element; `wrong` counts."""

    name: str
    wrong: int
    size: int
    index: tuple[int, ...]
    value: float
    expected: float
    max_error: float
    max_relative: float

    @property
    def ok(self) -> bool:
        return self.wrong == 0


def compare(
    description: LaunchDescription,
    after: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> list[Difference]:
    """`after` (allocations) against `expected`, within the tolerance of the description."""
    out = []
    rtol, atol = description.tolerance.rtol, description.tolerance.atol
    for name, want in expected.items():
        spec = description.tensors[name]
        have = spec.view(after[name])
        if not have.size:
            continue
        a, b = have.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            # 64-bit integers are compared as such: float64 has 53 bits.
            same = (have == want) | (np.isnan(a) & np.isnan(b))
            error = np.where(same, 0.0, np.abs(a - b))
            error[np.isnan(error)] = np.inf
            bad = ~same & ~(error <= atol + rtol * np.abs(b))
            relative = np.where(b != 0, error / np.abs(b), 0.0)
        worst = np.where(bad, error + 1, -1.0) if bad.any() else error
        at = tuple(int(i) for i in np.unravel_index(np.argmax(worst), have.shape))
        out.append(
            Difference(
                name=name,
                wrong=int(bad.sum()),
                size=int(have.size),
                index=at,
                value=float(a[at]),
                expected=float(b[at]),
                max_error=float(error.max()),
                max_relative=float(relative.max()),
            )
        )
    return out
