"""Verifies a launch: traces it, and once more the other way round where one trace is too few.

Where blocks draw tickets (the last one to come does the rest), the trace has chosen who is last.
Whether another choice is as good is tried with the opposite one: the last blocks first. The same is
done where a flag says which of two things is done next: each must have been done in one of them.
Where lanes write one place by one instruction, another trace finds out whether they write one
value, as they do where a tile has replicas.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.events import Trace
from xttir.analyses.paths import Lines
from xttir.analyses.spins import ANOTHER_WAY
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import Verdict
from xttir.frontends.launch_description import LaunchDescription
from xttir.garbage import no_collection


@no_collection()
def verify_launch(
    module: ModuleOp,
    launch: LaunchDescription,
    *,
    strict: bool = False,
    pair: Lines | None = None,
    most_steps: int = 0,
) -> tuple[Trace, Report]:
    """A trace of the launch and the verdict on all schedules; see `verify_trace`.
    `most_steps`: of a trace, 0: the executor's choice. Raises InputError and Unsupported."""
    from xttir.interp.ptx.trace import trace

    found = trace(module, launch, most_steps=most_steps)
    report = verify_trace(found, strict=strict, pair=pair)
    copies = report.copies
    if copies:
        found = trace(module, launch, most_steps=most_steps, fingerprints=True)
        report = verify_trace(found, strict=strict, pair=pair)
    another_way = any(ANOTHER_WAY in why for why in report.unknown)
    if another_way or (report.verdict is Verdict.VERIFIED and report.tickets):
        mirrored = trace(module, launch, backward=True, most_steps=most_steps, fingerprints=copies)
        other = verify_trace(mirrored, strict=strict, taken=report.taken)
        if another_way:
            report = verify_trace(found, strict=strict, pair=pair, taken=report.taken)
        _both(report, other)
    return found, report


def _both(report: Report, other: Report) -> None:
    """The verdict where one order of the blocks was verified, and `other` is that of another."""
    worse = (Verdict.FAULT, Verdict.UNKNOWN)
    report.verdict = next((v for v in worse if v in (report.verdict, other.verdict)), other.verdict)
    report.faults += [f for f in other.faults if f not in report.faults]
    report.unknown += other.unknown
    report.stats["orders"] = 2
    report.assumptions += [a for a in other.assumptions if a not in report.assumptions]
    report.assumptions.append("tickets were drawn in two orders: the first blocks first, and last")
