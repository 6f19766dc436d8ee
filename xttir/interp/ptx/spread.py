"""Integers of which a trace knows only where they lie: indices that are read from memory.

The value in a lane is `known + u`, modulo the width of the register, for some u in [low, high] that
`low` plus a multiple of `step` gives. What is known says which tensor an address is meant for, and
a declared range of the data bounds the rest. Where one datum decides u, all of these are possible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xttir.interp.ptx.instruction import UNKNOWN, Unknown

INFINITE = 1 << 61
"""Bounds from here on are none."""
NEAR = 1 << 39
"""What differs by less is meant for one tensor."""


class Spread:
    """`known`, `low`, `high`: int64 (n,) or (1,). `datum`: int64 (n,) or (1,), the address of the
    one datum that decides; None: there is none, and not all of the values need be possible."""

    __slots__ = ("datum", "high", "known", "low", "step")

    def __init__(
        self,
        known: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        step: int = 1,
        datum: np.ndarray | None = None,
    ):
        self.known = known
        self.low = np.maximum(low, -INFINITE)
        self.high = np.minimum(high, INFINITE)
        self.step = step
        self.datum = datum

    def __repr__(self) -> str:
        return f"spread({self.known[0]} + {self.low[0]}..{self.high[0]})"

    @property
    def finite(self) -> bool:
        return bool((self.low > -INFINITE).all() and (self.high < INFINITE).all())

    @property
    def first(self) -> np.ndarray:
        """The least value, where it is finite."""
        return self.known + self.low

    @property
    def last(self) -> np.ndarray:
        return self.known + self.high

    def reached(self, most: int) -> np.ndarray | None:
        """All values that the first lane has for some data; None if they need not be possible, or
        are more than `most`."""
        if self.datum is None or not self.finite or not int(self.datum[0]):
            return None
        first, last = int(self.first[0]), int(self.last[0])
        step = max(self.step, 1)
        if (last - first) // step >= most:
            return None
        return np.arange(first, last + 1, step, dtype=np.int64)

    def take(self, index: np.ndarray) -> Spread:
        def rows(a: np.ndarray) -> np.ndarray:
            return a if a.shape[0] == 1 else a[index]

        datum = None if self.datum is None else rows(self.datum)
        return Spread(rows(self.known), rows(self.low), rows(self.high), self.step, datum)

    def arrays(self, n: int) -> list[np.ndarray]:
        """known, low, high and datum (0: none), (n,) each."""
        datum = np.zeros(1, np.int64) if self.datum is None else self.datum
        return [np.broadcast_to(a, (n,)) for a in (self.known, self.low, self.high, datum)]


def anywhere(known: np.ndarray) -> Spread:
    """Known to be near `known`, and no more."""
    bound = np.array([INFINITE])
    return Spread(known, -bound, bound)


def number(value: np.ndarray, type_: str = "s") -> np.ndarray:
    """Raw bits as int64, by the sign of the type."""
    if type_.startswith("s") and value.dtype.kind == "u":
        value = value.view(f"i{value.dtype.itemsize}")
    return value.astype(np.int64)


def as_spread(value: Any, type_: str = "s") -> Spread | None:
    """A value that is known as one that is not, None if nothing is known of it."""
    if isinstance(value, Spread):
        return value
    if value.__class__ is np.ndarray and value.dtype.kind in "iu" and value.ndim == 1:
        zero = np.zeros(1, np.int64)
        return Spread(number(value, type_), zero, zero)
    return None


# Lanes --------------------------------------------------------------------------------------------


def together(values: list[Any], counts: list[int], order: np.ndarray | None) -> Any:
    """Values of several groups side by side; see `values.join`."""
    parts = [as_spread(v) for v in values]
    if any(p is None for p in parts):
        return UNKNOWN
    rows = [p.arrays(c) for p, c in zip(parts, counts, strict=True) if p is not None]
    known, low, high, datum = (np.concatenate(column) for column in zip(*rows, strict=True))
    if order is not None:
        known, low, high, datum = known[order], low[order], high[order], datum[order]
    sure = datum if all(v.datum is not None for v in values if isinstance(v, Spread)) else None
    return Spread(known, low, high, _step(*parts), sure)


def select(mask: np.ndarray, new: Any, old: Any) -> Any:
    """`new` in the lanes of `mask`, `old` in the others."""
    a, b = as_spread(new), as_spread(old)
    if a is None or b is None:
        return UNKNOWN
    n = mask.shape[0]
    pairs = zip(a.arrays(n), b.arrays(n), strict=True)
    known, low, high, datum = (np.where(mask, x, y) for x, y in pairs)
    sure = all(v.datum is not None for v in (new, old) if isinstance(v, Spread))
    return Spread(known, low, high, _step(a, b), datum if sure else None)


def expand(value: Spread, rows: np.ndarray, n: int) -> Spread:
    """Over the lanes `rows` as over all n lanes, anything in the others."""
    out = [np.zeros(n, np.int64) for _ in range(4)]
    for target, source in zip(out, value.arrays(rows.size), strict=True):
        target[rows] = source
    datum = None if value.datum is None else out[3]
    return Spread(out[0], out[1], out[2], value.step, datum)


def union(a: Any, b: Any) -> Any:
    """One of two values: both must be meant for one tensor."""
    x, y = as_spread(a), as_spread(b)
    if x is None or y is None:
        return UNKNOWN
    offset = y.known - x.known
    if (np.abs(offset) > NEAR).any():
        return UNKNOWN
    low, high = np.minimum(x.low, offset + y.low), np.maximum(x.high, offset + y.high)
    return Spread(x.known, low, high)


def _step(*parts: Spread | None) -> int:
    """1 unless all agree; what is known has none of its own."""
    steps = {p.step for p in parts if p is not None and (p.low != p.high).any()}
    return steps.pop() if len(steps) == 1 else 1


# Instructions -------------------------------------------------------------------------------------


def result(name: str, form: Any, values: list[Any]) -> Any:
    """The result of a scalar instruction of which some operands are not known: a `Spread`, an array
    (a comparison that is decided), or UNKNOWN. `values`: raw operands; `form`: of `ptx_scalar`."""
    rule = _RULES.get(name)
    if rule is None or (not any(isinstance(v, Spread) for v in values) and name not in _BEGIN):
        return UNKNOWN
    type_ = form.types[-1] if form.types else ""
    if type_[:1] not in ("s", "u", "b") or len(type_) > 3 or type_ in ("b8", "s8", "u8"):
        return UNKNOWN
    found = rule(form, type_, values)
    return UNKNOWN if found is None else found


def _add(form: Any, type_: str, values: list[Any]) -> Any:
    return _sum(values[0], values[1], 1, type_) if not form.modifiers else None


def _sub(form: Any, type_: str, values: list[Any]) -> Any:
    return _sum(values[0], values[1], -1, type_) if not form.modifiers else None


def _sum(a: Any, b: Any, sign: int, type_: str) -> Any:
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        other, negative = (b, sign) if isinstance(a, Unknown) else (a, 1)
        place = as_spread(other, type_)
        return None if place is None else anywhere(negative * place.known)
    x, y = as_spread(a, type_), as_spread(b, type_)
    if x is None or y is None:
        return None
    low, high = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
    step = math.gcd(*(v.step for v in (a, b) if isinstance(v, Spread)))
    datum = None
    if not (isinstance(a, Spread) and isinstance(b, Spread)):
        datum = x.datum if isinstance(a, Spread) else y.datum
    return Spread(x.known + sign * y.known, x.low + low, x.high + high, step, datum)


def _mul(form: Any, type_: str, values: list[Any]) -> Any:
    if "hi" in form.modifiers:
        return None
    wide = "wide" in form.modifiers
    a, b = values[0], values[1]
    if not isinstance(a, Spread):
        a, b = b, a
    if not isinstance(a, Spread) or b.__class__ is not np.ndarray:
        return None
    factor = number(b, type_)
    if not wide and type_.startswith(("u", "b")):
        factor = number(b, "s")
    return _scaled(_within(a, type_) if wide else a, factor)


def _scaled(a: Spread | None, factor: np.ndarray) -> Spread | None:
    if a is None:
        return None
    size = int(np.abs(factor).max(initial=0))
    if not size or size > 1 << 31:
        return None
    if not a.finite:
        return anywhere(a.known * factor)
    if int(np.abs(a.low).max()) * size >= INFINITE or int(np.abs(a.high).max()) * size >= INFINITE:
        return None
    one, two = a.low * factor, a.high * factor
    step = a.step * size if (np.abs(factor) == size).all() else 1
    low, high = np.minimum(one, two), np.maximum(one, two)
    return Spread(a.known * factor, low, high, step, a.datum if step > 1 or size == 1 else None)


def _mad(form: Any, type_: str, values: list[Any]) -> Any:
    if values[2] is UNKNOWN or isinstance(values[0], Unknown) or isinstance(values[1], Unknown):
        other = as_spread(values[2], type_)
        return None if other is None else anywhere(other.known)
    if isinstance(values[0], Spread) or isinstance(values[1], Spread):
        product = _mul(form, type_, values[:2])
    else:
        product = number(values[0], type_) * number(values[1], type_)
        product = product.view(np.uint64)
    return None if product is None else _sum(product, values[2], 1, type_)


def _shl(form: Any, type_: str, values: list[Any]) -> Any:
    if values[1].__class__ is not np.ndarray or not isinstance(values[0], Spread):
        return None
    count = number(values[1], "u")
    if (count > 30).any() or (count < 0).any():
        return None
    return _scaled(values[0], np.int64(1) << count)


def _shr(form: Any, type_: str, values: list[Any]) -> Any:
    a = values[0]
    if values[1].__class__ is not np.ndarray or not isinstance(a, Spread):
        return None
    a = _within(a, type_)
    count = number(values[1], "u")
    if a is None or not a.finite or (count > 63).any():
        return None
    return _plain(a.first >> count, a.last >> count, a)


def _and(form: Any, type_: str, values: list[Any]) -> Any:
    a, mask = values
    if a.__class__ is np.ndarray:
        a, mask = mask, a
    if mask.__class__ is not np.ndarray or mask.dtype.kind == "b":
        return None
    m = number(mask, "u")
    if (m < 0).any() or m.max() > 1 << 32:
        return None
    inner = _within(a, type_) if isinstance(a, Spread) else None
    if inner is not None and inner.finite and (inner.first >= 0).all() and (m > 0).all():
        unit, whole = m & -m, m
        if inner.step and not (inner.step % unit).any() and not (inner.first % unit).any():
            whole = m | (unit - 1)  # bits that are zero anyway: of an index that is scaled
        if (((whole & (whole + 1)) == 0) & (inner.last <= whole)).all():
            return inner
        if ((m & (m + 1)) == 0).all():
            gapless = inner.step == 1 and bool((inner.high - inner.low >= m).all())
            return _plain(np.zeros_like(m), m, inner if gapless else None)
    return _plain(np.zeros_like(m), m, None)


def _plain(low: np.ndarray, high: np.ndarray, source: Spread | None) -> Spread:
    """All integers of an interval; surely so if those of `source` have no gaps."""
    datum = source.datum if source is not None and source.step == 1 else None
    return Spread(np.zeros(1, np.int64), low, high, 1, datum)


def _minmax(form: Any, type_: str, values: list[Any], clip: Any) -> Any:
    a, b = values[0], values[1]
    if not isinstance(a, Spread):
        a, b = b, a
    if b.__class__ is not np.ndarray or not isinstance(a, Spread):
        return None
    a = _within(a, type_)
    if a is None or not a.finite:
        return None
    limit = number(b, type_)
    return _plain(clip(a.first, limit), clip(a.last, limit), a)


def _min(form: Any, type_: str, values: list[Any]) -> Any:
    return _minmax(form, type_, values, np.minimum)


def _max(form: Any, type_: str, values: list[Any]) -> Any:
    return _minmax(form, type_, values, np.maximum)


def _cvt(form: Any, type_: str, values: list[Any]) -> Any:
    if len(form.types) != 2 or any(t[:1] not in ("s", "u") for t in form.types):
        return None
    target, source = form.types
    inner = _within(values[0], source)
    if inner is None:
        return None
    if int(target[1:]) >= int(source[1:]) or not inner.finite:
        return inner
    return _within(inner, target)


def _div(form: Any, type_: str, values: list[Any]) -> Any:
    a, b = values
    if not isinstance(a, Spread) or b.__class__ is not np.ndarray:
        return None
    a, by = _within(a, type_), number(b, type_)
    if a is None or not a.finite or (a.first < 0).any() or (by <= 0).any():
        return None
    return _plain(a.first // by, a.last // by, a)


def _rem(form: Any, type_: str, values: list[Any]) -> Any:
    a, b = values
    if not isinstance(a, Spread) or b.__class__ is not np.ndarray:
        return None
    a, by = _within(a, type_), number(b, type_)
    if a is None or not a.finite or (a.first < 0).any() or (by <= 0).any():
        return None
    if (a.last < by).all():
        return a
    whole = a.step == 1 and bool((a.high - a.low >= by - 1).all())
    return _plain(np.zeros_like(by), by - 1, a if whole else None)


def _selp(form: Any, type_: str, values: list[Any]) -> Any:
    a, b, flag = values
    if flag.__class__ is np.ndarray:
        if flag.shape[0] == 1:
            return a if flag[0] else b
        return select(flag, a, b)
    return union(a, b) if isinstance(flag, Unknown) else None


_COMPARE = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _setp(form: Any, type_: str, values: list[Any]) -> Any:
    if len(form.modifiers) != 1:
        return None
    a, b = (as_spread(v, type_) for v in values[:2])
    a, b = (None if s is None else _within(s, type_) for s in (a, b))
    if a is None or b is None or not a.finite or not b.finite:
        return None
    word = form.modifiers[0]
    if word in ("eq", "ne"):
        if (a.last < b.first).all() or (a.first > b.last).all():
            return np.array([word == "ne"])
        return None
    compare = _COMPARE.get(word)
    if compare is None:
        return None
    ends = [compare(x, y) for x in (a.first, a.last) for y in (b.first, b.last)]
    if all(e.all() for e in ends):
        return np.array([True])
    if not any(e.any() for e in ends):
        return np.array([False])
    return None


def _within(a: Spread, type_: str) -> Spread | None:
    """The value as a number of the type, if it does not wrap; without bounds it stays so."""
    if not a.finite:
        return a
    width = int(type_[1:])
    if width == 64:
        return a
    least, most = (0, (1 << width) - 1)
    if type_.startswith("s"):
        least, most = -(1 << width - 1), (1 << width - 1) - 1
    if (a.first >= least).all() and (a.last <= most).all():
        return a
    return anywhere(a.known)


_RULES = {
    "add": _add, "sub": _sub, "mul": _mul, "mad": _mad, "shl": _shl, "shr": _shr, "and": _and,
    "min": _min, "max": _max, "cvt": _cvt, "div": _div, "rem": _rem, "selp": _selp, "setp": _setp,
}  # fmt: skip
_BEGIN = frozenset(("add", "sub", "mad", "and", "selp"))
"""What makes something of a value of which nothing is known."""
