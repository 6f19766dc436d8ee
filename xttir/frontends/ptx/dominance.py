"""Dominators and dominance frontiers of a control-flow graph given as lists of successors.

K. Cooper, T. Harvey and K. Kennedy, "A simple, fast dominance algorithm" (2001). Block 0 is the
entry; blocks that it does not reach have no dominator and take no part.
"""

from __future__ import annotations


def reverse_postorder(successors: list[list[int]]) -> list[int]:
    """The blocks that the entry reaches."""
    seen = [False] * len(successors)
    seen[0] = True
    order: list[int] = []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if not seen[successor]:
                seen[successor] = True
                stack.append((successor, iter(successors[successor])))
                break
        else:
            stack.pop()
            order.append(block)
    order.reverse()
    return order


def predecessors_of(successors: list[list[int]], order: list[int]) -> list[list[int]]:
    """For each block its predecessors that the entry reaches, each once."""
    found: list[list[int]] = [[] for _ in successors]
    for block in order:
        for successor in dict.fromkeys(successors[block]):
            found[successor].append(block)
    return found


def dominator_tree(successors: list[list[int]], order: list[int]) -> list[int]:
    """Immediate dominators: the entry's is itself, that of an unreached block -1."""
    rank = {block: index for index, block in enumerate(order)}
    predecessors = predecessors_of(successors, order)
    parents = [-1] * len(successors)
    parents[order[0]] = order[0]
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = -1
            for other in predecessors[block]:
                if parents[other] >= 0:
                    new = other if new < 0 else _meet(new, other, parents, rank)
            if parents[block] != new:
                parents[block] = new
                changed = True
    return parents


def _meet(a: int, b: int, parents: list[int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = parents[a]
        while rank[b] > rank[a]:
            b = parents[b]
    return a


def frontiers(successors: list[list[int]], order: list[int], parents: list[int]) -> list[list[int]]:
    """Where the dominance of each block ends: the blocks it reaches but does not dominate."""
    found: list[dict[int, None]] = [{} for _ in successors]
    for block, before in enumerate(predecessors_of(successors, order)):
        if len(before) < 2 and block != order[0]:
            continue
        for runner in before:
            while runner != parents[block]:
                found[runner][block] = None
                runner = parents[runner]
    return [list(blocks) for blocks in found]
