"""Vectors that padding moves to addresses they may not have.

Triton's lowering makes loads and stores of up to 16 bytes of what lies together before padding, and
of no more than the smallest interval between paddings (`lowerLocalLdSt`); it does not look at how
wide a padding is. Where that is less than a vector, PTX has an access that is not aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.dialects.layouts.encodings import PaddedSharedEncodingAttr
from xttir.dialects.layouts.to_linear import with_padding
from xttir.interp.tracing.footprints import held_by_threads
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

VECTOR = 16
"""Bytes of an access, at most."""


def check_alignment(a: Agent, op: Operation, ty: TensorType, view: View) -> None:
    """A fault where `op`, which loads or stores a tensor of type `ty`, makes accesses that are not
    aligned."""
    encoding = view.ty.encoding
    if not isinstance(encoding, PaddedSharedEncodingAttr):
        return
    key = ("alignment", ty, view.ty, a.warps, view.shift % VECTOR)
    memo = view.pattern.memo
    if key not in memo:
        memo[key] = _misaligned(a, ty, view)
    width, address = memo[key]
    if address >= 0:
        a.fault(
            op,
            Kind.UNDEFINED,
            f"an access of {width} bytes at {address + view.shift // VECTOR * VECTOR:#x}, which is "
            "not a multiple of that: the padding is smaller than a vector (misaligned)",
        )


def _misaligned(a: Agent, ty: TensorType, view: View) -> tuple[int, int]:
    """(bytes of an access, the first address that is no multiple of that), which leaves out whole
    vectors of the view's shift; -1: there is none."""
    encoding = view.ty.encoding
    assert isinstance(encoding, PaddedSharedEncodingAttr)
    interval = min(number.data for number in encoding.intervals)
    size = view.itemsize
    at = view.pattern.at.reshape(-1)[held_by_threads(a, ty)] // size
    every = with_padding(np.arange(int(at.max()) + 1), encoding)
    before = np.sort(np.searchsorted(every, at), axis=1)
    if (before[:, 1:] == before[:, :-1]).any():
        before = np.stack([np.unique(row) for row in before])
    together = 1
    for count in (2, 4, 8, 16):
        if count * size > VECTOR or count > interval or before.shape[1] % count:
            break
        runs = before.reshape(len(before), -1, count)
        if (runs[:, :, 0] % count).any() or (np.diff(runs, axis=2) != 1).any():
            break
        together = count
    starts = every[before[:, ::together]] * size + view.shift % VECTOR
    bad = starts[starts % (together * size) != 0]
    return together * size, int(bad.min()) if bad.size else -1
