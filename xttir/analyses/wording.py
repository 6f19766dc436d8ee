"""Words for what the analyses find: who did what to which memory, and where that is written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xttir.analyses.events import Space, Trace
from xttir.analyses.grid import MEMBER
from xttir.analyses.project import Blocks
from xttir.analyses.records import Record
from xttir.diagnostics import Location


@dataclass(slots=True)
class Words:
    """Says things about a trace. Lanes are launch numbers."""

    trace: Trace

    def who(self, lane: int) -> str:
        block, thread = divmod(lane, self.trace.threads_per_cta)
        if len(self.trace.ctas) == 1:
            return f"thread {thread}"
        return f"thread {thread} of block {block}"

    def group(self, lanes: np.ndarray) -> str:
        """A set of lanes, in few words."""
        threads = self.trace.threads_per_cta
        if len(lanes) == 1:
            return self.who(int(lanes[0]))
        block = int(lanes[0]) // threads
        low, high = int(lanes[0]) - block * threads, int(lanes[-1]) - block * threads
        if high - low + 1 == len(lanes) and low % 32 == 0 and len(lanes) % 32 == 0:
            a, b = low // 32, high // 32
            text = f"warp {a}" if a == b else f"warps {a} to {b}"
        elif high - low + 1 == len(lanes):
            text = f"threads {low} to {high}"
        else:
            text = f"{len(lanes)} threads from {low} to {high}"
        return text if len(self.trace.ctas) == 1 else f"{text} of block {block}"

    def placed(self, ins: int) -> str:
        """An instruction with its place in the PTX."""
        places = self.trace.instructions[ins].locations
        return self.operation(ins) + (f" ({places[0]})" if places else "")

    def operation(self, ins: int) -> str:
        """The opcode, short."""
        words = self.trace.instructions[ins].text.split()
        while words and (words[0].startswith("@") or words[0] == "{"):
            words = words[1:]
        if not words:
            return "an instruction"
        parts = words[0].rstrip(";").split(".")
        return ".".join(parts[:3])

    def places(self, ins: int, role: str) -> tuple[Location, ...]:
        """Where an instruction stands: the PTX line with its role, then the user's lines."""
        locations = self.trace.instructions[ins].locations
        return tuple(place.with_role(role) for place in locations)

    def memory(self, space: Space, place: int, size: int, blocks: int, stride: int) -> str:
        """An address range: `place` in a ground."""
        if space is Space.GLOBAL:
            address = place & ((1 << MEMBER) - 1)
            for name, start, length in self.trace.buffers:
                if start <= address < start + length:
                    low = address - start
                    return f"bytes [{low}, {low + size}) of `{name}`"
            return f"global memory [{address:#x}, {address + size:#x})"
        block, offset = divmod(place, stride)
        if space is Space.TENSOR:
            lane, column = divmod(offset, 512)
            text = f"tensor memory lane {lane}, columns [{column}, {column + size})"
        else:
            text = f"shared memory [{offset}, {offset + size})"
        return text if blocks == 1 else f"{text} of block {block} of its cluster"

    def verb(self, record: Record) -> str:
        """What an access does."""
        nature = record.nature
        if nature.role:
            return {
                "init": "initialises an mbarrier",
                "inval": "invalidates an mbarrier",
                "alloc": "allocates tensor memory",
                "dealloc": "frees tensor memory",
            }[nature.role]
        word = {"read": "reads", "write": "writes"}.get(nature.mode.value, "updates")
        if record.may:
            word = "may " + word.removesuffix("s")
        return word if not nature.engine else f"{word} (asynchronously)"

    def range_of(self, record: Record, row: int, stride: int, blocks: int) -> str:
        """The bytes that a row of an access covers, as one range where it is one."""
        starts = record.print.starts[row]
        starts = starts[starts >= 0]
        low, high = int(starts.min()), int(starts.max()) + record.print.size
        dense = len(np.unique(starts)) * record.print.size == high - low
        text = self.memory(record.nature.space, low, high - low, blocks, stride)
        return text if dense else f"parts of {text}"


def launch_lane(blocks: Blocks, members: list[int], record: Record, row: int) -> int:
    """Launch number of the lane of a row. `members`: first lanes of the members of a class."""
    lane = int(record.lanes[row])
    if record.nature.space is Space.GLOBAL:
        starts = record.print.starts[row]
        member = int(starts[starts >= 0].min()) >> MEMBER if (starts >= 0).any() else 0
        return lane + (members[member] if members else blocks.base)
    return lane + blocks.base
