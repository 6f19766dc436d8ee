"""Bounds of integers that depend on data: every instruction's rule against all values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xttir.interp.ptx import scalar as scalar  # registers all conversions
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.spread import Spread, anywhere, result, select, together, union
from xttir.interp.ptx_scalar import decode, encode, find


def spread(known: int, low: int, high: int, datum: int = 64) -> Spread:
    a, b, c = (np.array([x]) for x in (known, low, high))
    return Spread(a, b, c, 1, np.array([datum]))


def run(opcode: str, values: list[Any]) -> Any:
    entry, form = find(opcode)
    types = list(entry.sources(form))
    types += types[-1:] * (len(values) - len(types))
    out = entry.run(form, *(decode(v, t) for v, t in zip(values, types, strict=False)))
    first = out[0] if isinstance(out, tuple) else out
    return encode(first, entry.results(form)[0])


OPCODES = [
    ("add.s32", 2), ("sub.s32", 2), ("mul.lo.s32", 2), ("mul.wide.s32", 2), ("mul.wide.u32", 2),
    ("mad.lo.s32", 3), ("mad.wide.s32", 3), ("shl.b32", 2), ("shr.u32", 2), ("shr.s32", 2),
    ("and.b32", 2), ("min.s32", 2), ("max.u32", 2), ("div.u32", 2), ("rem.u32", 2),
    ("cvt.s64.s32", 1), ("cvt.u64.u32", 1), ("cvt.u32.u64", 1), ("setp.lt.s32", 2),
    ("setp.ge.u32", 2), ("setp.eq.s32", 2), ("selp.b32", 3),
]  # fmt: skip


@given(
    st.sampled_from(OPCODES),
    st.integers(-40, 40),
    st.integers(-8, 8),
    st.integers(0, 12),
    st.integers(-9, 70),
    st.integers(0, 1),
)
def test_a_rule_covers_every_value(
    which: tuple[str, int], known: int, low: int, count: int, other: int, third: int
) -> None:
    opcode, operands = which
    width = 64 if opcode == "cvt.u32.u64" else 32
    mask = (1 << width) - 1
    if opcode.startswith("shl") or opcode.startswith("shr"):
        other %= 8
    if opcode.startswith(("div", "rem")):
        other = max(other, 1)
    rest: list[Any] = [np.array([other & 0xFFFFFFFF], np.uint32)]
    if operands == 3:
        last = np.array([bool(third)]) if opcode.startswith("selp") else None
        if last is None:
            wide = np.uint64 if "wide" in opcode else np.uint32
            last = np.array([third], wide)
        rest.append(last)
    rest = rest[: operands - 1]
    _, form = find(opcode)
    name = opcode.split(".", maxsplit=1)[0]
    found = result(name, form, [spread(known, low, low + count), *rest])
    if found is UNKNOWN:
        return
    for u in range(low, low + count + 1):
        raw = np.array([known + u & mask], np.uint64).astype(f"u{width // 8}")
        value = int(run(opcode, [raw, *rest]).astype(np.uint64)[0])
        if isinstance(found, np.ndarray):
            assert value == int(found[0])
            continue
        bits = 64 if "wide" in opcode or "64." in opcode else 32
        if not found.finite:
            continue
        first, last = int(found.first[0]), int(found.last[0])
        assert any(first <= v <= last for v in (value, value - (1 << bits))), (value, found)


def test_what_is_certain_stays_so_only_while_one_datum_decides() -> None:
    add, mul = find("add.s32")[1], find("mul.lo.s32")[1]
    four = np.array([4], np.uint32)
    scaled = result("mul", mul, [spread(0, 0, 9), four])
    assert (scaled.step, scaled.datum.tolist(), scaled.high.tolist()) == (4, [64], [36])
    assert result("add", add, [scaled, four]).datum.tolist() == [64]
    assert result("add", add, [scaled, spread(0, 0, 1)]).datum is None


def test_a_known_part_survives_an_unknown_one() -> None:
    form = find("add.s64")[1]
    base = np.array([1 << 44], np.uint64)
    found = result("add", form, [base, UNKNOWN])
    assert int(found.known[0]) == 1 << 44
    assert not found.finite
    assert result("add", find("add.f32")[1], [np.zeros(1, np.uint32), UNKNOWN]) is UNKNOWN


def test_lanes_of_groups_side_by_side() -> None:
    joined = together([spread(5, 0, 2), np.array([7, 8], np.uint32)], [1, 2], np.array([2, 0, 1]))
    assert joined.known.tolist() == [8, 5, 7]
    assert (joined.high - joined.low).tolist() == [0, 2, 0]
    assert together([spread(5, 0, 2), UNKNOWN], [1, 1], None) is UNKNOWN
    chosen = select(np.array([True, False]), spread(1, 0, 1), np.array([9], np.uint32))
    assert chosen.last.tolist() == [2, 9]


def test_one_of_two_values_of_different_tensors_is_unknown() -> None:
    near = union(np.array([8], np.uint64), np.array([4], np.uint64))
    assert (int(near.first[0]), int(near.last[0])) == (4, 8)
    assert union(np.array([1 << 44], np.uint64), np.array([3 << 44], np.uint64)) is UNKNOWN


@pytest.mark.parametrize("value", [anywhere(np.array([3])), spread(0, 1 << 40, 1 << 41)])
def test_what_may_wrap_loses_its_bounds(value: Spread) -> None:
    assert not result("mul", find("mul.wide.s32")[1], [value, np.array([4], np.uint32)]).finite
