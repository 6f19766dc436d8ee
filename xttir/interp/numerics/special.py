"""Special functions in f64: error functions and their inverses, gamma, normal distribution.

Built on Python's own erf, erfc, lgamma and gamma, which are good to an ulp or so; f32 results are
rounded from these. They go element by element, which is slow: nothing here is common in kernels
(erf itself has a fast f32 form in `numerics.elementary`).
"""

from __future__ import annotations

import math

import numpy as np

from xttir.interp.numerics.elementary import each
from xttir.interp.numerics.exact import two_prod

_SQRT_PI = math.sqrt(math.pi)
# sqrt(1/2) as a sum of two f64.
_HALF_ROOT, _HALF_ROOT_LOW = 0.7071067811865476, -4.833646656726457e-17

erf = each(math.erf)
erfc = each(math.erfc)

# zeta(k) - 1 for k = 2, 3, ..
_ZETA = (
    0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993,
    0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143,
    0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915,
    6.124813505870483e-05, 3.058823630702049e-05, 1.528225940865187e-05, 7.637197637899763e-06,
    3.81729326499984e-06, 1.908212716553939e-06, 9.539620338727962e-07, 4.769329867878064e-07,
    2.38450502727733e-07, 1.1921992596531106e-07, 5.960818905125948e-08, 2.980350351465228e-08,
)  # fmt: skip
_EULER = 0.5772156649015329


def _lgamma(x: float) -> float:
    # Python's loses digits where the result goes through zero, at 1 and at 2.
    near_one = abs(x - 1) < 0.25
    if not near_one and not abs(x - 2) < 0.25:
        return math.lgamma(x)
    z = x - 1 if near_one else x - 2
    total = 0.0
    for k in range(len(_ZETA) + 1, 1, -1):
        total = -z * total + _ZETA[k - 2] / k
    total = z * (1 - _EULER) + z * z * total
    return total - math.log1p(z) if near_one else total


lgamma = each(_lgamma, domain_error=math.inf)


def _gamma(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


tgamma = each(_gamma)


def _exp_square(x: np.ndarray, sign: float) -> np.ndarray:
    """exp(sign * x * x) without the error of rounding x * x."""
    square, rest = two_prod(x, x)
    rest = np.where(square < 1000.0, rest, 0.0)  # beyond, exp over- or underflows
    return np.exp(sign * square) * (1 + sign * rest)


def erfcx(x: np.ndarray) -> np.ndarray:
    """exp(x^2) erfc(x)."""
    small = np.minimum(x, 25.0)
    near = _exp_square(small, 1.0) * erfc(small)
    large = np.maximum(x, 25.0)
    ratio, term, total = 1 / (2 * large * large), np.ones_like(x), np.ones_like(x)
    for k in range(1, 10):
        term = -term * (2 * k - 1) * ratio
        total = total + term
    far = total / _SQRT_PI / large
    return np.where(x < 25, near, np.where(np.isnan(x), x, far))


def _first_guess(tail: np.ndarray) -> np.ndarray:
    """y >= 0 with erfc(y) near `tail`, in (0, 1] (Abramowitz and Stegun 26.2.23, error 4.5e-4)."""
    t = np.sqrt(-2 * (np.log(tail) - math.log(2)))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    bottom = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    return np.maximum(t - top / bottom, 0.0) * _HALF_ROOT


def _inverse(y: np.ndarray, error_of) -> np.ndarray:
    """Halley's steps towards error_of(y) = 0, where error_of is erf or -erfc less a constant."""
    for _ in range(3):
        step = error_of(y) * (_SQRT_PI / 2) * _exp_square(y, 1.0)
        y = y - step / (1 + y * step)
    return y


def erfcinv(x: np.ndarray) -> np.ndarray:
    """The y with erfc(y) = x, for 0 <= x <= 2."""
    inside = (x > 0) & (x < 2)
    safe = np.where(inside, x, 1.0)
    tail = np.minimum(safe, 2 - safe)
    y = _first_guess(tail)
    middle = tail > 0.5
    # Near 0 erfc loses what erf keeps: erf(y) = 1 - x exactly there.
    small = _inverse(np.where(middle, y, 0.25), lambda v: erf(v) - np.where(middle, 1 - tail, 0.25))
    large = _inverse(np.where(middle, 1.0, y), lambda v: np.where(middle, 0.5, tail) - erfc(v))
    size = np.where(middle, small, large)
    out = np.copysign(size, 1 - safe)
    edge = np.where(x == 0, np.inf, np.where(x == 2, -np.inf, np.nan))
    return np.where(inside, out, edge)


def erfinv(x: np.ndarray) -> np.ndarray:
    """The y with erf(y) = x, for -1 <= x <= 1."""
    inside = np.abs(x) < 1
    size = np.where(inside, np.abs(x), 0.0)
    tail = 1 - size  # exact where it is used, for size >= 1/2
    y = _first_guess(tail)
    low = size < 0.5
    small = _inverse(np.where(low, y, 0.25), lambda v: erf(v) - np.where(low, size, 0.25))
    large = _inverse(np.where(low, 1.0, y), lambda v: np.where(low, 0.5, tail) - erfc(v))
    # Below f64's resolution of erf the function is linear.
    tiny = size * (_SQRT_PI / 2)
    out = np.where(size < 1e-8, tiny, np.where(low, small, large))
    edge = np.where(np.abs(x) == 1, np.inf, np.nan)
    return np.copysign(np.where(inside, out, edge), x)


def normcdf(x: np.ndarray) -> np.ndarray:
    """The normal distribution function erfc(-x / sqrt(2)) / 2."""
    x = np.clip(x, -60.0, 60.0)  # beyond, the result is 0 or 1
    z, rest = two_prod(-x, np.full_like(x, _HALF_ROOT))
    rest = rest - x * _HALF_ROOT_LOW
    slope = -2 / _SQRT_PI * _exp_square(z, -1.0)
    return 0.5 * (erfc(z) + slope * rest)


def normcdfinv(p: np.ndarray) -> np.ndarray:
    """The inverse of `normcdf`."""
    return -math.sqrt(2) * erfcinv(2 * p)


def norm(*parts: np.ndarray) -> np.ndarray:
    """sqrt of the sum of squares, without over- or underflow on the way; inf if any part is."""
    sizes = [np.abs(p) for p in parts]
    largest = sizes[0]
    for s in sizes[1:]:
        largest = np.fmax(largest, s)
    _, e = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    total = sum(np.ldexp(s, -e) ** 2 for s in sizes)
    out = np.ldexp(np.sqrt(total), e)
    return np.where(np.isinf(largest), np.inf, out)


def _half_turns(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x mod 2 as (quarter 0 .. 3, rest): x = quarter / 2 + rest, |rest| <= 1/4, exactly."""
    r = np.fmod(x, 2.0)
    quarter = np.rint(2 * r)
    return quarter.astype(np.int64) & 3, r - quarter * 0.5


def sinpi(x: np.ndarray) -> np.ndarray:
    """sin(pi x); zeros of integers have the sign of x."""
    finite = np.isfinite(x)
    quarter, rest = _half_turns(np.where(finite, x, 0.0))
    s, c = np.sin(np.pi * rest), np.cos(np.pi * rest)
    out = np.select([quarter == 0, quarter == 1, quarter == 2], [s, c, -s], -c)
    out = np.where(out == 0, np.copysign(0.0, x), out)
    return np.where(finite, out, np.nan)


def cospi(x: np.ndarray) -> np.ndarray:
    """cos(pi x)."""
    finite = np.isfinite(x)
    quarter, rest = _half_turns(np.where(finite, x, 0.0))
    s, c = np.sin(np.pi * rest), np.cos(np.pi * rest)
    out = np.select([quarter == 0, quarter == 1, quarter == 2], [c, -s, -c], s)
    return np.where(finite, out + 0.0, np.nan)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - n y with n the integer nearest to x / y, ties to even (IEEE remainder), exactly."""
    size = np.abs(y)
    # The sign of the quotient's parity comes from the remainder modulo 2 |y|.
    r = np.fmod(np.abs(x), np.where(size <= 2.0**1022, 2 * size, np.inf))
    r = np.where(np.isinf(size) & np.isfinite(x), np.abs(x), r)
    half = np.where(size < 2.0**-1000, size, size * 0.5)
    scaled = np.where(size < 2.0**-1000, r * 2, r)
    over = scaled > half
    r = np.where(over, r - size, r)
    scaled = np.where(size < 2.0**-1000, r * 2, r)
    r = np.where(over & (scaled >= half), r - size, r)
    # abs(x) flipped the sign; an exact zero has the sign of x.
    out = np.where(np.signbit(x), -r, r)
    out = np.where(r == 0, np.copysign(0.0, x), out)
    return np.where((y == 0) | np.isinf(x) | np.isnan(x) | np.isnan(y), np.nan, out)
