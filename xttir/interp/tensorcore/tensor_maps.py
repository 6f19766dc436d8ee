"""Tensor maps: what a 128-byte map says about a tensor in global memory and its boxes.

The image that the hardware uses is not published, so the one here is our own: a field a place, all
zero to begin with, so that `tensormap.replace` and copies of whole maps work on bytes like on a
card. PTX ISA 9.1, sections 5.5 and 9.7.9.28 (the codes of fields).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache

from xttir.interp.tensorcore.swizzle import MODES

SIZE = 128

ELEMENTS = (
    ("u8", 8),
    ("u16", 16),
    ("u32", 32),
    ("s32", 32),
    ("u64", 64),
    ("s64", 64),
    ("f16", 16),
    ("f32", 32),
    ("f32.ftz", 32),
    ("f64", 64),
    ("bf16", 16),
    ("tf32", 32),
    ("tf32.ftz", 32),
    ("b4x16", 4),
    ("b4x16_p64", 4),
    ("b6x16_p32", 6),
)
"""(name, bits) by the code of `.elemtype`."""

_SWIZZLES = ("none", "32B", "64B", "128B", "96B")
_ATOMS = ("", "atom32B", "atom32B_flip8B", "atom64B")
_INTERLEAVES = ("none", "16B", "32B")
_FILLS = ("zero", "nan")
_MODES = ("tile", "im2col", "im2col_w")

# Offsets of the fields: (where, struct format of one of them).
FIELDS = {
    "global_address": (0, "Q"),
    "global_stride": (8, "Q"),
    "global_dim": (40, "I"),
    "element_stride": (60, "I"),
    "box_dim": (80, "H"),
    "rank": (90, "B"),
    "elemtype": (91, "B"),
    "interleave_layout": (92, "B"),
    "swizzle_mode": (93, "B"),
    "swizzle_atomicity": (94, "B"),
    "fill_mode": (95, "B"),
}
"""What `tensormap.replace` may set; those with an ordinal are followed by the others."""
_IM2COL = (96, "<B3h3hHH")


@dataclass(frozen=True)
class TensorMap:
    """A tensor map. Lists have the innermost dimension first; strides are in bytes, one less."""

    address: int
    element: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    """Tile mode: elements of a box."""
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    """A key of `swizzle.MODES`."""
    interleave: str = "none"
    fill: str = "zero"
    mode: str = "tile"
    lower: tuple[int, ...] = ()
    """im2col: corners of the bounding box, innermost spatial dimension first."""
    upper: tuple[int, ...] = ()
    channels: int = 0
    """im2col: channels of a pixel, and pixels of a column."""
    pixels: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def bits(self) -> int:
        """Bits of an element in global memory."""
        return dict(ELEMENTS)[self.element]


def encode(m: TensorMap) -> bytes:
    """The 128-byte image of a map."""
    image = bytearray(SIZE)

    def put(name: str, *values: int) -> None:
        at, form = FIELDS[name]
        struct.pack_into(f"<{len(values)}{form}", image, at, *values)

    base, _, atom = m.swizzle.partition("_")
    put("global_address", m.address)
    put("global_stride", *m.strides)
    put("global_dim", *m.dims)
    put("element_stride", *m.element_strides)
    put("box_dim", *m.box)
    put("rank", m.rank - 1)
    put("elemtype", [name for name, _ in ELEMENTS].index(m.element))
    put("interleave_layout", _INTERLEAVES.index(m.interleave))
    put("swizzle_mode", _SWIZZLES.index(base))
    put("swizzle_atomicity", _ATOMS.index(atom))
    put("fill_mode", _FILLS.index(m.fill))
    if m.mode != "tile":
        lower, upper = ((*c, 0, 0, 0)[:3] for c in (m.lower, m.upper))
        code = _MODES.index(m.mode)
        struct.pack_into(_IM2COL[1], image, _IM2COL[0], code, *lower, *upper, m.channels, m.pixels)
    return bytes(image)


@lru_cache(1024)
def decode(image: bytes) -> TensorMap:
    """The map of an image; ValueError says what makes it unusable."""

    def get(name: str, count: int) -> tuple[int, ...]:
        at, form = FIELDS[name]
        return struct.unpack_from(f"<{count}{form}", image, at)

    rank = get("rank", 1)[0] + 1
    if rank > 5:
        raise ValueError(f"rank {rank}")
    codes = {
        "elemtype": len(ELEMENTS),
        "interleave_layout": len(_INTERLEAVES),
        "swizzle_mode": len(_SWIZZLES),
        "swizzle_atomicity": len(_ATOMS),
        "fill_mode": len(_FILLS),
    }
    found = {name: get(name, 1)[0] for name in codes}
    for name, count in codes.items():
        if found[name] >= count:
            raise ValueError(f"{name} {found[name]}")
    atom = _ATOMS[found["swizzle_atomicity"]]
    swizzle = _SWIZZLES[found["swizzle_mode"]] + (f"_{atom}" if atom else "")
    if swizzle not in MODES:
        raise ValueError(f"swizzle {swizzle}")
    code, *corners, channels, pixels = struct.unpack_from(_IM2COL[1], image, _IM2COL[0])
    spatial = max(0, rank - 2)
    out = TensorMap(
        address=get("global_address", 1)[0],
        element=ELEMENTS[found["elemtype"]][0],
        dims=get("global_dim", rank),
        strides=get("global_stride", rank - 1),
        box=get("box_dim", rank),
        element_strides=get("element_stride", rank),
        swizzle=swizzle,
        interleave=_INTERLEAVES[found["interleave_layout"]],
        fill=_FILLS[found["fill_mode"]],
    )
    if code:
        out = replace(
            out,
            mode=_MODES[code],
            lower=tuple(corners[:spatial]),
            upper=tuple(corners[3 : 3 + spatial]),
            channels=channels,
            pixels=pixels,
        )
    problem = invalid(out)
    if problem:
        raise ValueError(problem)
    return out


def invalid(m: TensorMap) -> str:
    """Why the map cannot be used, or ""."""
    if m.address % 16:
        return f"global address {m.address:#x} is not a multiple of 16"
    if not all(1 <= d <= 1 << 32 for d in m.dims):
        return f"dimensions {m.dims}"
    if any(s % 16 or s >= 1 << 40 for s in m.strides):
        return f"strides {m.strides}: not multiples of 16 bytes below 2^40"
    if m.mode != "tile":
        inner = m.channels * m.bits // 8
        if not 3 <= m.rank <= 5 or not m.channels or not m.pixels:
            return f"im2col map of rank {m.rank}, {m.channels} channels, {m.pixels} pixels"
    else:
        inner = m.box[0] * m.bits // 8
        if not all(1 <= b <= 256 for b in m.box):
            return f"box {m.box}: extents are 1 to 256"
    if not all(1 <= s <= 8 for s in m.element_strides):
        return f"element strides {m.element_strides}: they are 1 to 8"
    if m.interleave == "none" and inner * 8 % 128:
        return f"rows of a box have {inner} bytes, not a multiple of 16"
    span = MODES[m.swizzle].span
    if span and inner > span:
        return f"rows of a box have {inner} bytes, swizzle {m.swizzle} allows {span}"
    return ""


def field_place(name: str, ordinal: int) -> tuple[int, int]:
    """(offset, size) in the image of a field that `tensormap.replace` sets."""
    at, form = FIELDS[name]
    size = struct.calcsize(form)
    return at + ordinal * size, size
