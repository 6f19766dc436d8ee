# ruff: noqa: E501
"""Undefined coordinates and elements of blocks, alike in TTIR and TTGIR: what is read at undefined
coordinates is undefined and no fault yet; what is stored is one, unless the tensor has no elements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.launching import kinds, run
from tests.interp.test_ttng_tma import (
    DONE,
    EXPECT,
    FENCE,
    FETCH,
    FOOT,
    HEAD,
    STORE,
    WAIT,
    descriptor,
)

TTIR_HEAD = """
module {
  tt.func public @k(%a: !tt.tensordesc<16x32xf32>, %b: !tt.tensordesc<16x32xf32>) {
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %pid = tt.get_program_id x : i32
    %c16 = arith.constant 16 : i32
    %row = arith.muli %pid, %c16 : i32
"""
UNDEFINED = "    %u = arith.divsi %c8, %c0 : i32\n"
TTIR_LOAD = (
    "    %v = tt.descriptor_load %a[%row, %c8] : !tt.tensordesc<16x32xf32> -> tensor<16x32xf32>\n"
)
TTIR_STORE = (
    "    tt.descriptor_store %b[%row, %c8], %v : !tt.tensordesc<16x32xf32>, tensor<16x32xf32>\n"
)
LEVELS = {
    "ttir": (TTIR_HEAD + UNDEFINED, TTIR_LOAD, TTIR_STORE),
    "ttgir": (HEAD + UNDEFINED, EXPECT + FETCH + WAIT, FENCE + STORE + DONE),
}


def faults(level: str, load_at: str, store_at: str, rows: int) -> list[str]:
    head, load, store = LEVELS[level]
    text = head + load.replace("[%row", f"[{load_at}")
    if store_at:
        text += store.replace("[%row", f"[{store_at}")
    a, b = np.zeros((40, 36), np.float32), np.zeros((rows, 36), np.float32)
    arguments: dict[str, object] = {"a": descriptor("a", a), "b": descriptor("b", b)}
    return kinds(run(text + FOOT, (1,), arguments))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("load_at", "store_at", "rows", "expected"),
    [
        ("%row", "%row", 40, []),
        ("%u", "", 40, []),
        ("%u", "%row", 40, ["undefined"]),
        ("%row", "%u", 40, ["undefined"]),
        ("%u", "%u", 40, ["undefined"]),
        ("%u", "%u", 0, []),
    ],
)
def test_undefined_coordinates(
    level: str, load_at: str, store_at: str, rows: int, expected: list[str]
) -> None:
    assert faults(level, load_at, store_at, rows) == expected


def test_undefined_elements_of_a_block() -> None:
    """Elements that nobody gave a value, inside of the tensor and outside of it."""
    text = (
        TTIR_HEAD
        + UNDEFINED
        + (
            "    %s = tt.splat %u : i32 -> tensor<16x32xi32>\n"
            "    %v = arith.sitofp %s : tensor<16x32xi32> to tensor<16x32xf32>\n"
        )
    )
    for rows, expected in ((40, ["undefined"]), (0, [])):
        b = np.zeros((rows, 36), np.float32)
        arguments: dict[str, object] = {"a": descriptor("a", b), "b": descriptor("b", b)}
        assert kinds(run(text + TTIR_STORE + FOOT, (1,), arguments)) == expected
