# ruff: noqa: E501
"""Register layouts that loads and stores of tensor memory can use, judged as Triton judges them."""

from __future__ import annotations

import random

import pytest

from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError
from xttir.frontends.mlir import parse_module

MODULE = """
#r = REGISTERS
#m = MEMORY
module attributes {"ttg.num-ctas" = CTAS : i32, "ttg.num-warps" = WARPS : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func @k(%m: !ttg.memdesc<ALLOCTY, #m, #ttng.tensor_memory, mutableOF>) {
    OP
    tt.return
  }
}
"""
LOAD = "%v = ttng.tmem_load %m : !ttg.memdesc<ALLOCTY, #m, #ttng.tensor_memory, mutableOF> -> tensor<ALLOCTY, #r>"
STORE = """%true = arith.constant true
    %v = arith.constant dense<ZERO> : tensor<ALLOCTY, #r>
    ttng.tmem_store %v, %m, %true : tensor<ALLOCTY, #r> -> !ttg.memdesc<ALLOCTY, #m, #ttng.tensor_memory, mutableOF>"""

LANES = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]
WARPS = [[32, 0], [64, 0]]


def linear(register: list[list[int]], lane: list[list[int]], warp: list[list[int]]) -> str:
    return f"#ttg.linear<{{register = {register}, lane = {lane}, warp = {warp}, block = []}}>"


def encoding(rows: int, columns: int, stride: int = 1) -> str:
    return (
        f"#ttng.tensor_memory_encoding<blockM = {rows}, blockN = {columns}, colStride = {stride}>"
    )


def text(op: str, memory: str, registers: str, shape: str, warps: int = 4, of: str = "") -> str:
    zero = "0" if "xi" in shape else "0.0"
    return (
        MODULE.replace("OP", op)
        .replace("ALLOCTY", shape)
        .replace("REGISTERS", registers)
        .replace("MEMORY", memory)
        .replace("CTAS", "1")
        .replace("WARPS", str(warps))
        .replace("ZERO", zero)
        .replace("OF>", f"{of}>")
    )


def accepted(module: str) -> bool:
    try:
        parse_module(module)
    except InputError:
        return False
    return True


def columns(*bits: int) -> list[list[int]]:
    return [[0, bit] for bit in bits]


CASES = {
    "rows by lane": (
        True,
        encoding(128, 32),
        linear(columns(1, 2, 4, 8, 16), LANES, WARPS),
        "128x32xf32",
    ),
    "registers in another order": (
        True,
        encoding(128, 32),
        linear(columns(8, 1, 16, 4, 2), LANES, WARPS),
        "128x32xf32",
    ),
    "lanes in another order": (
        False,
        encoding(128, 32),
        linear(columns(1, 2, 4, 8, 16), LANES[::-1], WARPS),
        "128x32xf32",
    ),
    "warps exchanged": (
        False,
        encoding(128, 32),
        linear(columns(1, 2, 4, 8, 16), LANES, WARPS[::-1]),
        "128x32xf32",
    ),
    "rows of another warp": (
        False,
        encoding(128, 32),
        linear(
            [*columns(1, 2, 4, 8, 16)],
            [[1, 0], [2, 0], [4, 0], [8, 0], [32, 0]],
            [[16, 0], [64, 0]],
        ),
        "128x32xf32",
    ),
    "16x256b": (
        True,
        encoding(128, 32),
        linear(
            [[0, 1], [8, 0], [0, 8], [16, 0], [0, 16]],
            [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
            WARPS,
        ),
        "128x32xf32",
    ),
    "16x64b": (
        True,
        encoding(128, 32),
        linear([[16, 0], *columns(2, 4, 8, 16)], [[8, 0], [0, 1], [1, 0], [2, 0], [4, 0]], WARPS),
        "128x32xf32",
    ),
    "16x128b": (
        True,
        encoding(128, 32),
        linear(
            [[8, 0], [16, 0], *columns(4, 8, 16)], [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], WARPS
        ),
        "128x32xf32",
    ),
    "blocked along columns": (
        False,
        encoding(128, 32),
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>",
        "128x32xf32",
    ),
    "blocked along rows": (
        True,
        encoding(128, 32),
        "#ttg.blocked<{sizePerThread = [1, 32], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>",
        "128x32xf32",
    ),
    "halves packed": (
        True,
        encoding(128, 32),
        linear(columns(1, 2, 4, 8, 16), LANES, WARPS),
        "128x32xf16",
    ),
    "halves whose pairs are apart": (
        False,
        encoding(128, 32),
        linear(columns(2, 1, 4, 8, 16), LANES, WARPS),
        "128x32xf16",
    ),
    "halves alone": (
        True,
        encoding(128, 32, 2),
        linear(columns(1, 2, 4, 8, 16), LANES, WARPS),
        "128x32xf16",
    ),
    "64 rows": (
        True,
        encoding(64, 32),
        linear([*columns(1, 2, 4, 8)], [*LANES[:4], [0, 16]], [[16, 0], [32, 0]]),
        "64x32xf32",
    ),
    "64 rows as if they were 128": (
        False,
        encoding(64, 32),
        linear([*columns(1, 2, 4, 8)], LANES, [[32, 0], [0, 16]]),
        "64x32xf32",
    ),
}


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.mark.parametrize("op", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize("case", CASES)
def test_layout(case: str, op: str) -> None:
    right, memory, registers, shape = CASES[case]
    assert accepted(text(op, memory, registers, shape)) is right


def drawn(seed: int) -> str:
    """A load with a register layout that is right, or has two of its bits exchanged."""
    rng = random.Random(seed)
    kind = rng.choice(["f32", "f32", "f16", "bf16", "i8"])
    rows, size = rng.choice([64, 128]), rng.choice([16, 32, 64])
    stride = rng.choice([1, 1, 2]) if kind in ("f16", "bf16") else 1
    bits = [[0, 1 << k] for k in range(size.bit_length() - 1)]
    if rows == 128:
        lane, warp = [list(b) for b in LANES], [list(b) for b in WARPS]
    else:
        lane, warp = [*[list(b) for b in LANES[:4]], bits.pop()], [[16, 0], [32, 0]]
    warps = 4
    if rng.random() < 0.3:
        warp.append(bits.pop())
        warps = 8
    form = rng.randrange(4) if rows == 128 and kind == "f32" else 0
    if form:
        register = {1: [[0, 1], [8, 0]], 2: [], 3: [[8, 0]]}[form]
        lane = {
            1: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
            2: [[8, 0], [0, 1], [1, 0], [2, 0], [4, 0]],
            3: [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        }[form]
        bits = [*register, [16, 0], *(b for b in bits if b not in lane and b not in register)]
    parts = [bits, lane, warp]
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        a, b = rng.choice(parts), rng.choice(parts)
        if a and b:
            k, n = rng.randrange(len(a)), rng.randrange(len(b))
            a[k], b[n] = b[n], a[k]
    shape = f"{rows}x{size}x{kind}"
    return text(LOAD, encoding(rows, size, stride), linear(*parts), shape, warps)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_drawn_layouts_are_judged_as_triton_does(oracle: Oracle, first: int) -> None:
    verdicts: list[bool] = []
    for seed in range(first, first + 50):
        module = drawn(seed)
        verdicts.append(accepted(module))
        assert verdicts[-1] is (oracle.parse(module) is not None), module
    assert 5 < sum(verdicts) < 45
