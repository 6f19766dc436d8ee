"""The instruction table against results recorded on a GPU.

`data/ptx_scalar_h200.npz`: 787 pieces of PTX run on an NVIDIA H200 (driver 580), 64 lanes each.
`pools` uint64[pool, lane] are operands by the names in `names`; `texts`, `constraints` and
`operands` (pool names) say what ran, `results` uint64[piece, lane] what came out.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from xttir.interp.inline_ptx import apply, parse

DATA = Path(__file__).parent / "data" / "ptx_scalar_h200.npz"

TYPES = {
    "h": (np.uint16, np.int16),
    "r": (np.uint32, np.int32),
    "l": (np.uint64, np.int64),
    "f": (np.uint32, np.float32),
    "d": (np.uint64, np.float64),
}


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return {name: data[name] for name in data.files}


def case(n: int) -> tuple[str, np.ndarray, np.ndarray, str]:
    """(text, our bits, recorded bits, code of the result's constraint) of piece `n`."""
    data = recorded()
    pools = dict(zip(data["names"].tolist(), data["pools"], strict=True))
    text, constraints = str(data["texts"][n]), str(data["constraints"][n])
    codes = [c.strip().lstrip("=") for c in constraints.split(",")]
    operands = str(data["operands"][n]).split()
    args = [
        pools[name].astype(TYPES[c][0]).view(TYPES[c][1])[np.newaxis]
        for name, c in zip(operands, codes[1:], strict=True)
    ]
    raw, typed = TYPES[codes[0]]
    lanes = data["pools"].shape[1]
    (got,) = apply(parse(text, constraints), args, [np.dtype(typed)], (lanes,), 1, _no_special)
    ours = np.ascontiguousarray(np.broadcast_to(got, (1, lanes))[0]).view(raw)
    return text, ours, data["results"][n].astype(raw), codes[0]


def _no_special(name: str) -> np.ndarray:
    raise AssertionError(name)


def float_type(text: str, code: str) -> tuple[np.dtype, int, int] | None:
    """(integer view, exponent mask, sign mask) of the floats in a result; None for integers."""
    if code == "d":
        return np.dtype(np.uint64), 0x7FF << 52, 1 << 63
    if code == "f":
        return np.dtype(np.uint32), 0xFF << 23, 1 << 31
    if "setp" in text or "set." in text or "testp" in text:
        return None
    found = re.search(r"\.(bf16|f16)(x2)?\b", text)
    if found is None or re.match(r"cvt\.\w+(\.\w+)*\.[su]\d+\.f16 ", text):
        return None
    return np.dtype(np.uint16), (0xFF << 7 if found[1] == "bf16" else 0x1F << 10), 1 << 15


def agree(text: str, ours: np.ndarray, theirs: np.ndarray, code: str) -> np.ndarray:
    """Lanes with the same bits; where the result is a float, any NaN equals any NaN."""
    same = ours == theirs
    kind = float_type(text, code)
    if kind is None:
        return same
    view, exponent, sign = kind
    a, b = (v.view(view).reshape(len(v), -1) for v in (ours, theirs))
    nan_a, nan_b = (
        (v & view.type(~sign & (1 << 8 * view.itemsize) - 1)) > exponent for v in (a, b)
    )
    return ((a == b) | (nan_a & nan_b)).all(axis=1)


EXACT = [
    n
    for n, text in enumerate(recorded()["texts"].tolist())
    if ".approx" not in text and ".full" not in text
]
APPROXIMATE = sorted(set(range(len(recorded()["texts"]))) - set(EXACT))

# Errors of the GPU's own approximations, relative; what the ISA allows is in its tables.
BOUNDS = {
    "ex2": 2.0**-22, "rcp": 2.0**-22, "sqrt": 2.0**-22, "rsqrt": 2.0**-22, "div": 2.0**-21,
    "tanh": 2.0**-10,
}  # fmt: skip


@pytest.mark.parametrize("part", range(8))
def test_exact_instructions_agree_bit_for_bit(part: int):
    wrong = {}
    for n in EXACT[part::8]:
        text, ours, theirs, code = case(n)
        lanes = np.flatnonzero(~agree(text, ours, theirs, code))
        if lanes.size:
            k = lanes[0]
            wrong[text] = (int(k), hex(int(ours[k])), hex(int(theirs[k])))
    assert not wrong


def test_approximate_instructions_agree_to_their_accuracy():
    checked = 0
    for n in APPROXIMATE:
        text, ours, theirs, code = case(n)
        name = text.split(".")[0]
        if code != "f" or name not in BOUNDS:
            continue
        a, b = ours.view(np.float32).astype(np.float64), theirs.view(np.float32).astype(np.float64)
        usual = np.isfinite(a) & np.isfinite(b) & (np.abs(a) < 2.0**100)
        assert (np.abs(a - b)[usual] <= BOUNDS[name] * np.abs(a)[usual] + 2.0**-126).all(), text
        checked += 1
    assert checked >= 20
