"""Element types of tensors and scalars: their names, sizes, and how numpy holds them.

The short names (`f32`, `bf16`, `u8`, `f8e4m3`) are the ones that descriptions are written with;
the spellings of torch, numpy and Triton are read as well.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """`kind`: "f" float, "i" signed, "u" unsigned, "b" raw bits, "bool"."""

    name: str
    numpy: np.dtype
    kind: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "f"


def _floats() -> dict[str, DType]:
    table = {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "f32": np.float32,
        "f64": np.float64,
        "f8e4m3": ml_dtypes.float8_e4m3fn,
        "f8e5m2": ml_dtypes.float8_e5m2,
        "f8e8m0": ml_dtypes.float8_e8m0fnu,
    }
    return {name: DType(name, np.dtype(held), "f") for name, held in table.items()}


DTYPES: dict[str, DType] = {
    **_floats(),
    **{f"i{8 * n}": DType(f"i{8 * n}", np.dtype(f"i{n}"), "i") for n in (1, 2, 4, 8)},
    **{f"u{8 * n}": DType(f"u{8 * n}", np.dtype(f"u{n}"), "u") for n in (1, 2, 4, 8)},
    **{f"b{8 * n}": DType(f"b{8 * n}", np.dtype(f"u{n}"), "b") for n in (1, 2, 4, 8)},
    "bool": DType("bool", np.dtype(np.bool_), "bool"),
}
"""By short name. Packed four-bit floats are `u8`, two to a byte."""

_ALIASES = {
    "float16": "f16",
    "half": "f16",
    "fp16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "fp32": "f32",
    "float64": "f64",
    "double": "f64",
    "fp64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "fp8e4nv": "f8e4m3",
    "e4m3": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "fp8e5": "f8e5m2",
    "e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"s{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    "i1": "bool",
    "u1": "bool",
}


def dtype(name: str) -> DType | None:
    """The type of that name, None when there is none."""
    return DTYPES.get(_ALIASES.get(name.removeprefix("torch."), name))


def near(word: str, known: object) -> str:
    """ ", did you mean 'x'?" for a misspelt word, "" when nothing is close."""
    choices = difflib.get_close_matches(word, [str(k) for k in known], 1)  # type: ignore[attr-defined]
    return f", did you mean '{choices[0]}'?" if choices else ""
