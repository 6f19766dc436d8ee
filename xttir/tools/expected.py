"""`// expected-error@+1 {{text}}` comments: which diagnostics a test file says it must give.

The syntax is that of MLIR's `--verify-diagnostics`: the place is the line of the comment, plus or
minus a number, `above` or `below` (the nearest line without such a comment), or `unknown`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xttir.diagnostics import InputError

_COMMENT = re.compile(
    r"//.*?expected-(error|warning|note|remark)(-re)?"
    r"(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*)\}\}\s*$"
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
    unexpected: list[InputError] = field(default_factory=list)

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
        """Tick off the comment that `error` answers."""
        line = error.location.line if error.location else 0
        for comment in self.comments:
            if (
                not comment.met
                and comment.kind == "error"
                and comment.line in (0, line)
                and comment.pattern.search(error.what)
            ):
                comment.met = True
                return
        self.unexpected.append(error)

    def failures(self, name: str) -> list[str]:
        """One line for every comment not met and every diagnostic that no comment names."""
        lines = [
            f"{name}:{comment.comment_line}: error: "
            f'expected {comment.kind} "{comment.text}" was not produced'
            for comment in self.comments
            if not comment.met
        ]
        return lines + [f"{error} (unexpected)" for error in self.unexpected]


def _with_regular_parts(body: str) -> str:
    """`expected-error-re`: literal text with regular expressions between `{{` and `}}`."""
    parts = re.split(r"\{\{(.*?)\}\}", body)
    return "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
