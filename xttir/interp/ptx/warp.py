"""Exchange between the lanes of a warp: shfl, vote, match, redux, elect. PTX ISA 9.1, 9.7.9.6 and
9.7.13.6 to 9.7.13.12. Lanes come together before (see `converge`); no memory order follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Together
from xttir.diagnostics import Kind
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import UNKNOWN, Imm, Reg, Sink, meaning
from xttir.interp.ptx.values import Partial, partial


class Warps:
    """The warps of a step: `slot` (n,) numbers them, `lane` (n,) is the lane in each, `at` (warps,
    32) the row of a lane, -1 where it is not here."""

    def __init__(self, step: ActualStep):
        self.n = step.n
        self.lane = step.tid & 31
        per_cta = -(-step.threads_per_cta // 32)
        warp = step.cta.astype(np.int64) * per_cta + (step.tid >> 5)
        starts = np.concatenate([[True], warp[1:] != warp[:-1]])
        self.slot = np.cumsum(starts) - 1
        self.count = int(self.slot[-1]) + 1
        self.at = np.full((self.count, 32), -1, np.int64)
        self.at[self.slot, self.lane] = np.arange(self.n)

    def ballot(self, flags: np.ndarray) -> np.ndarray:
        """uint32 (n,) or (1,): bit k says what lane k has."""
        bits = np.zeros(self.count, np.uint32)
        flags = np.broadcast_to(flags, (self.n,))
        np.bitwise_or.at(bits, self.slot[flags], np.uint32(1) << self.lane[flags].astype(np.uint32))
        return bits[self.slot] if self.count > 1 else bits

    def each(self, values: np.ndarray) -> np.ndarray:
        """Per-warp values (warps,) for every lane; size 1 when there is one warp."""
        return values[self.slot] if self.count > 1 else values


def _mask(step: ActualStep, warps: Warps, at: int) -> np.ndarray:
    """The member mask (n,) or (1,) uint32; its lanes must be here, and name themselves."""
    mask = step.integers(step.ins.src[at]).astype(np.uint32)
    step.emit(Together(step.ins.index, step.lanes, mask))
    if mask.size == 1 and int(mask[0]) == 0xFFFFFFFF:
        return mask
    own = (mask >> warps.lane.astype(np.uint32)) & np.uint32(1)
    if not own.all():
        step.fault(
            Kind.UNDEFINED,
            f"{step.ins.name} of a lane that its mask does not name",
            step.lanes[np.broadcast_to(own == 0, (step.n,))],
        )
    return mask


# Shuffles -----------------------------------------------------------------------------------------


@meaning("shfl")
def shfl(step: ActualStep) -> None:
    ins = step.ins
    value, b, c = ins.src[0], step.integers(ins.src[1]), step.integers(ins.src[2])
    raw = step.raw(value)
    warps = Warps(step)
    if len(ins.src) > 3:
        _mask(step, warps, 3)
    source, inside = _shuffle_source(ins.modifiers, warps.lane.astype(np.int64), b, c)
    source, inside = np.broadcast_to(source, (step.n,)), np.broadcast_to(inside, (step.n,))
    row = warps.at[warps.slot, source]
    absent = row < 0
    if absent.any():
        if raw is not UNKNOWN and not (isinstance(value, Imm)):
            step.fault(
                Kind.UNDEFINED, "shfl from a lane that does not take part", step.lanes[absent]
            )
        row = np.where(absent, np.arange(step.n), row)
    numbers = step.fingerprints(value)
    if numbers is not None and not absent.any():
        step.named.append((ins.dst[0], numbers[row, 0]))
    step.put(ins.dst[0], _exchanged(raw, row, warps))
    if len(ins.dst) > 1:
        flag = inside
        step.put(ins.dst[1], flag[:1] if flag.all() or not flag.any() else flag)


def _exchanged(raw: Any, row: np.ndarray, warps: Warps) -> Any:
    if raw is UNKNOWN:
        return UNKNOWN
    if isinstance(raw, Partial):
        data = raw.data if raw.data.shape[0] == 1 else raw.data[row]
        return partial(data, raw.known[row])
    if raw.shape[0] == 1:
        return raw
    out = raw[row]
    return out[:1] if warps.count == 1 and (out == out[0]).all() else out


def _shuffle_source(
    modifiers: tuple[str, ...], lane: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(source lane, whether it is in the segment); outside it the lane keeps its own value."""
    clamp, segment = c & 31, (c >> 8) & 31
    b = b & 31
    highest = (lane & segment) | (clamp & ~segment)
    lowest = lane & segment
    if "up" in modifiers:
        source = lane - b
        inside = source >= highest
    elif "down" in modifiers:
        source = lane + b
        inside = source <= highest
    elif "bfly" in modifiers:
        source = lane ^ b
        inside = source <= highest
    else:
        source = lowest | (b & ~segment)
        inside = source <= highest
    return np.where(inside, source, lane), inside


# Votes --------------------------------------------------------------------------------------------


@meaning("vote")
def vote(step: ActualStep) -> None:
    ins = step.ins
    warps = Warps(step)
    flags = step.raw(ins.src[0], "pred")
    if len(ins.src) > 1:
        _mask(step, warps, 1)
    if flags.__class__ is not np.ndarray:
        step.put(ins.dst[0], _partial_vote(step, warps, flags))
        return
    flags = np.broadcast_to(flags, (step.n,))
    if ins.has("ballot"):
        step.put(ins.dst[0], warps.ballot(flags))
        return
    true = np.bincount(warps.slot[flags], minlength=warps.count)
    total = np.bincount(warps.slot, minlength=warps.count)
    if ins.has("all"):
        result = true == total
    elif ins.has("any"):
        result = true > 0
    else:
        result = (true == total) | (true == 0)
    step.put(ins.dst[0], warps.each(result))


def _partial_vote(step: ActualStep, warps: Warps, flags: Any) -> Any:
    """A vote of which some flags are unknown: known where the known ones decide."""
    if not isinstance(flags, Partial) or step.ins.has("ballot") or step.ins.has("uni"):
        return UNKNOWN
    wanted = step.ins.has("any")
    decisive = flags.known & (np.broadcast_to(flags.data, (step.n,)) == wanted)
    decided = np.bincount(warps.slot[decisive], minlength=warps.count) > 0
    return partial(np.full(step.n, wanted), decided[warps.slot])


@meaning("elect")
def elect(step: ActualStep) -> None:
    """The lowest lane of the mask, as an H200 does."""
    ins = step.ins
    warps = Warps(step)
    mask = _mask(step, warps, 0)
    mask = np.broadcast_to(mask, (step.n,)).astype(np.int64)
    present = warps.ballot(np.ones(step.n, bool)).astype(np.int64)
    named = mask & present
    leader = np.log2((named & -named).astype(np.float64)).astype(np.int64)
    if not isinstance(ins.dst[0], Sink):
        step.put(ins.dst[0], (leader[:1] if warps.count == 1 else leader).astype(np.uint32))
    if len(ins.dst) > 1:
        step.put(ins.dst[1], warps.lane == leader)


@meaning("match")
def match(step: ActualStep) -> None:
    ins = step.ins
    warps = Warps(step)
    value = step.get(ins.src[0], ins.modifiers[-1])
    _mask(step, warps, 1)
    if value is UNKNOWN:
        for target in ins.dst:
            step.put(target, UNKNOWN)
        return
    value = np.broadcast_to(value, (step.n,))
    _, number = np.unique(value, return_inverse=True)
    _, group = np.unique(warps.slot * (number.max() + 1) + number, return_inverse=True)
    bits = np.zeros(group.max() + 1, np.uint32)
    np.bitwise_or.at(bits, group, np.uint32(1) << warps.lane.astype(np.uint32))
    same = bits[group]
    if ins.has("any"):
        step.put(ins.dst[0], same)
        return
    everybody = warps.ballot(np.ones(step.n, bool))
    agree = same == everybody
    step.put(ins.dst[0], np.where(agree, same, np.uint32(0)))
    if len(ins.dst) > 1:
        step.put(ins.dst[1], agree)


_REDUCE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}
_REDUCE |= {"min": np.minimum, "max": np.maximum}


@meaning("redux")
def redux(step: ActualStep) -> None:
    ins = step.ins
    warps = Warps(step)
    type_ = ins.modifiers[-1]
    value = step.get(ins.src[0])
    _mask(step, warps, 1)
    if value is UNKNOWN:
        step.put(ins.dst[0], UNKNOWN)
        return
    value = np.broadcast_to(value, (step.n,))
    starts = np.flatnonzero(np.concatenate([[True], warps.slot[1:] != warps.slot[:-1]]))
    op = next(m for m in ins.modifiers if m in _REDUCE)
    if type_ == "f32":
        out = _float_redux(value.view(np.float32), op, ins.modifiers, starts).view(np.uint32)
    else:
        signed = value.view(np.int32) if type_ == "s32" else value
        out = _REDUCE[op].reduceat(signed, starts, dtype=signed.dtype).view(np.uint32)
    step.put(ins.dst[0], warps.each(out))


def _float_redux(
    value: np.ndarray, op: str, modifiers: tuple[str, ...], starts: np.ndarray
) -> np.ndarray:
    if "abs" in modifiers:
        value = np.abs(value)
    if "NaN" in modifiers:
        function = np.maximum if op == "max" else np.minimum
    else:
        function = np.fmax if op == "max" else np.fmin
    out = function.reduceat(value, starts).astype(np.float32)
    return np.where(np.isnan(out), np.array(0x7FFFFFFF, np.uint32).view(np.float32), out)


__all__ = ["Reg", "Warps"]
