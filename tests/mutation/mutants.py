"""Mutants of PTX text: one wait, arrival, commit, fence or barrier left out, or a number changed.

Control flow stays as it is: a wait that is left out leaves a true predicate behind, so that its
loop ends. Numbers that stand in registers are changed in a register of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(
    r"^(?P<indent>\s*)(?P<guard>@!?[%\w$]+\s+)?(?P<op>[a-z][\w.:]*)(?P<rest>.*);\s*$"
)

_DELETED = re.compile(
    r"mbarrier\.(?:try_wait|test_wait|arrive|arrive_drop|expect_tx|complete_tx)\b"
    r"|cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all)\b"
    r"|cp\.async\.mbarrier\.arrive\b"
    r"|wgmma\.(?:fence|commit_group|wait_group)\b"
    r"|tcgen05\.(?:commit|wait|fence)\b"
    r"|fence\b|membar\b|bar\b|barrier\b|griddepcontrol\.wait\b"
)


@dataclass(frozen=True)
class Mutant:
    """`what` was done at `line` (from 1) to `instruction`; `text` is the whole kernel."""

    what: str
    line: int
    instruction: str
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.what}: {self.instruction}"


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a kernel, in the order of its lines."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if not match:
            continue
        for what, new in _changes(match):
            changed = [*lines[:number], *new, *lines[number + 1 :]]
            yield Mutant(what, number + 1, line.strip(), "\n".join(changed))


def _changes(match: re.Match[str]) -> Iterator[tuple[str, list[str]]]:
    op, operands = match["op"], _operands(match["rest"])
    if _DELETED.match(op):
        yield "delete", _deleted(op, operands)
    for what, position, change in _numbers(op, operands):
        new = _changed(match, operands, position, change)
        if new is not None:
            yield what, new


def _deleted(op: str, operands: list[str]) -> list[str]:
    """What stands for an instruction that is gone: its results, defined."""
    if re.match(r"mbarrier\.(try_wait|test_wait)", op):
        return [f"\tsetp.eq.u32 {operands[0].split('|')[0]}, 0, 0;"]
    if op.startswith("mbarrier.arrive") and not operands[0].startswith(("_", "[")):
        return [f"\tmov.b64 {operands[0]}, 0;"]
    return []


def _numbers(op: str, operands: list[str]) -> Iterator[tuple[str, int, str]]:
    """(what, operand, change) for each number to change: "+n", "-n" or "^1"."""
    last = len(operands) - 1
    if re.match(r"mbarrier\.(try_wait|test_wait)", op) and ".parity" in op:
        yield "flip the parity of", 2, "^1"
    elif op.startswith("mbarrier.init"):
        yield "one more expected by", 1, "+1"
        yield "one less expected by", 1, "-1"
    elif ".expect_tx" in op or op.startswith("mbarrier.complete_tx"):
        for change in ("+1", "-1", "+16", "-16"):
            yield f"{change} bytes in", last, change
    elif op.startswith("mbarrier.arrive") and last == 2:
        yield "one more arrival in", 2, "+1"
    elif re.match(r"(bar|barrier)(\.cta)?\.(sync|arrive)", op) and last == 1:
        yield "one warp more in", 1, "+32"
        yield "one warp less in", 1, "-32"
    elif re.match(r"(cp\.async\.(bulk\.)?|wgmma\.)wait_group", op):
        yield "one group more pending after", 0, "+1"
        yield "one group less pending after", 0, "-1"
    elif re.match(r"cp\.async\.bulk\.shared::", op) and last >= 3:
        yield "+16 bytes copied by", 2, "+16"
        yield "-16 bytes copied by", 2, "-16"


def _changed(
    match: re.Match[str], operands: list[str], position: int, change: str
) -> list[str] | None:
    """The instruction with one operand changed; None where that is no number (below 0)."""
    old = operands[position]
    guard, op = match["guard"] or "", match["op"]
    if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", old):
        value = int(old, 0)
        value = value ^ 1 if change == "^1" else value + int(change)
        if value < 0 or (op.startswith(("bar", "mbarrier.init")) and value == 0):
            return None
        new = [*operands[:position], str(value), *operands[position + 1 :]]
        return [f"\t{guard}{op} {', '.join(new)};"]
    new = [*operands[:position], "%mutant", *operands[position + 1 :]]
    by = "xor.b32 %mutant, {}, 1;" if change == "^1" else "add.s32 %mutant, {}, " + change + ";"
    return [
        "\t{",
        "\t.reg .b32 %mutant;",
        "\t" + by.format(old).replace(", +", ", "),
        f"\t{guard}{op} {', '.join(new)};",
        "\t}",
    ]


def _operands(text: str) -> list[str]:
    """Split at commas outside brackets and braces."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[{(") - (c in "]})")
        if c == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    found.append(text[start:].strip())
    return found
