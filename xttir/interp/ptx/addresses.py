"""Conversions between address spaces: cvta, isspacep, mapa, getctarank. PTX ISA 9.1, 9.7.9.20 to
9.7.9.24. Windows of generic addresses are constants of the model."""

from __future__ import annotations

import numpy as np

from xttir.diagnostics import Kind
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.geometry import SHARED_BITS
from xttir.interp.ptx.instruction import UNKNOWN, Symbol, meaning
from xttir.interp.ptx.regions import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_SIZE,
)
from xttir.interp.ptx.spread import Spread
from xttir.interp.ptx.values import Partial

_BASES = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def _space(modifiers: tuple[str, ...]) -> str:
    for m in modifiers:
        base = m.partition("::")[0]
        if base in ("global", "shared", "local", "param", "const"):
            return base
    return ""


@meaning("cvta")
def cvta(step: ActualStep) -> None:
    """Global, constant and parameter addresses are generic ones already."""
    ins = step.ins
    source = ins.src[0]
    wide = "u64" in ins.modifiers
    known = step.spread(source)
    if known is not None:
        base = _BASES.get(_space(ins.modifiers), 0)
        moved = known.known + (-base if ins.has("to") else base)
        step.put(ins.dst[0], Spread(moved, known.low, known.high, known.step, known.datum))
        return
    value = step.raw(source, "u64" if wide else "u32")
    space = _space(ins.modifiers)
    base = _BASES.get(space, 0)
    if space == "param" and value.__class__ is np.ndarray:
        # The address of a parameter may have been kept in 32 bits.
        low = value.astype(np.uint64)
        value = np.where(low < PARAM_WINDOW, low + np.uint64(PARAM_WINDOW), low)
    elif base and value is not UNKNOWN:
        offset = np.uint64(base)
        data = value.data if isinstance(value, Partial) else value
        data = data.astype(np.uint64)
        data = data - offset if ins.has("to") else data + offset
        value = Partial(data, value.known) if isinstance(value, Partial) else data
    step.put(ins.dst[0], value)


@meaning("isspacep")
def isspacep(step: ActualStep) -> None:
    value = step.get(step.ins.src[0], "b64")
    if value is UNKNOWN:
        step.put(step.ins.dst[0], UNKNOWN)
        return
    address = value.astype(np.int64)
    space = _space(step.ins.modifiers)
    if space in ("global", "const"):
        result = address >= GLOBAL_BASE
    else:
        base = {**_BASES, "param": PARAM_WINDOW}[space]
        result = (address >= base) & (address < base + WINDOW_SIZE)
    if step.ins.has("shared::cta") and step.ctas_per_cluster > 1:
        rank = (address & 0xFFFFFFFF) >> SHARED_BITS
        result = result & (rank == step.cta % step.ctas_per_cluster)
    step.put(step.ins.dst[0], result)


@meaning("mapa")
def mapa(step: ActualStep) -> None:
    ins = step.ins
    source = ins.src[0]
    type_ = "u64" if ins.has("u64") else "u32"
    value = step.raw(source, type_)
    if value.__class__ is not np.ndarray:
        step.put(ins.dst[0], UNKNOWN)
        return
    rank = step.integers(ins.src[1])
    if (rank >= step.ctas_per_cluster).any():
        step.fault(
            Kind.UNDEFINED,
            f"mapa to block {int(rank.max())} of a cluster of {step.ctas_per_cluster}",
        )
        rank = rank % step.ctas_per_cluster
    address = value.astype(np.int64)
    low = address & ((1 << SHARED_BITS) - 1)
    high = address & ~np.int64(0xFFFFFFFF)
    if not ins.has("shared::cluster") and isinstance(source, Symbol):
        high = np.int64(SHARED_WINDOW)
    out = high | low | (rank << SHARED_BITS)
    step.put(ins.dst[0], out.view(np.uint64) if type_ == "u64" else out.astype(np.uint32))


@meaning("getctarank")
def getctarank(step: ActualStep) -> None:
    value = step.get(step.ins.src[0], "u64" if step.ins.has("u64") else "u32")
    if value is UNKNOWN:
        step.put(step.ins.dst[0], UNKNOWN)
        return
    address = value.astype(np.int64) & 0xFFFFFFFF
    step.put(step.ins.dst[0], (address >> SHARED_BITS).astype(np.uint32))
