"""How long the PTX reader takes for a kernel of 20,000 instructions with a thousand blocks.

The kernel is made here: nested loops and diamonds, thirty-two registers that are carried through
all of them, and straight-line code between. CPU time of one process, the reader being warm.
"""

from __future__ import annotations

import random
import time

from benchmarks.report import Row

INSTRUCTIONS = 20_000
LIMIT = 3.0
"""CPU seconds."""


class _Maker:
    def __init__(self, instructions: int):
        self.wanted = instructions
        self.rng = random.Random(0)
        self.lines: list[str] = []
        self.registers = 40
        self.labels = 0
        self.carried = list(range(2, 34))

    def straight(self, visible: list[int]) -> list[int]:
        pick = self.rng.choice
        for _ in range(8):
            new = self.registers
            self.registers += 1
            self.lines.append(f"add.s32 %r{new}, %r{pick(visible)}, %r{pick(visible)};")
            visible = [*visible, new][-60:]
        register = pick(self.carried)
        self.lines.append(f"add.s32 %r{register}, %r{register}, %r{visible[-1]};")
        return visible

    def sequence(self, visible: list[int], depth: int) -> list[int]:
        for _ in range(3):
            if len(self.lines) >= self.wanted:
                return visible
            visible = self.straight(visible)
            label, kind = self.labels, self.rng.random()
            self.labels += 1
            test = f"setp.lt.s32 %p{label}, %r{visible[-1]}, 3;"
            if depth < 4 and kind < 0.35:
                self.lines.append(f"LOOP{label}:")
                self.sequence(visible, depth + 1)
                self.lines += [test, f"@%p{label} bra LOOP{label};"]
            elif depth < 4 and kind < 0.7:
                self.lines += [test, f"@%p{label} bra ELSE{label};"]
                self.sequence(visible, depth + 1)
                self.lines += [f"bra END{label};", f"ELSE{label}:"]
                self.sequence(visible, depth + 1)
                self.lines.append(f"END{label}:")
        return visible


def kernel(instructions: int) -> str:
    """PTX of a kernel with about so many instructions."""
    maker = _Maker(instructions)
    maker.lines += [f"mov.u32 %r{i}, 0;" for i in maker.carried]
    visible = [1]
    while len(maker.lines) < instructions:
        visible = maker.sequence(visible, 0)
    head = [".version 8.7", ".target sm_90a", ".address_size 64"]
    head += [".visible .entry k(.param .u64 out)", "{", ".reg .b64 %rd<2>;"]
    head += [f".reg .pred %p<{maker.labels + 1}>;", f".reg .b32 %r<{maker.registers + 1}>;"]
    head += ["ld.param.u64 %rd1, [out];", "mov.u32 %r1, %tid.x;"]
    return "\n".join([*head, *maker.lines, "st.global.u32 [%rd1], %r5;", "ret;", "}"])


def rows(repeat: int) -> list[Row]:
    """The least of `repeat` runs, for the size asked about and for twice that."""
    from xttir.frontends.ptx import parse_ptx

    parse_ptx(kernel(100))
    best: list[float] = []
    for size in (INSTRUCTIONS, 2 * INSTRUCTIONS):
        text = kernel(size)
        costs: list[float] = []
        for _ in range(max(1, repeat)):
            start = time.process_time()
            parse_ptx(text)
            costs.append(time.process_time() - start)
        best.append(min(costs))
    once, twice = best
    return [
        Row("ptx-read", "20,000 instructions", once, "s", f"<= {LIMIT:g}", once <= LIMIT),
        Row("ptx-read", "twice as many", twice / once, "x", "<= 2.5", twice / once <= 2.5),
    ]
