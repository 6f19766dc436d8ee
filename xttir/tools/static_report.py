"""What `verify` and `run` found of compiled kernels: a `Report` with one outcome per launch.

The verdict follows the same rules as everywhere: what could not be looked at is never `verified`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xttir.diagnostics import Verdict
from xttir.tools.report import Report


@dataclass
class Outcome:
    """One kernel at one launch.

    `done`: what the analyses went through, by name ("events", "phases", ...), for people.
    `details`: paragraphs of `--explain`. `index`: which launch of a script, 0 for a PTX file.
    """

    kernel: str
    file: str
    launch: str
    arch: str = ""
    index: int = 0
    blocks: int = 0
    threads: int = 0
    seconds: float = 0.0
    faults: int = 0
    warnings: int = 0
    """Findings that only the letter of the rules forbids, where those are no faults."""
    finished: bool = False
    done: dict[str, int] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)
    result: list[str] = field(default_factory=list)
    """What `run` says of each output, a line each; the contract of every size."""
    every_size: bool = False
    """Whether this is about the kernel's TTIR for every size, not about one launch."""
    compared: bool = True
    """Of `run`: whether there was a reference to compare the outputs with."""
    level: str = "ptx"
    """What of the kernel was looked at: "ptx", "ttgir" or "ttir"."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "file": self.file,
            "arch": self.arch,
            "launch": self.launch,
            "index": self.index,
            "blocks": self.blocks,
            "threads": self.threads,
            "seconds": round(self.seconds, 6),
            "faults": self.faults,
            "warnings": self.warnings,
            "finished": self.finished,
            "done": dict(self.done),
            "details": list(self.details),
            "result": list(self.result),
            "every_size": self.every_size,
            "level": self.level,
        }


@dataclass
class StaticReport(Report):
    """The outcome of `verify` or `run`. `assumed`: what the verdict rests on, each once."""

    command: str = "verify"
    outcomes: list[Outcome] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Launches that were left out, with the reason."""

    @property
    def verdict(self) -> Verdict:
        found = super().verdict
        if found is Verdict.VERIFIED and not all(o.finished for o in self.outcomes):
            return Verdict.UNKNOWN
        if found is Verdict.VERIFIED and not self.outcomes:
            return Verdict.UNKNOWN
        return found

    def assume(self, texts: list[str]) -> None:
        """Add assumptions that are not there yet."""
        self.assumed += [text for text in texts if text not in self.assumed]

    def assumptions(self) -> list[str]:
        return list(self.assumed)

    def not_checked(self) -> list[dict[str, Any]]:
        return self.left_out()
