"""PTX arithmetic with the carry flag, for the instruction table.

add.cc, addc, sub.cc, subc, mad.cc, madc. The flag is an operand: the last source of what
reads it, the second result of what writes it.
PTX ISA 9.1, section 9.7.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xttir.interp.numerics import integer
from xttir.interp.ptx_scalar import Form, _signed_view, instruction


def _with_carry(form: Form) -> Sequence[str]:
    return (form.type, form.type, "pred")


def _three_with_carry(form: Form) -> Sequence[str]:
    return (form.type, form.type, form.type, "pred")


def _and_flag(form: Form) -> Sequence[str]:
    return (form.type, "pred")


def _sum(a: np.ndarray, b: np.ndarray, carry: Any) -> tuple[np.ndarray, np.ndarray]:
    raw = f"u{a.dtype.itemsize}"
    x, y = a.view(raw), b.view(raw)
    first = x + y
    total = first + np.asarray(carry).astype(raw)
    return total.view(a.dtype), (first < x) | (total < first)


def _difference(a: np.ndarray, b: np.ndarray, borrow: Any) -> tuple[np.ndarray, np.ndarray]:
    raw = f"u{a.dtype.itemsize}"
    x, y = a.view(raw), b.view(raw)
    first = x - y
    total = first - np.asarray(borrow).astype(raw)
    return total.view(a.dtype), (x < y) | (first < total)


@instruction("add.cc", results=_and_flag)
def _add_cc(form: Form, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _sum(a, b, False)


@instruction("addc", modifiers="cc", sources=_with_carry, results=_and_flag)
def _addc(form: Form, a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> Any:
    return _sum(a, b, carry)


@instruction("sub.cc", results=_and_flag)
def _sub_cc(form: Form, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _difference(a, b, False)


@instruction("subc", modifiers="cc", sources=_with_carry, results=_and_flag)
def _subc(form: Form, a: np.ndarray, b: np.ndarray, borrow: np.ndarray) -> Any:
    return _difference(a, b, borrow)


def _half(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if form.has("hi"):
        high = integer.mulhi_signed if a.dtype.kind == "i" else integer.mulhi_unsigned
        return high(_signed_view(a), _signed_view(b)).view(a.dtype)
    return a * b


@instruction("mad.lo.cc", results=_and_flag)
def _mad_lo_cc(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    return _sum(a * b, c, False)


@instruction("mad.hi.cc", results=_and_flag)
def _mad_hi_cc(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    high = integer.mulhi_signed if a.dtype.kind == "i" else integer.mulhi_unsigned
    return _sum(high(_signed_view(a), _signed_view(b)).view(a.dtype), c, False)


@instruction("madc", modifiers="lo hi cc", sources=_three_with_carry, results=_and_flag)
def _madc(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray, carry: np.ndarray) -> Any:
    return _sum(_half(form, a, b), c, carry)
