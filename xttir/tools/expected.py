"""`// expected-error@+1 {{text}}` comments: which diagnostics a test file says it must give.

The syntax is that of MLIR's `--verify-diagnostics`: the place is the line of the comment, plus or
minus a number, `above` or `below` (the nearest line without such a comment), or `unknown`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xttir.diagnostics import Fault, InputError

_COMMENT = re.compile(
    r"//.*?expected-(error|warning|note|remark)(-re)?"
    r"\s*(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*)\}\}\s*$"
)


@dataclass
class Expected:
    """One comment. `line` is where the diagnostic must be; 0 for anywhere."""

    kind: str
    pattern: re.Pattern[str]
    text: str
    line: int
    comment_line: int
    met: bool = False


@dataclass
class Expectations:
    """The comments of one input, and what was given against them."""

    comments: list[Expected] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Expectations:
        """All comments of `text`."""
        lines = text.split("\n")
        with_comment = [_COMMENT.search(line) is not None for line in lines]
        found = cls()
        for number, line in enumerate(lines, 1):
            for match in _COMMENT.finditer(line):
                kind, regular, place, body = match.groups()
                pattern = _with_regular_parts(body) if regular else re.escape(body)
                at = number
                if place == "unknown":
                    at = 0
                elif place in ("above", "below"):
                    step = -1 if place == "above" else 1
                    at = number + step
                    while 0 < at <= len(lines) and with_comment[at - 1]:
                        at += step
                elif place:
                    at = number + int(place)
                found.comments.append(Expected(kind, re.compile(pattern), body, at, number))
        return found

    @property
    def any(self) -> bool:
        return bool(self.comments)

    def meet(self, error: InputError) -> None:
        """Tick off the comment that an error in the input answers."""
        line = error.location.line if error.location else 0
        if not self._ticked("error", error.what, line):
            self.unexpected.append(str(error))

    def meet_fault(self, fault: Fault, warning: bool) -> None:
        """Tick off the comment that a fault answers, at any of its places, and those that its
        notes answer. A note needs no comment."""
        kind = "warning" if warning else "error"
        lines = [place.line for place in fault.locations] or [0]
        if not any(self._ticked(kind, fault.message, line) for line in lines):
            place = f"{fault.locations[0]}: " if fault.locations else ""
            self.unexpected.append(f"{place}{kind}: {fault.message}")
        for note in (*fault.notes, *([fault.hint] if fault.hint else [])):
            for line in lines:
                if self._ticked("note", note, line):
                    break

    def _ticked(self, kind: str, text: str, line: int) -> bool:
        for comment in self.comments:
            if (
                not comment.met
                and comment.kind == kind
                and comment.line in (0, line)
                and comment.pattern.search(text)
            ):
                comment.met = True
                return True
        return False

    def failures(self, name: str) -> list[str]:
        """One line for every comment not met and every diagnostic that no comment names."""
        lines = [
            f"{name}:{comment.comment_line}: error: "
            f'expected {comment.kind} "{comment.text}" was not produced'
            for comment in self.comments
            if not comment.met
        ]
        return lines + [f"{text} (unexpected)" for text in self.unexpected]


def _with_regular_parts(body: str) -> str:
    """`expected-error-re`: literal text with regular expressions between `{{` and `}}`."""
    parts = re.split(r"\{\{(.*?)\}\}", body)
    return "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
