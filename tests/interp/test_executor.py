"""Kernels run against numpy, and against themselves in other batch sizes and grid orders."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interp.launching import kinds, run
from xttir.interp.launch import LaunchResult

TTIR = pathlib.Path(__file__).parent.parent / "data" / "ttir"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Inputs for a kernel, its grid, scalars, and what its outputs must be."""

    make: Callable[[np.random.Generator, int], tuple[Arrays, tuple[int, ...], dict[str, int]]]
    expect: Callable[[Arrays, dict[str, int]], Arrays]
    order_free: bool = True
    """Whether outputs are the same for every grid order."""


def _collatz(v: int) -> int:
    steps = 0
    while v != 1 and steps < 200:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        steps += 1
    return steps


def _early(a: Arrays, n: int) -> np.ndarray:
    out = np.zeros(n, np.int32)
    for i in range(n):
        v = int(a["x"][i // 8])
        out[i] = -1 if v < 0 else 100 if v > 100 else v + i // 8
    return out


def _scaled(a: Arrays) -> np.ndarray:
    pid = np.arange(a["x"].size, dtype=np.int32)
    v = a["x"] * pid + (pid > 3)
    return (v[:, None] + 2 * pid[:, None] + np.arange(8, dtype=np.int32)).reshape(-1)


def _scan(x: np.ndarray) -> np.ndarray:
    # (a, b) . (c, d) = (a c, b c + d) with a = c = 2: b is a running 2 b + d.
    out = np.zeros_like(x)
    for p in range(x.shape[0]):
        b = np.float32(0)
        for k in range(x.shape[1]):
            b = np.float32(x[p, k]) if k == 0 else np.float32(b * 2 + x[p, k])
            out[p, k] = b
    return out


def ints(r: np.random.Generator, n: int, low: int, high: int) -> np.ndarray:
    return r.integers(low, high, n).astype(np.int32)


def floats(r: np.random.Generator, *shape: int) -> np.ndarray:
    return r.integers(-8, 9, shape).astype(np.float32)


CASES: dict[str, Case] = {
    "collatz": Case(
        lambda r, n: ({"x": ints(r, n, 1, 60), "o": np.zeros(n, np.int32)}, (n,), {"n": n}),
        lambda a, s: {"o": np.array([_collatz(int(v)) for v in a["x"]], np.int32)},
    ),
    "ragged_sum": Case(
        lambda r, n: (
            {
                "x": floats(r, n, 70),
                "lengths": ints(r, n, 0, 70),
                "o": np.zeros(n, np.float32),
            },
            (n,),
            {"stride": 70},
        ),
        lambda a, s: {
            "o": np.array(
                [row[:k].sum() for row, k in zip(a["x"], a["lengths"], strict=True)], np.float32
            )
        },
    ),
    "pick_pointer": Case(
        lambda r, n: (
            {"x": floats(r, 5 * n), "y": floats(r, 5 * n), "o": np.zeros(5 * n, np.float32)},
            (-(-5 * n // 8),),
            {"n": 5 * n},
        ),
        lambda a, s: {"o": np.where(np.arange(s["n"]) // 8 % 3 == 0, a["x"], a["y"])},
    ),
    "early_return": Case(
        lambda r, n: (
            {"x": ints(r, -(-5 * n // 8), -50, 200), "o": np.zeros(5 * n, np.int32)},
            (-(-5 * n // 8),),
            {"n": 5 * n},
        ),
        lambda a, s: {"o": _early(a, s["n"])},
    ),
    "calls": Case(
        lambda r, n: ({"x": ints(r, n, -9, 9), "o": np.zeros(8 * n, np.int32)}, (n,), {}),
        lambda a, s: {"o": _scaled(a)},
    ),
    "histogram_atomics": Case(
        lambda r, n: (
            {"x": ints(r, 5 * n, 0, 6), "o": np.zeros(6, np.int32)},
            (-(-5 * n // 16),),
            {"n": 5 * n},
        ),
        lambda a, s: {"o": np.bincount(a["x"], minlength=6).astype(np.int32)},
    ),
    "float_atomics": Case(
        lambda r, n: (
            {"x": r.standard_normal(5 * n).astype(np.float32), "o": np.zeros(4, np.float32)},
            (-(-5 * n // 16),),
            {"n": 5 * n},
        ),
        lambda a, s: {},
        order_free=False,
    ),
    "slots": Case(
        lambda r, n: (
            {
                "x": ints(r, n, 0, 99),
                "counter": np.zeros(1, np.int32),
                "o": np.zeros(n, np.int32),
            },
            (n,),
            {"n": n},
        ),
        lambda a, s: {"counter": np.array([s["n"]], np.int32)},
        order_free=False,
    ),
    "transpose": Case(
        lambda r, n: (
            {"x": floats(r, n, 3 * n), "o": np.zeros((3 * n, n), np.float32)},
            (-(-n // 8), -(-3 * n // 8)),
            {"M": n, "N": 3 * n},
        ),
        lambda a, s: {"o": a["x"].T.copy()},
    ),
    "gather": Case(
        lambda r, n: (
            {"x": floats(r, n), "index": ints(r, 5 * n, 0, n), "o": np.zeros(5 * n, np.float32)},
            (-(-5 * n // 16),),
            {"n": 5 * n},
        ),
        lambda a, s: {"o": a["x"][a["index"]]},
    ),
    "combines": Case(
        lambda r, n: (
            {
                "x": floats(r, n, 16),
                "o": np.zeros(n, np.float32),
                "where": np.zeros(n, np.int32),
                "scan": np.zeros((n, 16), np.float32),
            },
            (n,),
            {},
        ),
        lambda a, s: {
            "o": a["x"].max(axis=1),
            "where": a["x"].argmax(axis=1).astype(np.int32),
            "scan": _scan(a["x"]),
        },
    ),
    "descriptors": Case(
        lambda r, n: (
            {"x": floats(r, n, n + 4), "o": np.zeros((n, n + 4), np.float32)},
            (-(-n // 8), -(-(n + 4) // 8)),
            {"M": n, "N": n + 4},
        ),
        lambda a, s: {"o": a["x"] * 2},
    ),
}


def launch(name: str, seed: int, n: int, **policy: object) -> tuple[Arrays, LaunchResult, Arrays]:
    case = CASES[name]
    arrays, grid, scalars = case.make(np.random.default_rng(seed), n)
    before = {k: v.copy() for k, v in arrays.items()}
    result = run((TTIR / f"{name}.ttir").read_text(), grid, {**arrays, **scalars}, **policy)
    return arrays, result, case.expect(before, scalars)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 7, 33])
def test_values_are_numpys_and_nothing_is_reported(name: str, n: int) -> None:
    arrays, result, expected = launch(name, n, n)
    assert result.faults == []
    assert result.completed
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value, err_msg=key)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(CASES)),
    st.integers(0, 1000),
    st.integers(1, 30),
    st.integers(1, 40),
    st.sampled_from(["forward", "reversed", "shuffled"]),
)
def test_results_do_not_depend_on_batch_or_order(
    name: str, seed: int, n: int, batch: int, order: str
) -> None:
    one, alone, _ = launch(name, seed, n, batch=1, grid_order="forward")
    if not CASES[name].order_free:
        order = "forward"
    many, together, _ = launch(name, seed, n, batch=batch, grid_order=order)
    for key in one:
        assert one[key].tobytes() == many[key].tobytes(), key
    assert alone.faults == together.faults == []


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.integers(2, 20), st.sampled_from(["forward", "reversed", "shuffled"]))
def test_faults_do_not_depend_on_batch_or_order(n: int, batch: int, order: str) -> None:
    text = (TTIR / "neighbour.ttir").read_text()
    grid = (-(-n // 8),)

    def faults(**policy: object) -> list[tuple[object, ...]]:
        x = np.arange(n, dtype=np.int32)
        # The kernel believes in one element more than there is.
        result = run(text, grid, {"x": x, "o": x, "n": n + 1}, **policy)
        return sorted(
            (f.kind, f.message, tuple((p.line, p.column) for p in f.locations), f.notes)
            for f in result.faults
        )

    expected = faults(batch=1)
    assert faults(batch=batch, grid_order=order) == expected
    assert {k[0] for k in expected} >= ({"race"} if grid[0] > 1 else set())


def test_checks_can_be_switched_off_and_are_counted() -> None:
    text = (TTIR / "neighbour.ttir").read_text()
    x = np.arange(20, dtype=np.int32)
    arguments = {"x": x, "o": x, "n": 21}
    everything = run(text, (3,), arguments)
    assert set(kinds(everything)) == {"race", "out-of-bounds"}
    assert everything.counts.done["race"] > 0
    bounds = run(text, (3,), arguments, checks="bounds")
    assert kinds(bounds) == ["out-of-bounds"]
    assert "race" not in bounds.counts.done
    assert run(text, (3,), arguments, checks="none").faults == []
