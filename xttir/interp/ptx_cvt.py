"""PTX's `cvt` and `cvt.pack` for the instruction table: every pair of types, packed forms too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xttir.diagnostics import Unsupported
from xttir.interp.numerics import casts, products
from xttir.interp.numerics.floats import FORMATS, ROUND_INTEGRAL, round_to, widen
from xttir.interp.ptx_scalar import (
    E8M0,
    SCALARS,
    Form,
    _finish,
    _flush,
    _is_float,
    _saturate_integer,
    instruction,
    lanes_of,
)

_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def _targets(form: Form) -> Sequence[str]:
    return form.types[:1]


@instruction(
    "cvt",
    modifiers="rn rz rm rp rna rni rzi rmi rpi ftz sat relu satfinite",
    results=_targets,
)
def _cvt(form: Form, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """One source, or two scalars for a packed target: the first becomes the upper half."""
    dtype, count = lanes_of(form.type)
    if more:
        a, b = np.broadcast_arrays(a, more[0])
        if count != 2 or len(more) != 1:
            raise Unsupported(f"PTX instruction {form.opcode}")
        return _convert(form, np.stack([b, a], axis=-1), dtype)
    if lanes_of(form.types[1])[1] != count:
        raise Unsupported(f"PTX instruction {form.opcode}")
    return _convert(form, a, dtype)


def _convert(form: Form, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    source_float = a.dtype.kind not in "iu" or a.dtype in FORMATS
    target_float = dtype in FORMATS or dtype == SCALARS["f64"] or dtype == E8M0
    if a.dtype == E8M0:
        return round_to(a.astype(np.float32), dtype)
    if not source_float and not target_float:
        return _saturate_integer(a, dtype) if form.has("sat") else a.astype(dtype)
    if not target_float:
        mode = next((v for k, v in _INTEGRAL.items() if form.has(k)), "rz")
        return casts.convert_to_integer(_flush(form, a) if _is_float(a) else a, mode, dtype)
    if not source_float:
        return _finish_if_float(form, _from_integer(form, a, dtype))
    return _float_to_float(form, a, dtype)


def _finish_if_float(form: Form, value: np.ndarray) -> np.ndarray:
    return _finish(form, value) if _is_float(value) else value


def _from_integer(form: Form, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype in (SCALARS["f32"], SCALARS["f64"]):
        return casts.convert_from_integer(a, form.rounding, dtype)
    if form.rounding == "rn":
        return casts._int_to_float(a, dtype)
    exact = casts._odd_f64(a) if a.dtype.itemsize == 8 else a.astype(np.float64)
    return round_to(exact, dtype, form.rounding)


def _float_to_float(form: Form, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if a.dtype == SCALARS["f32"]:
        a = _flush(form, a)
    for name, mode in _INTEGRAL.items():
        if form.has(name):
            whole = ROUND_INTEGRAL[mode](widen(a))
            return _finish(form, casts.float_to_float(whole, dtype))
    if form.type == "tf32":
        return _to_tf32(form, a)
    if dtype == E8M0:
        return _to_e8m0(form, widen(a))
    if form.rounding == "rn" and not form.has("satfinite"):
        value = casts.float_to_float(a, dtype)
    else:
        value = round_to(widen(a), dtype, form.rounding, saturate=form.has("satfinite"))
    if dtype == SCALARS["f32"]:
        value = _flush(form, value)
    if form.has("sat"):
        wide = widen(value)
        value = np.where(wide > 0, np.minimum(wide, 1), 0).astype(dtype)
    return _relu(value) if form.has("relu") else value


def _relu(value: np.ndarray) -> np.ndarray:
    return np.where(widen(value) <= 0, np.zeros((), value.dtype), value)


def _to_tf32(form: Form, a: np.ndarray) -> np.ndarray:
    if form.rounding == "rna":
        value = products.tf32_round(a)
    else:
        bits = a.view(np.int32)
        if form.rounding == "rn":
            bits = bits + np.int32(0xFFF) + ((bits >> 13) & 1)
        value = (bits & np.int32(-8192)).view(np.float32)
        value = np.where(np.isfinite(a), value, a)
    if form.has("satfinite"):
        largest = np.array(0x7F7FE000, np.int32).view(np.float32)
        value = np.where(np.isinf(value), np.copysign(largest, value), value)
    return _relu(value) if form.has("relu") else value


def _to_e8m0(form: Form, a: np.ndarray) -> np.ndarray:
    """The power of two not above |a| (rz) or not below (rp), as its biased exponent; NaN is 255."""
    fraction, exponent = np.frexp(np.abs(a.astype(np.float64)))
    power = exponent - 1
    if form.rounding == "rp":
        power = np.where(fraction > 0.5, power + 1, power)
    code = np.clip(power + 127, 0, 254)
    code = np.where(a == 0, 0, np.where(np.isinf(a), 254, code))
    return np.where(np.isnan(a), 255, code).astype(np.uint8).view(E8M0)


@instruction(
    "cvt.pack",
    modifiers="sat",
    sources=lambda form: (form.types[1], form.types[1], "b32"),
    results=lambda form: ("b32",),
)
def _cvt_pack(form: Form, a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """a and b saturated to a narrow type, b lowest; the rest from c (8 bits) or nothing."""
    dtype = SCALARS[form.type]
    size = np.uint32(8 * dtype.itemsize)
    low = (1 << int(size)) - 1
    upper, lower = (
        _saturate_integer(v, dtype).astype(np.int64).astype(np.uint32) & np.uint32(low)
        for v in (a, b)
    )
    out = lower | upper << size
    return out | more[0] << (size + size) if more else out
