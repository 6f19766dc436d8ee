"""Layouts of tensor memory: (row, col, block) -> element.

Rows are the 128 lanes of tensor memory; columns count elements (for scales, bytes) where
`colStride` is 1. A basis of zero at the row 32 or 64 means that the element is there again, at any
other place that nothing is there. The rules are those of
`lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp`; the places are those of the PTX ISA,
sections "Data path layout" and "Scale factors" of tcgen05.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr

from xttir.dialects.layouts.encodings import (
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout
from xttir.dialects.layouts.parameters import cga_of, shape_per_block


def _identity(size: int, source: str, dim: int) -> LinearLayout:
    return LinearLayout.identity(size, source, f"dim{dim}")


def accumulator(encoding: TensorMemoryEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Blocks of blockM x blockN, along M first; blocks of 64 rows use half of the 128 lanes."""
    cga = cga_of(encoding)
    part = shape_per_block(cga, shape)
    rows = encoding.number("blockM")
    columns = min(encoding.number("blockN"), part[1])
    pair = bool(encoding.number("twoCTAs", 0))
    if rows not in (64, 128):
        raise LayoutError(f"tensor memory has blocks of 64 or 128 rows, not of {rows}")
    tile = LinearLayout.zeros(encoding.number("colStride"), "col", "dim1")
    across = LinearLayout.empty()
    if encoding.number("fp4Padded", 0):
        across = LinearLayout.zeros(2, "col", "dim1")
    across = across * _identity(columns, "col", 1)
    if rows == 64 and not pair:
        tile = tile * (_identity(16, "row", 0) * across)
        if part[0] > rows:
            lower = (64, 0)
        elif part[1] > columns:
            lower = (0, columns)
        else:
            lower = (0, 0)
        bases = {name: list(many) for name, many in tile.ins}
        bases["row"] += [lower, (16, 0), (32, 0)]
        tile = LinearLayout.of(bases, ("dim0", "dim1"))
    else:
        tile = tile * (_identity(rows, "row", 0) * across)
        if rows == 64:
            bases = {name: list(many) for name, many in tile.ins}
            if not bases["col"]:
                raise LayoutError("a pair of blocks of 64 rows needs two columns or more")
            bases["row"].append(bases["col"].pop())
            tile = LinearLayout.of(bases, dict(zip(tile.out_names, tile.out_shape, strict=True)))
    repeated = [size // have for size, have in zip(part, tile.out_shape, strict=True)]
    if 0 in repeated:
        raise LayoutError(f"{tuple(part)} elements are less than a block of {tile.out_shape}")
    return tile * _identity(repeated[0], "col", 0) * _identity(repeated[1], "col", 1) * cga


def scales(encoding: TensorMemoryScalesEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Chunks of 32 x 4 bytes, in all four quarters of the lanes alike."""
    cga = cga_of(encoding)
    part = shape_per_block(cga, shape)
    tile = (
        _identity(32, "row", 0)
        * LinearLayout.zeros(4, "row", "dim0")
        * _identity(4, "col", 1)
        * _identity(2, "col", 0)
    )
    along_mn, along_k = (-(-size // have) for size, have in zip(part, tile.out_shape, strict=True))
    if along_mn > 1:
        tile = tile * _identity(2, "col", 0)
        along_mn //= 2
    order = encoding.get("blockRepOrder")
    if isinstance(order, StringAttr) and order.data == "kThenMn":
        tile = tile * _identity(along_k, "col", 1) * _identity(along_mn, "col", 0)
    else:
        tile = tile * _identity(along_mn, "col", 0) * _identity(along_k, "col", 1)
    tile = tile * _identity(1, "block", 0)
    return tile.clip({"dim0": part[0], "dim1": part[1]}) * cga
