"""The one diagnostic type: what every check reports and every command prints.

Kinds, policies and exit codes are closed sets, the same words in text, JSON and SARIF.
Rendering lives in `xttir.tools.render`; nothing else turns a `Fault` into text.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any


class Kind(enum.StrEnum):
    """What went wrong. The words are part of the published JSON schema."""

    OUT_OF_BOUNDS = "out-of-bounds"
    RACE = "race"
    UNINITIALIZED = "uninitialized"
    UNDEFINED = "undefined"
    INT_OVERFLOW = "int-overflow"
    ASSERT = "assert"
    PHASE = "phase"
    PROXY = "proxy"
    DEADLOCK = "deadlock"
    DIVERGENCE = "divergence"
    LIFETIME = "lifetime"
    SCOPE = "scope"
    MISMATCH = "mismatch"
    RESOURCE = "resource"
    MISUSE = "misuse"


class Policy(enum.StrEnum):
    """Whether a fault shows in practice or only by the letter of the rules."""

    ANY = "any"
    STRICT = "strict"


class Verdict(enum.StrEnum):
    VERIFIED = "verified"
    FAULT = "fault"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"
    ERROR = "error"


EXIT_CODES: dict[Verdict, int] = {
    Verdict.VERIFIED: 0,
    Verdict.FAULT: 1,
    Verdict.ERROR: 2,
    Verdict.UNKNOWN: 3,
    Verdict.UNSUPPORTED: 3,
}


@dataclass(frozen=True)
class Location:
    """A place in the user's source. `line` and `column` count from 1; 0 means not known.

    `role` says what happens there ("store", "load by program (1, 0, 0)", "called from", ...).
    """

    file: str
    line: int = 0
    column: int = 0
    role: str = ""
    function: str = ""

    def with_role(self, role: str) -> Location:
        """The same place, where something else happens."""
        return replace(self, role=role)

    def __str__(self) -> str:
        text = self.file or "<unknown>"
        if self.line:
            text += f":{self.line}"
            if self.column:
                text += f":{self.column}"
        return text


@dataclass(frozen=True)
class Fault:
    """One finding.

    `message` is one line without the place. `locations[0]` is the place to look first; then come
    the other side of a race, call sites, and so on. `notes` are facts with numbers, `hint` what
    to try. `witness` is JSON-able data that lets a person or a tool check the claim
    (program ids, lanes, element indices). `count` is the number of elements or occurrences.
    """

    kind: Kind
    message: str
    kernel: str = ""
    locations: tuple[Location, ...] = ()
    policy: Policy = Policy.ANY
    notes: tuple[str, ...] = ()
    hint: str = ""
    witness: dict[str, Any] = field(default_factory=dict)
    confirmed: bool = True
    count: int = 1
    launch: int = 0
    launch_text: str = ""
    """Grid and scalar arguments of the launch, for the header of the report."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Faults with equal keys are one fault seen several times."""
        return (self.kind, self.policy, self.kernel, self.locations, self.message)


class XttirError(Exception):
    """Base of errors that are not faults of the program under test. Exit code 2."""

    exit_code = 2


class Unsupported(XttirError):
    """An op, type or feature without a meaning here. Never guessed at. Exit code 3."""

    exit_code = 3

    def __init__(self, what: str, location: Location | None = None, hint: str = ""):
        super().__init__(what)
        self.what = what
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        return f"{place}unsupported: {self.what}" + (f" ({self.hint})" if self.hint else "")


class InputError(XttirError):
    """Input that cannot be read: no such file, a parse error, a wrong argument."""

    def __init__(self, what: str, location: Location | None = None, hint: str = ""):
        super().__init__(what)
        self.what = what
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        return f"{place}error: {self.what}" + (f" ({self.hint})" if self.hint else "")
