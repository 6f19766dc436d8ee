"""Shared-memory swizzles: XOR of address bits, a pure function of the absolute byte address.

A mode with atom 2^m bytes XORs bits of the number of the 128-byte line, from bit 7 on, into the
bits from m on; so a byte never leaves its line. PTX ISA 9.1, section 5.5.7 (tables);
that the address is the absolute one, not the offset in the box, was seen on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mode:
    """`bits` bits from bit 7 on go to bit `atom_bits`; `span` is the widest row in bytes."""

    bits: int
    atom_bits: int
    span: int
    flip: bool = False
    """The 8-byte halves of 16 bytes are exchanged on odd lines."""

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats."""
        return 128 << max(self.bits, int(self.flip))


MODES = {
    "none": Mode(0, 4, 0),
    "32B": Mode(1, 4, 32),
    "64B": Mode(2, 4, 64),
    "96B": Mode(1, 4, 96),
    "128B": Mode(3, 4, 128),
    "128B_atom32B": Mode(2, 5, 128),
    "128B_atom32B_flip8B": Mode(2, 5, 128, flip=True),
    "128B_atom64B": Mode(1, 6, 128),
}

PERIOD = 1024
"""A period of every mode."""


def swizzle(address: np.ndarray, mode: str, base_offset: int = 0) -> np.ndarray:
    """int64 addresses to where their bytes lie. Its own inverse (for base offset 0).

    `base_offset` is a matrix descriptor's: the line on which the pattern starts.
    """
    m = MODES[mode]
    line = (address >> 7) - base_offset
    out = address ^ ((line & ((1 << m.bits) - 1)) << m.atom_bits)
    if m.flip:
        out = out ^ ((line & 1) << 3)
    return out
