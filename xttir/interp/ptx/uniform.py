"""Branches on data that all lanes of a warp take the same way: votes, and what is made of them.

Instructions of a whole warp may stand behind such a branch and no other. Of tensor memory that is
loads and stores which are waited for in their own block of code: then nothing is under way where
the two ways part or meet, and a wait says nothing of what was issued elsewhere. PTX ISA 9.1,
9.7.13.7 (vote) and 9.7.16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xttir.interp.ptx import cfg
from xttir.interp.ptx.code import Block, slots_of, used
from xttir.interp.ptx.groups import Groups
from xttir.interp.ptx.instruction import Ins, Special

if TYPE_CHECKING:
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group
    from xttir.interp.ptx.plan import Plan

_VOTES = frozenset(("vote", "redux", "barrier.red"))
_SAME = ("ctaid", "nctaid", "ntid", "cluster", "nclusterid", "warpid", "nwarpid", "gridid")
_WAITS = {"tcgen05.ld": "tcgen05.wait::ld", "tcgen05.ld.red": "tcgen05.wait::ld"}
_WAITS |= {"tcgen05.st": "tcgen05.wait::st"}
TENSOR = frozenset((*_WAITS, *_WAITS.values()))
"""Instructions of a warp that a branch by a vote may decide."""


def uniform(plan: Plan, block: Block) -> bool:
    """Whether all lanes of a warp leave a block the same way, as the code shows."""
    guard = block.ending.guard
    if guard is None:
        return True
    writers: dict[int, list[Ins]] = {}
    for raw in plan.raw:
        for ins in raw.instructions:
            for slot in cfg.members(slots_of(ins.dst)):
                writers.setdefault(slot, []).append(ins)
    seen: set[int] = set()
    work = [guard.slot]
    while work:
        slot = work.pop()
        if slot in seen:
            continue
        seen.add(slot)
        for ins in writers.get(slot, ()):
            if ins.name in _VOTES and ins.guard is None:
                continue
            if ins.name == "ld" and "param" in ins.modifiers:
                continue
            if not plan.is_scalar(ins):
                return False
            if any(isinstance(s, Special) and not s.name.startswith(_SAME) for s in ins.src):
                return False
            work += cfg.members(used(ins))
    return True


def obstacle(plan: Plan, number: int) -> str:
    """What tensor memory instructions of a block of code are left open at its end, or ""."""
    open_: dict[str, Ins] = {}
    for ins in plan.raw[number].instructions:
        if ins.name in _WAITS:
            open_[_WAITS[ins.name]] = ins
        open_.pop(ins.name, None)
    for wait, ins in open_.items():
        return f"{ins.name} at {plan.location(ins)} is not followed by {wait} before the next label"
    return ""


def under_way(executor: Executor, group: Group) -> bool:
    """Whether loads or stores of tensor memory of these lanes have not been waited for."""
    for engine in ("tcgen05.ld", "tcgen05.st"):
        found: Groups | None = executor.state.get(f"groups {engine}")
        if found is not None and found.has(group.lanes):
            return True
    return False
