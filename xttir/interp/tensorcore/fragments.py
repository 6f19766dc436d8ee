"""Which element of a matrix each thread's registers hold, as index arrays.

For a fragment the arrays `rows` and `columns` have shape (lanes, elements): element i of lane l is
matrix[rows[l, i], columns[l, i]]. Elements fill 32-bit registers from the low end. PTX ISA 9.1,
sections 9.7.14.5 (mma.sync, ldmatrix), 9.7.15.5 (wgmma), 9.7.16.2 (tcgen05.ld); compared with CuTe.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True, eq=False)
class Fragment:
    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    def gather(self, elements: np.ndarray) -> np.ndarray:
        """Matrices (.., rows, columns) from (.., lanes, elements)."""
        out = np.empty((*elements.shape[:-2], *self.shape), elements.dtype)
        out[..., self.rows, self.columns] = elements
        return out

    def scatter(self, matrices: np.ndarray) -> np.ndarray:
        """(.., lanes, elements) from matrices (.., rows, columns)."""
        return matrices[..., self.rows, self.columns]


def _fragment(rows, columns, shape: tuple[int, int]) -> Fragment:
    rows, columns = np.broadcast_arrays(rows, columns)
    return Fragment(np.ascontiguousarray(rows), np.ascontiguousarray(columns), shape)


def _lane_and_element(elements: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group and thread in the group of each lane (32, 1), and element numbers (1, elements)."""
    lane = np.arange(32)[:, None]
    return lane >> 2, lane & 3, np.arange(elements)[None]


@cache
def mma_a(m: int, k: int, bits: int) -> Fragment:
    """A of mma.sync.mMn8kK with elements of `bits` bits: M x K."""
    g, t, i = _lane_and_element(m * k // 32)
    if m == 8:  # m8n8k4 (f64), m8n8k16, k32, k128: a row per group
        per = max(1, 32 // bits)
        return _fragment(g, per * t + i, (m, k))
    if bits >= 32:  # tf32 m16n8k4, k8; f64 m16n8k4, k8, k16
        return _fragment(g + 8 * (i & 1), t + 4 * (i >> 1), (m, k))
    per = 32 // bits
    row = g + 8 * (i // per & 1)
    return _fragment(row, per * t + i % per + 4 * per * (i // (2 * per)), (m, k))


@cache
def mma_b(k: int, bits: int) -> Fragment:
    """B of mma.sync.mMn8kK, as N x K (rows are n)."""
    g, t, i = _lane_and_element(8 * k // 32)
    per = max(1, 32 // bits)
    return _fragment(g, per * t + i % per + 4 * per * (i // per), (8, k))


@cache
def mma_c(m: int) -> Fragment:
    """C and D of mma.sync with n = 8: M x 8."""
    g, t, i = _lane_and_element(m * 8 // 32)
    return _fragment(g + 8 * (i >> 1), 2 * t + (i & 1), (m, 8))


@cache
def wgmma_a(k: int, bits: int) -> Fragment:
    """A in registers of a warpgroup: 64 x K, 128 lanes."""
    one = mma_a(16, k, bits)
    warp = 16 * np.arange(4)[:, None, None]
    rows = (one.rows[None] + warp).reshape(128, -1)
    return _fragment(rows, np.tile(one.columns, (4, 1)), (64, k))


@cache
def wgmma_d(n: int) -> Fragment:
    """The accumulator of a warpgroup: 64 x N, 128 lanes."""
    t = np.arange(128)[:, None]
    i = np.arange(n // 2)[None]
    rows = 16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1)
    return _fragment(rows, 8 * (i >> 2) + 2 * (t % 4) + (i & 1), (64, n))


def registers_to_elements(registers: np.ndarray, bits: int) -> np.ndarray:
    """Codes (.., registers * 32 / bits) of uint32 registers; 64-bit ones stay as they are."""
    if bits >= 32:
        return registers
    data = np.ascontiguousarray(registers)
    if bits >= 8:
        return data.view(np.dtype(f"<u{bits // 8}"))
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    codes = (data[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(*data.shape[:-1], -1)


def elements_to_registers(codes: np.ndarray) -> np.ndarray:
    """uint32 registers of codes of 16 or 32 bits."""
    return np.ascontiguousarray(codes).view(np.uint32)


# ldmatrix, stmatrix, movmatrix --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatrixAccess:
    """How ldmatrix and stmatrix move matrices of 8 or 16 rows of 16 bytes (m16: of 8 or 16).

    Row `row[l, b]` and byte `byte[l, b]` of the accessed memory is byte b of lane l's registers;
    row r is at the address that lane r gives. `rows` rows of `row_bytes` bytes are accessed.
    """

    row: np.ndarray
    byte: np.ndarray
    rows: int
    row_bytes: int


@cache
def b16_matrices(count: int, transposed: bool) -> MatrixAccess:
    """m8n8.xCOUNT.b16: register j of a lane holds two neighbours of matrix j."""
    lane = np.arange(32)[:, None]
    b = np.arange(4 * count)[None]
    matrix, half, low = b // 4, b // 2 % 2, b % 2
    major, minor = lane // 4, 2 * (lane % 4) + half
    row, column = (minor, major) if transposed else (major, minor)
    row, byte = np.broadcast_arrays(8 * matrix + row, 2 * column + low)
    return MatrixAccess(row.copy(), byte.copy(), 8 * count, 16)


@cache
def b8_matrices(count: int) -> MatrixAccess:
    """m16n16.xCOUNT.trans.b8 (ldmatrix): 16 rows of 16 bytes, transposed; two registers a matrix.

    As CuTe has it (SM100_U8x8_LDSM_T, SM100_U8x16_LDSM_T): register 2j + h of lane l holds column
    l / 4 + 8h of matrix j, rows 4 (l % 4) to 4 (l % 4) + 3.
    """
    lane = np.arange(32)[:, None]
    b = np.arange(8 * count)[None]
    matrix, half, low = b // 8, b // 4 % 2, b % 4
    row, byte = np.broadcast_arrays(16 * matrix + 4 * (lane % 4) + low, lane // 4 + 8 * half)
    return MatrixAccess(row.copy(), byte.copy(), 16 * count, 16)


@cache
def b8_store_matrices(count: int) -> MatrixAccess:
    """m16n8.xCOUNT.trans.b8 (stmatrix): 16 rows of 8 bytes, transposed; one register a matrix."""
    lane = np.arange(32)[:, None]
    b = np.arange(4 * count)[None]
    row, byte = np.broadcast_arrays(16 * (b // 4) + 4 * (lane % 4) + b % 4, lane // 4)
    return MatrixAccess(row.copy(), byte.copy(), 16 * count, 8)


# tcgen05.ld and tcgen05.st ------------------------------------------------------------------------

LOAD_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread per repetition."""


@cache
def tensor_access(shape: str, num: int, split: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of each register of a warp, (32, registers), relative to the address."""
    lane = np.arange(32)[:, None]
    r = np.arange(LOAD_REGISTERS[shape] * num)[None]
    if shape == "32x32b":
        row, column = lane, r
    elif shape == "16x64b":
        row, column = lane // 4 + 8 * (lane & 1), 2 * r + (lane >> 1 & 1)
    elif shape == "16x128b":
        row, column = lane // 4 + 8 * (r & 1), lane % 4 + 4 * (r >> 1)
    elif shape == "16x256b":
        row, column = lane // 4 + 8 * (r >> 1 & 1), 2 * (lane % 4) + (r & 1) + 8 * (r >> 2)
    elif shape == "16x32bx2":
        row, column = lane % 16, r + split * (lane // 16)
    else:
        raise KeyError(shape)
    row, column = np.broadcast_arrays(row, column)
    return row.copy(), column.copy()
