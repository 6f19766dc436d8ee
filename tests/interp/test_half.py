"""torch's half-precision conversions give the bits of the numpy ones."""

from __future__ import annotations

import numpy as np
import pytest

from xttir.interp.numerics import floats, half

torch = pytest.importorskip("torch")


def test_widening_is_exact_for_every_code() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    fast = half.widen(codes)
    assert fast is not None
    np.testing.assert_array_equal(fast, codes.astype(np.float32))
    assert (np.signbit(fast) == np.signbit(codes)).all()


def test_narrowing_rounds_as_numpy_does() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 300_000, dtype=np.uint32)
    # Values around ties, subnormals and the overflow threshold, and any bit pattern.
    near = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    edge = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    half_way = near + (np.roll(near, -1) - near) / 2
    x = np.concatenate([bits.view(np.float32), near, *edge, half_way])
    fast = half.narrow(x)
    assert fast is not None
    slow = floats._narrow_f16(x)
    np.testing.assert_array_equal(fast.view(np.uint16), slow.view(np.uint16))


def test_views_convert_too() -> None:
    a = np.arange(8192, dtype=np.float32).reshape(64, 128).T
    narrow = half.narrow(a)
    assert narrow is not None
    np.testing.assert_array_equal(narrow, a.astype(np.float16))
    wide = half.widen(np.broadcast_to(np.float16(1.5), (4, 8)))
    assert wide is not None
    assert (wide == 1.5).all()
