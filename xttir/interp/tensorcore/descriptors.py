"""Matrix descriptors in shared memory and instruction descriptors, decoded exactly.

A matrix descriptor names a tile of 16-byte chunks: eight rows make a group, the two strides lead to
the next group and the next chunk, and the swizzle acts on the absolute address. PTX ISA 9.1,
sections 9.7.15.5.1 (wgmma) and 9.7.16.4 (tcgen05); 173 layouts checked on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from xttir.interp.tensorcore.pieces import Pieces, join
from xttir.interp.tensorcore.swizzle import swizzle

_SM90 = {0: "none", 1: "128B", 2: "64B", 3: "32B"}
_SM100 = {0: "none", 1: "128B_atom32B", 2: "128B", 4: "64B", 6: "32B"}
_WIDTH = {"none": 1, "32B": 2, "64B": 4, "128B": 8, "128B_atom32B": 8}
"""16-byte chunks in a row of a swizzle mode."""


@dataclass(frozen=True)
class Matrix:
    """A decoded descriptor: `start`, `leading`, `stride` in bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    mode: str


@lru_cache(1 << 14)
def matrix(value: int, arch: int) -> Matrix:
    """Decode a 64-bit matrix descriptor for wgmma (`arch` < 100) or tcgen05.

    ValueError says what is wrong with it.
    """
    start, leading, stride = ((value >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    base_offset = value >> 49 & 7
    if arch < 100:
        return Matrix(start, leading, stride, base_offset, _SM90[value >> 62])
    constant = value >> 46 & 7
    if constant != 1:
        raise ValueError(f"bits 46-48 of the matrix descriptor are {constant:#05b}, not 0b001")
    mode = _SM100.get(value >> 61)
    if mode is None:
        raise ValueError(f"layout {value >> 61} (bits 61-63) of the matrix descriptor is none")
    if value >> 52 & 1:
        raise NotImplementedError("matrix descriptors with an absolute leading address")
    if value >> 53 & 0xFF:
        raise ValueError(f"bits 53-60 of the matrix descriptor are {value >> 53 & 0xFF:#x}, not 0")
    return Matrix(start, leading, stride, base_offset, mode)


@lru_cache(4096)
def chunks(d: Matrix, mn_major: bool, bits: int, mn: int, k: int) -> np.ndarray:
    """Addresses of the 16-byte chunks of a tile of `mn` times `k` elements of `bits` bits.

    int64 (mn, k * bits / 128), or with `mn_major` (k, ceil(mn * bits / 128)). Read-only.
    """
    per_chunk = 128 // bits
    width = _WIDTH[d.mode]
    if not mn_major:
        row = np.arange(mn, dtype=np.int64)[:, None]
        chunk = np.arange(k // per_chunk, dtype=np.int64)[None]
        step = d.leading if d.mode == "none" else 16  # the leading stride is not used in an atom
        offset = row % 8 * 16 * width + row // 8 * d.stride + chunk * step
    else:
        row = np.arange(k, dtype=np.int64)[:, None]
        chunk = np.arange(-(-mn // per_chunk), dtype=np.int64)[None]
        group = 4 if d.mode == "128B_atom32B" else 8
        inner, outer = row % group * 16 * width, row // group
        if d.mode == "none":
            offset = inner + outer * d.leading + chunk * d.stride
        else:
            offset = inner + outer * d.stride + chunk % width * 16 + chunk // width * d.leading
    out = swizzle(d.start + offset, d.mode, d.base_offset)
    out.setflags(write=False)
    return out


@lru_cache(4096)
def touched(d: Matrix, mn_major: bool, bits: int, mn: int, k: int) -> Pieces:
    """The bytes of a tile as long pieces. Read-only."""
    where = chunks(d, mn_major, bits, mn, k)
    rest = mn * bits // 8 % 16 if mn_major else 0
    if rest:  # the last chunk of every row is not used whole
        halves = where[..., None] + np.arange(0, 16, rest)
        where = halves.reshape(len(where), -1)[:, : mn * bits // 8 // rest]
    starts, size = join(where, rest or 16)
    starts.setflags(write=False)
    return starts, size


def unpack(data: np.ndarray, mn_major: bool, bits: int, packed: int, mn: int) -> np.ndarray:
    """Element codes (.., mn, k) of the bytes of `chunks`, uint8 (.., rows, chunks, 16).

    `bits` is what an element takes in memory (32, 16, 8, or 4 for dense pairs); `packed` is its
    width where 16 of them lie in front of a chunk's padding (6 or 4), else 0.
    """
    *batch, rows, count, _ = data.shape
    if packed:
        codes = narrow_elements(data, packed)
    elif bits == 4:
        codes = np.stack([data & 15, data >> 4], axis=-1)
    else:
        codes = np.ascontiguousarray(data).view(np.dtype(f"<u{bits // 8}"))
    codes = codes.reshape(*batch, rows, count * (128 // bits))
    return codes.swapaxes(-1, -2)[..., :mn, :] if mn_major else codes


def narrow_elements(data: np.ndarray, bits: int) -> np.ndarray:
    """uint8 (.., 16): codes of 16 elements of 6 or 4 bits that lie together in a chunk."""
    flat = np.unpackbits(data[..., : 2 * bits], axis=-1, bitorder="little")
    return np.packbits(flat.reshape(*data.shape[:-1], 16, bits), axis=-1, bitorder="little")[..., 0]


# Instruction descriptors of tcgen05.mma -----------------------------------------------------------

_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
}
_RESULTS = {0: "f16", 1: "f32", 2: "s32"}
_KIND_RESULTS = {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}
SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")


@dataclass(frozen=True)
class Instruction:
    """A decoded instruction descriptor: the tile M x N, element types, and how they are read."""

    m: int
    n: int
    a: str
    b: str
    d: str
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    scale_type: str = ""
    """ue8m0 or ue4m3 for block-scaled kinds."""
    scale_a: int = 0
    scale_b: int = 0
    """First byte of the 32-bit words of scale factors that is used."""
    k96: bool = False
    max_shift: int = 0


@lru_cache(1024)
def instruction(value: int, kind: str) -> Instruction:
    """Decode the 32-bit instruction descriptor of `tcgen05.mma.kind::KIND`.

    ValueError says what is wrong with it.
    """
    n = (value >> 17 & 63) * 8
    common: dict[str, Any] = {
        "negate_a": bool(value >> 13 & 1),
        "negate_b": bool(value >> 14 & 1),
        "transpose_a": bool(value >> 15 & 1),
        "transpose_b": bool(value >> 16 & 1),
        "sparse": bool(value >> 2 & 1),
    }
    code_a, code_b = value >> 7 & 7, value >> 10 & 7
    if kind in SCALED:
        m = (value >> 27 & 3) * 128
        if kind == "mxf8f6f4":
            types = _TYPES["f8f6f4"]
            a, b = _type(types, code_a, "A"), _type(types, code_b, "B")
        else:
            if code_a != 1 or code_b & 3 != 1:
                raise ValueError("the instruction descriptor does not say e2m1 for A and B")
            a = b = "e2m1"
        ue8m0 = bool(value >> 23 & 1)
        if not ue8m0 and kind != "mxf4nvf4":
            raise ValueError("scale factors of this kind are ue8m0, the descriptor says ue4m3")
        return Instruction(
            m=m,
            n=n,
            a=a,
            b=b,
            d="f32",
            scale_type="ue8m0" if ue8m0 else "ue4m3",
            scale_a=value >> 29 & 3,
            scale_b=value >> 4 & 3,
            k96=bool(value >> 31 & 1),
            **common,
        )
    types = _TYPES[kind]
    d = _type(_RESULTS, value >> 4 & 3, "D")
    if d not in _KIND_RESULTS[kind]:
        raise ValueError(f"kind::{kind} has no {d} result, as the instruction descriptor says")
    return Instruction(
        m=(value >> 24 & 31) * 16,
        n=n,
        a=_type(types, code_a, "A"),
        b=_type(types, code_b, "B"),
        d=d,
        saturate=bool(value >> 3 & 1),
        max_shift=value >> 30 & 3,
        **common,
    )


def _type(table: dict[int, str], code: int, which: str) -> str:
    if code not in table:
        raise ValueError(f"type {code} of {which} in the instruction descriptor is none here")
    return table[code]


def shape_fault(i: Instruction, kind: str, cta_group: int, ws: bool) -> str:
    """What is wrong with M and N of a tile, or ""."""
    if ws:
        ok = i.m in (32, 64, 128) and i.n in (64, 128, 256)
    elif cta_group == 1:
        ok = i.m == 128 if kind in SCALED else i.m in (64, 128)
        step = 16 if i.m == 128 and kind not in ("i8",) else 8
        if kind == "i8":
            ok = ok and (i.n in (8, 24) or i.n % 16 == 0)
            step = 8
        if kind in SCALED:
            step = 8
        ok = ok and 8 <= i.n <= 256 and i.n % step == 0
    else:
        ok = i.m in (128, 256)
        step = 32 if kind == "i8" else 16
        ok = ok and step <= i.n <= 256 and i.n % step == 0
    if ok:
        return ""
    form = ".ws" if ws else ""
    return f"no tile of {i.m} x {i.n} in tcgen05.mma{form}.cta_group::{cta_group}.kind::{kind}"
