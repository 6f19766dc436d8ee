"""Boxes of tensor maps against plain loops, and the images of maps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xttir.interp.tensorcore import boxes, tensor_maps
from xttir.interp.tensorcore.reductions import reduce
from xttir.interp.tensorcore.swizzle import MODES, swizzle
from xttir.interp.tensorcore.tensor_maps import TensorMap


def make(dims: tuple[int, ...], box: tuple[int, ...], **more: Any) -> TensorMap:
    """A dense bf16 tensor at 0x10000, rows padded to 16 bytes."""
    strides = []
    row = -(-dims[0] * 2 // 16) * 16
    for d in dims[1:]:
        strides.append(row)
        row *= d
    return TensorMap(0x10000, "bf16", dims, tuple(strides), box, (1,) * len(dims), **more)


def addresses(m: TensorMap, origin: tuple[int, ...]) -> list[int]:
    """Global address of every element of a box, innermost first; -1 out of bounds."""
    out = []
    extents = [
        m.box[0],
        *(-(-b // s) for b, s in zip(m.box[1:], m.element_strides[1:], strict=True)),
    ]
    for place in itertools.product(*(range(e) for e in reversed(extents))):
        steps = [1, *m.element_strides[1:]]
        index = [o + p * s for o, p, s in zip(origin, reversed(place), steps, strict=True)]
        inside = all(0 <= i < d for i, d in zip(index, m.dims, strict=True))
        at = (
            m.address + 2 * index[0] + sum(i * s for i, s in zip(index[1:], m.strides, strict=True))
        )
        out.append(at if inside else -1)
    return out


CASES = [
    (make((100, 20), (64, 8)), (0, 0)),
    (make((100, 20), (64, 8)), (64, 16)),
    (make((100, 20), (64, 8)), (-8, -3)),
    (make((100, 20), (64, 8)), (1000, 1000)),
    (make((64,), (64,)), (16,)),
    (make((32, 6, 5), (32, 3, 2)), (0, 4, 3)),
    (replace(make((64, 20), (64, 7)), element_strides=(1, 2)), (0, 3)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_elements_of_a_box(case: int):
    m, origin = CASES[case]
    box = boxes.box(m, np.array([origin]))
    want = np.array(addresses(m, origin)).reshape(box.rows, -1)
    for r in range(box.rows):
        inside = want[r] >= 0
        assert (box.starts[0, r] >= 0) == inside.any()
        if inside.any():
            first = int(np.argmax(inside))
            assert box.starts[0, r] == want[r, first]
            assert box.skipped[0] == 2 * first
            assert box.valid[0] == 2 * inside.sum()
    assert boxes.counted_bytes(m) == want.size * 2


FITS = [(m, n) for m in MODES for n in (16, 32, 64, 128) if n <= (MODES[m].span or 128)]


@pytest.mark.parametrize(("mode", "inner"), FITS)
@pytest.mark.parametrize("start", [0, 128, 640, 1920])
def test_where_a_box_lies_in_shared_memory(mode: str, start: int, inner: int):
    span = MODES[mode].span
    m = make((64, 16), (inner // 2, 8), swizzle=mode)
    shape = boxes.shape(m)
    pitch = max(inner, span)
    want = [
        [int(swizzle(np.array(start + r * pitch + b), mode)) for b in range(inner)]
        for r in range(8)
    ]
    size = boxes.cell_bytes(shape)
    cells = boxes.cells(shape, start)
    got = (cells[..., None] + np.arange(size)).reshape(8, inner)
    assert (got == np.array(want)).all()
    starts, length = boxes.covered(shape, start)
    covered = np.sort((starts[:, None] + np.arange(length)).reshape(-1))
    assert (covered == np.sort(np.array(want).reshape(-1))).all()


def test_a_full_box_is_one_piece():
    shape = boxes.shape(make((64, 128), (64, 128), swizzle="128B"))
    starts, size = boxes.covered(shape, 1024)
    assert (starts.tolist(), size) == ([1024], 128 * 128)


def test_gather_and_scatter():
    m = make((64, 20), (64, 1))
    box = boxes.box(m, np.array([[8, 3, 19, -1, 20]]), "gather4")
    row = 0x10000 + 16
    assert box.starts.tolist() == [[row + 3 * 128, row + 19 * 128, -1, -1]]
    assert boxes.counted_bytes(m, "gather4") == 4 * 128


def test_im2col_walks_pixels_of_the_bounding_box():
    """A 3x3 filter with padding 1 over images of 4 x 4 pixels with 8 channels, tap (2, 0)."""
    m = TensorMap(
        0,
        "bf16",
        (8, 4, 4, 2),
        (16, 64, 256),
        (1, 1, 1, 1),
        (1, 1, 1, 1),
        mode="im2col",
        lower=(-1, -1),
        upper=(-1, -1),
        channels=8,
        pixels=20,
    )
    box = boxes.box(m, np.array([[0, -1, -1, 0]]), offsets=np.array([[2, 0]]))
    want = []
    for n, y, x in itertools.product(range(2), range(-1, 3), range(-1, 3)):
        px, py = x + 2, y
        inside = 0 <= px < 4 and 0 <= py < 4
        want.append(px * 16 + py * 64 + n * 256 if inside else -1)
    assert box.starts[0].tolist() == want[:20]


def test_alignment():
    m = make((64, 8), (64, 8))
    assert boxes.unaligned(m, np.array([[8, 0], [4, 0], [-8, 0]])).tolist() == [False, True, False]


# Images -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(len(CASES)))
def test_images_round_trip(case: int):
    m = replace(CASES[case][0], swizzle="128B", fill="nan")
    image = tensor_maps.encode(m)
    assert len(image) == 128
    assert tensor_maps.decode(image) == m


def test_fields_of_an_image():
    image = bytearray(tensor_maps.encode(make((100, 20), (64, 8))))
    at, size = tensor_maps.field_place("global_dim", 1)
    image[at : at + size] = (33).to_bytes(size, "little")
    assert tensor_maps.decode(bytes(image)).dims == (100, 33)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"box": (300, 8)}, "extents are 1 to 256"),
        ({"box": (128, 8), "swizzle": "128B"}, "swizzle 128B allows 128"),
        ({"box": (9, 8)}, "not a multiple of 16"),
        ({"address": 8}, "global address"),
        ({"strides": (24,)}, "multiples of 16"),
        ({"element_strides": (1, 9)}, "1 to 8"),
    ],
)
def test_maps_that_no_card_takes(change: dict[str, Any], problem: str):
    m = replace(make((100, 20), (64, 8)), **change)
    with pytest.raises(ValueError, match=problem):
        tensor_maps.decode(tensor_maps.encode(m))


# Reductions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "dtype", "old", "operand", "new"),
    [
        ("add", np.uint32, 2**32 - 1, 2, 1),
        ("add", np.float16, 1.0, 0.5, 1.5),
        ("add", ml_dtypes.bfloat16, 256.0, 1.0, 256.0),
        ("min", np.int32, -3, 2, -3),
        ("max", np.float32, np.nan, 2.0, 2.0),
        ("inc", np.uint32, 5, 5, 0),
        ("dec", np.uint32, 0, 7, 7),
        ("xor", np.uint64, 6, 3, 5),
    ],
)
def test_reductions(op: str, dtype: Any, old: float, operand: float, new: float):
    names = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int32": "s32"}
    name = np.dtype(dtype).name
    type_ = names.get(name, "u" + name.removeprefix("uint"))
    a, b = (np.array([[x]], dtype).view(np.uint8) for x in (old, operand))
    assert reduce(op, type_, a, b).view(dtype).tolist() == [[new]]
