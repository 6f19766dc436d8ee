"""What `validate` found: a report with one table of stages per kernel and launch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xttir.diagnostics import Location, Verdict
from xttir.refine.status import MISMATCH, UNSUPPORTED
from xttir.tools.report import Report

if TYPE_CHECKING:
    from xttir.refine.stages import Row, Validation


@dataclass
class Subject:
    """One kernel whose stages were compared.

    `title`: its name; `about`: launch or file, for people. `pairs`: whether two given files were
    compared rather than passes. `diff`: what the first bad pass changed.
    """

    title: str
    about: str
    validation: Validation
    site: Location | None = None
    pairs: bool = False
    diff: tuple[str, ...] = ()
    index: int = 0

    @property
    def first(self) -> Row | None:
        return self.validation.first

    def to_json(self) -> dict[str, Any]:
        """As in the published schema."""
        found = self.validation
        first = self.first
        return {
            "kernel": found.kernel,
            "about": self.about,
            "index": self.index,
            "inputs": len(found.cases),
            "inputs_left_out": dict(found.skipped),
            "first_bad_pass": first.stage.name if first else None,
            "first_bad_step": first.inner.stage.name if first and first.inner else None,
            "diff": list(self.diff),
            "stages": [_row_json(row) for row in found.rows],
        }


def _row_json(row: Row) -> dict[str, Any]:
    stage = row.stage
    return {
        "index": row.index,
        "pass": stage.name,
        "pipeline": stage.pipeline,
        "part": stage.part,
        "status": row.status,
        "inputs": row.cases,
        "unsupported": str(row.unsupported) if row.unsupported is not None else None,
    }


@dataclass
class ValidateReport(Report):
    """The outcome of `validate`."""

    command: str = "validate"
    subjects: list[Subject] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What differs and is no fault, a line each."""

    @property
    def verdict(self) -> Verdict:
        found = super().verdict
        if found is not Verdict.VERIFIED:
            return found
        return Verdict.VERIFIED if self.subjects else Verdict.UNKNOWN

    def assume(self, text: str) -> None:
        """Add an assumption that is not there yet."""
        if text not in self.assumed:
            self.assumed.append(text)

    def assumptions(self) -> list[str]:
        return list(self.assumed)

    def not_checked(self) -> list[dict[str, Any]]:
        return self.left_out()


def runs(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Rows next to each other that say the same, as (first, last)."""
    out: list[tuple[Row, Row]] = []
    bad = False
    for row in rows:
        bad |= row.status == MISMATCH
        joins = (
            out
            and row.status not in (MISMATCH, UNSUPPORTED)
            and out[-1][1].status not in (MISMATCH, UNSUPPORTED)
        )
        if joins:
            out[-1] = (out[-1][0], row)
        else:
            out.append((row, row))
    return out
