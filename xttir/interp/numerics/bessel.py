"""Bessel functions in f64, accurate to about 1e-15 of max(1, |value|).

Up to x = 25 all J_n come from one backward recurrence (Miller), and Y_0, Y_1 from Neumann's series
over them; beyond, Hankel's asymptotic series. Higher orders follow by recurrence. I_0 and I_1 are
power series and their asymptotic series. Formulas: Abramowitz and Stegun, chapter 9.
"""

from __future__ import annotations

import numpy as np

from xttir.diagnostics import Unsupported

_EULER = 0.5772156649015329
_SPLIT = 25.0
_START = 90  # order at which the backward recurrence starts: J_90(25) is below 1e-40


def _miller(x: np.ndarray, orders: int) -> list[np.ndarray]:
    """[J_0(x), .., J_orders(x)] for 0 <= x <= 25, orders at most 80."""
    x = np.maximum(x, 1e-9)
    high, here = np.zeros_like(x), np.full_like(x, 1e-300)
    total = np.zeros_like(x)
    kept: list[np.ndarray] = []
    for n in range(_START, -1, -1):
        low = here if n == _START else 2 * (n + 1) / x * here - high
        if n < _START:
            high, here = here, low
            # Rescale where the values grow out of range (small x); kept ones with them.
            big = np.abs(here) > 1e150
            if big.any():
                shrink = np.where(big, 1e-250, 1.0)
                high, here, total = high * shrink, here * shrink, total * shrink
                kept = [k * shrink for k in kept]
        if n <= orders:
            kept.append(here)
        if n % 2 == 0:
            total = total + (here if n == 0 else 2 * here)
    return [k / total for k in reversed(kept)]


def _hankel(order: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, Y) of order 0 or 1 for x >= 25."""
    x = np.maximum(x, _SPLIT)
    mu = 4.0 * order * order
    p, q = np.ones_like(x), np.zeros_like(x)
    term = np.ones_like(x)
    for k in range(1, 30):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        if k % 2:
            q = q + (term if k % 4 == 1 else -term)
        else:
            p = p + (term if k % 4 == 0 else -term)
    scale = np.sqrt(2 / np.pi) / np.sqrt(x)
    # cos and sin of x - (order / 2 + 1 / 4) pi, from those of x.
    c, s = np.cos(x), np.sin(x)
    root = np.sqrt(0.5)
    if order == 0:
        cos, sin = (c + s) * root, (s - c) * root
    else:
        cos, sin = (s - c) * root, -(c + s) * root
    return scale * (p * cos - q * sin), scale * (p * sin + q * cos)


def _small_j(order: int, x: np.ndarray) -> np.ndarray:
    """J of order 0 or 1 for |x| < 1, by its power series: keeps relative accuracy near 0."""
    t = -x * x / 4
    term = np.ones_like(x)
    total = np.ones_like(x)
    for k in range(1, 12):
        term = term * t / (k * (k + order))
        total = total + term
    return total if order == 0 else total * x / 2


def _first_two(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """(J_0, J_1, Y_0, Y_1) for x > 0."""
    near = np.minimum(x, _SPLIT)
    j = _miller(near, 60)
    small = x < 1
    j0 = np.where(small, _small_j(0, np.minimum(x, 1.0)), j[0])
    j1 = np.where(small, _small_j(1, np.minimum(x, 1.0)), j[1])
    log = np.log(near) - np.log(2) + _EULER
    sum0, sum1 = np.zeros_like(x), np.zeros_like(x)
    for k in range(1, 29):
        sign = 1.0 if k % 2 else -1.0
        sum0 = sum0 + sign * j[2 * k] / k
        sum1 = sum1 + sign * (j[2 * k - 1] - j[2 * k + 1]) / k
    y0 = 2 / np.pi * (log * j0 + 2 * sum0)
    y1 = 2 / np.pi * (log * j1 - j0 / near - sum1)  # the derivative of -y0
    far0, far1 = _hankel(0, x), _hankel(1, x)
    far = x > _SPLIT
    return (
        np.where(far, far0[0], j0),
        np.where(far, far1[0], j1),
        np.where(far, far0[1], y0),
        np.where(far, far1[1], y1),
    )


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, 1.0)


def j0(x: np.ndarray) -> np.ndarray:
    out = _first_two(np.abs(_finite(x)))[0]
    return np.where(np.isnan(x), x, np.where(np.isinf(x), 0.0, out))


def j1(x: np.ndarray) -> np.ndarray:
    out = _first_two(np.abs(_finite(x)))[1]
    out = np.where(np.signbit(x), -out, out)
    return np.where(np.isnan(x), x, np.where(np.isinf(x), np.copysign(0.0, x), out))


def _y_edges(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    out = np.where(x == 0, -np.inf, out)
    out = np.where(x == np.inf, 0.0, out)
    return np.where((x < 0) | np.isnan(x), np.nan, out)


def y0(x: np.ndarray) -> np.ndarray:
    return _y_edges(x, _first_two(np.where(x > 0, _finite(x), 1.0))[2])


def y1(x: np.ndarray) -> np.ndarray:
    return _y_edges(x, _first_two(np.where(x > 0, _finite(x), 1.0))[3])


_LARGEST_ORDER = 1 << 14


def _each_order(n: np.ndarray, x: np.ndarray, f, limit: float) -> np.ndarray:
    """`f(order, x)` for every order in `n`; orders below 0 give NaN, as in CUDA.

    Recurrences take as many steps as the order says. Far above |x| they are not needed: there the
    function has reached its `limit`. Raises Unsupported for the rest of the largest orders.
    """
    n, x = np.broadcast_arrays(n, x)
    out = np.full(x.shape, np.nan)
    reached = (n > 2 * np.abs(x) + 1000) & (x >= 0 if np.isinf(limit) else ~np.isnan(x))
    out[reached] = limit
    for order in np.unique(n[~reached]):
        if order > _LARGEST_ORDER:
            raise Unsupported(f"Bessel functions of order {order}")
        if order >= 0:
            where = (n == order) & ~reached
            out[where] = f(int(order), x[where])
    return out


def _jn(n: int, x: np.ndarray) -> np.ndarray:
    size = np.abs(_finite(x))
    if n == 0:
        return j0(x)
    # Upwards from J_0, J_1 is stable while the order stays below x.
    low, here = _first_two(size)[:2]
    for k in range(1, n):
        low, here = here, 2 * k / np.maximum(size, 1e-300) * here - low
    # Otherwise downwards from far above, scaled by J_0 or J_1, whichever is larger.
    start = 2 * (n + 40) + n // 2
    safe = np.where(size < n, np.maximum(size, 1e-300), 1.0)
    after, now = np.zeros_like(safe), np.full_like(safe, 1e-300)
    wanted = np.zeros_like(safe)
    for k in range(start, 0, -1):
        after, now = now, 2 * k / safe * now - after
        big = np.abs(now) > 1e150
        shrink = np.where(big, 1e-250, 1.0)
        after, now, wanted = after * shrink, now * shrink, wanted * shrink
        if k - 1 == n:
            wanted = now
    first, second = _first_two(size)[:2]
    use_zero = np.abs(now) >= np.abs(after)
    scale = np.where(
        use_zero, first / np.where(now == 0, 1, now), second / np.where(after == 0, 1, after)
    )
    out = np.where(size >= n, here, wanted * scale)
    out = np.where(size == 0, 0.0, out)
    if n % 2:
        out = np.where(np.signbit(x), -out, out)
    return np.where(np.isnan(x), x, np.where(np.isinf(x), 0.0, out))


def _yn(n: int, x: np.ndarray) -> np.ndarray:
    if n == 0:
        return y0(x)
    safe = np.where(x > 0, _finite(x), 1.0)
    _, _, low, here = _first_two(safe)
    for k in range(1, n):
        ahead = 2 * k / safe * here - low
        low, here = here, np.where(np.isinf(here), here, ahead)
    return _y_edges(x, here)


def jn(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _each_order(n, x, _jn, 0.0)


def yn(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _each_order(n, x, _yn, -np.inf)


def _modified(order: int, x: np.ndarray) -> np.ndarray:
    """I of order 0 or 1 for x >= 0."""
    near = np.minimum(x, 30.0)
    t = near * near / 4
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 80):
        term = term * t / (k * (k + order))
        total = total + term
    series = total if order == 0 else total * near / 2
    far = np.clip(x, 30.0, 1e4)  # the result is infinite from 714 on
    mu = 4.0 * order * order
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 25):
        term = -term * (mu - (2 * k - 1) ** 2) / (k * 8 * far)
        total = total + term
    # exp in two halves, so that it overflows only where the result does.
    half = np.exp(far / 2)
    asymptotic = half * (total / np.sqrt(2 * np.pi * far)) * half
    return np.where(x <= 30, series, asymptotic)


def i0(x: np.ndarray) -> np.ndarray:
    out = _modified(0, np.abs(_finite(x)))
    return np.where(np.isnan(x), x, np.where(np.isinf(x), np.inf, out))


def i1(x: np.ndarray) -> np.ndarray:
    out = np.copysign(_modified(1, np.abs(_finite(x))), x)
    return np.where(np.isnan(x), x, np.where(np.isinf(x), x, out))
