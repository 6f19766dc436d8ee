"""Where definitions of a register meet: pruned phi placement, all registers at once in bit sets.

R. Cytron et al., "Efficiently computing static single assignment form and the control dependence
graph" (1991): a block in the dominance frontier of a definition needs an argument for the register
if the register is alive there. The entry counts as a definition of everything, an undefined one.
"""

from __future__ import annotations

from dataclasses import dataclass

from xttir.frontends.ptx.dominance import dominator_tree, frontiers, reverse_postorder


@dataclass(frozen=True, slots=True)
class Placement:
    """`arguments`: for each block the bits of the registers that it needs as arguments.

    `order` is the reached blocks in reverse postorder, `parents` immediate dominators.
    """

    arguments: list[int]
    parents: list[int]
    order: list[int]


def place_arguments(
    successors: list[list[int]], exposed: list[int], defined: list[int]
) -> Placement:
    """By block: its successors, and the bits of the registers that it reads before it writes them
    (`exposed`) and that it writes (`defined`). Block 0 is the entry and nobody's successor."""
    order = reverse_postorder(successors)
    live = _live_in(successors, exposed, defined, order)
    parents = dominator_tree(successors, order)
    borders = frontiers(successors, order, parents)
    arguments = [0] * len(successors)
    work = list(order)
    while work:
        index = work.pop()
        written = defined[index] | arguments[index]
        for border in borders[index]:
            new = written & live[border] & ~arguments[border]
            if new:
                arguments[border] |= new
                work.append(border)
    return Placement(arguments, parents, order)


def _live_in(
    successors: list[list[int]], exposed: list[int], defined: list[int], order: list[int]
) -> list[int]:
    live = [0] * len(successors)
    changed = True
    while changed:
        changed = False
        for index in reversed(order):
            out = 0
            for successor in successors[index]:
                out |= live[successor]
            new = exposed[index] | (out & ~defined[index])
            if new != live[index]:
                live[index] = new
                changed = True
    return live


def bits_of(bits: int) -> list[int]:
    """The positions of the bits that are set, ascending."""
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
