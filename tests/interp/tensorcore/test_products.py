"""Matrix products bit for bit, against results recorded on an H200.

`tests/data/tensorcore/products_h200.npz` has a 4 x 4 corner of every recording: wgmma and mma.sync
in every type, over 24 distributions of operands (wide and narrow exponents, few nonzero products,
chains of four steps, infinities, NaN, subnormals). The shared calibration has the whole tiles.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import shared_root
from xttir.interp.tensorcore import products
from xttir.interp.tensorcore.products import Recipe, multiply, recipe

DATA = Path(__file__).resolve().parents[2] / "data" / "tensorcore" / "products_h200.npz"
# Name of a recording: (element type, result).
TYPES = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "f16h": ("f16", "f16"),
    "f16k8": ("f16", "f32"),
    "tf32": ("tf32", "f32"),
    "e4m3": ("e4m3", "f32"),
    "e5m2": ("e5m2", "f32"),
}


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return {name: data[name] for name in data.files}


def chain(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Bits of D for operands [T, steps, ..] and the bits of C."""
    kind, form, _ = name.split("_")
    type_, result = TYPES[form]
    how = recipe(90, kind, type_, result, a.shape[-1])
    acc = c.view(np.float16 if result == "f16" else np.float32)
    for step in range(a.shape[1]):
        acc = multiply(how, type_, a[:, step], type_, b[:, step], acc)
    return acc.view(c.dtype)


@pytest.mark.parametrize("form", sorted({n.rsplit("_", 2)[0] for n in recorded()}))
def test_equals_the_card(form: str):
    names = sorted({n.rsplit("_", 1)[0] for n in recorded() if n.startswith(form + "_")})
    assert len(names) == 24
    for name in names:
        a, b, c, d = (recorded()[f"{name}_{q}"] for q in "ABCD")
        assert (chain(name, a, b, c) == d).all(), name


@pytest.mark.parametrize("kind", ["wgmma", "mma"])
def test_equals_the_card_on_whole_tiles(kind: str):
    root = shared_root()
    if root is None:
        pytest.skip("no shared calibration data (XTTIR_SHARED)")
    for file in (f"num_{kind}", f"num2_{kind}"):
        with np.load(root / "calibration" / f"{file}.npz") as data:
            for name in sorted({k.rsplit("_", 1)[0] for k in data.files}):
                a, b, c, d = (data[f"{name}_{q}"][:1] for q in "ABCD")
                if kind == "mma":
                    b = b.swapaxes(-1, -2)
                if "f16h" in name:
                    c, d = (x if x.dtype == np.uint16 else x.astype(np.float16) for x in (c, d))
                a, b, c, d = (
                    np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") for x in (a, b, c, d)
                )
                assert (chain(name, a, b, c) == d).all(), name


def test_a_grid_one_bit_off_would_be_seen():
    wrong = 0
    for name in ("wgmma_bf16_w4", "wgmma_tf32_w10", "mma_f16_w10"):
        a, b, c, d = (recorded()[f"{name}_{q}"] for q in "ABCD")
        type_, _ = TYPES[name.split("_")[1]]
        got = multiply(Recipe(a.shape[-1], 24), type_, a[:, 0], type_, b[:, 0], c.view(np.float32))
        wrong += int((got.view(np.uint32) != d).sum())
    assert wrong


def test_batches_and_layouts_do_not_matter():
    rng = np.random.default_rng(0)
    how = recipe(90, "mma", "bf16", "f32", 16)
    a = rng.integers(0, 1 << 15, (40, 16, 16)).astype(np.uint16)
    b = rng.integers(0, 1 << 15, (40, 8, 16)).astype(np.uint16)
    c = rng.normal(size=(40, 16, 8)).astype(np.float32)
    together = multiply(how, "bf16", a, "bf16", b, c)
    for t in range(0, 40, 7):
        alone = multiply(how, "bf16", a[t], "bf16", b[t], c[t])
        assert (alone.view(np.uint32) == together[t].view(np.uint32)).all()


def test_scales_multiply_elements():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 16, (128, 64)).astype(np.uint8)
    b = rng.integers(0, 16, (16, 64)).astype(np.uint8)
    scale_a, scale_b = (np.repeat(2.0 ** rng.integers(-3, 3, (m, 2)), 32, 1) for m in (128, 16))
    how = Recipe(64, 25)
    got = multiply(how, "e2m1", a, "e2m1", b, None, (scale_a, scale_b))
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    x, y = (values[v & 7] * np.where(v & 8, -1, 1) for v in (a, b))
    assert (got == ((x * scale_a) @ (y * scale_b).T).astype(np.float32)).all()


def test_integers():
    rng = np.random.default_rng(2)
    a = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    b = rng.integers(0, 256, (8, 32)).astype(np.uint8)
    c = np.full((16, 8), 2**31 - 5, np.int32)
    signed = a.view(np.int8).astype(np.int64) @ b.astype(np.int64).T + c
    assert (products.multiply_integers("s8", a, "u8", b, c) == signed.astype(np.int32)).all()
    full = products.multiply_integers("s8", a, "u8", b, c, saturate=True)
    assert (full == np.clip(signed, -(2**31), 2**31 - 1)).all()


@pytest.mark.parametrize("op", ["xor", "and"])
def test_bits(op: str):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 2, (m, 128)).astype(np.uint8) for m in (16, 8))
    both = a[:, None] ^ b[None] if op == "xor" else a[:, None] & b[None]
    assert (products.multiply_bits(op, a, b, None) == both.sum(-1)).all()


def test_doubles_round_after_each_product():
    a = np.array([[1.0, 2.0**-60]])
    b = np.array([[1.0, 1.0]])
    assert products.multiply_doubles(a, b, np.zeros((1, 1))) == 1.0
    assert products.multiply_doubles(a, b, np.array([[-1.0]])) == 2.0**-60
