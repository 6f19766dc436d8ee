"""Orders and liveness of a control-flow graph whose blocks are numbers.

The executor runs the lanes that stand at the lowest block first. So that lanes which left a loop
wait for those still in it, a loop's blocks are neighbours in the order: a weak topological order
(Bourdoncle, 1993): strongly connected components in topological order, each with its head first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Graph = Sequence[Sequence[int]]
"""Successors by block."""


def loop_order(graph: Graph, entry: int = 0) -> tuple[list[int], dict[int, list[int]]]:
    """(reachable blocks in order, head of a loop -> its blocks; inner loops have their own)."""
    order: list[int] = []
    loops: dict[int, list[int]] = {}
    _arrange(graph, entry, _reachable(graph, entry), order, loops)
    return order, loops


def _arrange(
    graph: Graph, entry: int, inside: set[int], order: list[int], loops: dict[int, list[int]]
) -> None:
    """Append the blocks of `inside`, which are entered at `entry`, in order."""
    work: list[tuple[str, int, set[int]]] = [("sub", entry, inside)]
    while work:
        kind, head, blocks = work.pop()
        if kind == "emit":
            order.append(head)
            continue
        items: list[tuple[str, int, set[int]]] = []
        for component in components(graph, head, blocks):
            first = component[0]
            if len(component) == 1 and first not in graph[first]:
                items.append(("emit", first, set()))
                continue
            loops[first] = component
            items.append(("emit", first, set()))
            rest = set(component) - {first}
            if rest:
                items.append(("sub", -1 - first, rest))
        work.extend(reversed(items))


def components(graph: Graph, entry: int, inside: set[int]) -> list[list[int]]:
    """Strongly connected components of `inside`, topologically; each begins with the block that a
    depth-first walk enters it by. A negative entry -1 - h stands for the successors of h."""
    starts = [s for s in graph[-1 - entry] if s in inside] if entry < 0 else [entry]
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for start in [*starts, *(sorted(inside) if entry < 0 else ())]:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        walk = [(start, iter(graph[start]))]
        while walk:
            node, successors = walk[-1]
            for s in successors:
                if s not in inside:
                    continue
                if s not in index:
                    index[s] = low[s] = len(index)
                    stack.append(s)
                    on_stack.add(s)
                    walk.append((s, iter(graph[s])))
                    break
                if s in on_stack:
                    low[node] = min(low[node], index[s])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    found.append(component)
    found.reverse()
    return found


def _reachable(graph: Graph, entry: int) -> set[int]:
    seen = {entry}
    work = [entry]
    while work:
        for s in graph[work.pop()]:
            if s not in seen:
                seen.add(s)
                work.append(s)
    return seen


def live_in(graph: Graph, uses: Sequence[int], kills: Sequence[int]) -> list[int]:
    """Per block the slots that are live at its start, as bit sets, as are `uses` (read before they
    are written) and `kills` (surely written)."""
    live = list(uses)
    before: list[list[int]] = [[] for _ in graph]
    for node, successors in enumerate(graph):
        for s in successors:
            before[s].append(node)
    work = list(range(len(graph)))
    waiting = set(work)
    while work:
        node = work.pop()
        waiting.discard(node)
        out = 0
        for s in graph[node]:
            out |= live[s]
        new = uses[node] | (out & ~kills[node])
        if new != live[node]:
            live[node] = new
            for p in before[node]:
                if p not in waiting:
                    waiting.add(p)
                    work.append(p)
    return live


def bits(numbers: Iterable[int]) -> int:
    out = 0
    for n in numbers:
        out |= 1 << n
    return out


def members(bit_set: int) -> tuple[int, ...]:
    """The numbers in a bit set, ascending."""
    out = []
    base = 0
    while bit_set:
        chunk = bit_set & 0xFFFFFFFFFFFFFFFF
        while chunk:
            low = chunk & -chunk
            out.append(base + low.bit_length() - 1)
            chunk ^= low
        bit_set >>= 64
        base += 64
    return tuple(out)


def post_dominators(graph: Graph) -> list[int]:
    """The immediate post-dominator of every block; len(graph) is the exit, after all blocks that
    have no successor (and where a loop without exit goes)."""
    n = len(graph)
    forward = [list(s) if s else [n] for s in graph] + [[]]
    backward: list[list[int]] = [[] for _ in range(n + 1)]
    for node, successors in enumerate(forward):
        for s in successors:
            backward[s].append(node)
    order = _post_order(backward, n)
    for node in range(n):
        if node not in order:  # never leaves: as if it could
            forward[node].append(n)
            backward[n].append(node)
    order = _post_order(backward, n)
    found: dict[int, int] = {n: n}
    changed = True
    ranked = sorted((node for node in order if node != n), key=lambda node: -order[node])
    while changed:
        changed = False
        for node in ranked:
            known = [s for s in forward[node] if s in found]
            if not known:
                continue
            best = known[0]
            for other in known[1:]:
                best = _meet(found, order, best, other)
            if found.get(node) != best:
                found[node] = best
                changed = True
    return [found.get(node, n) for node in range(n)]


def _meet(found: dict[int, int], order: dict[int, int], a: int, b: int) -> int:
    while a != b:
        while order[a] < order[b]:
            a = found[a]
        while order[b] < order[a]:
            b = found[b]
    return a


def _post_order(graph: Graph, entry: int) -> dict[int, int]:
    seen = {entry}
    order: dict[int, int] = {}
    walk = [(entry, iter(graph[entry]))]
    while walk:
        node, successors = walk[-1]
        for s in successors:
            if s not in seen:
                seen.add(s)
                walk.append((s, iter(graph[s])))
                break
        else:
            walk.pop()
            order[node] = len(order)
    return order


def between(graph: Graph, start: int, end: int) -> set[int]:
    """Blocks on a way from a successor of `start` to `end`, without both."""
    seen: set[int] = set()
    work = [s for s in graph[start] if s != end]
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        work += [s for s in graph[node] if s != end and s not in seen]
    return seen
