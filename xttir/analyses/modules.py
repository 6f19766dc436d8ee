"""Whether every schedule of a launch of a TTGIR kernel is free of faults.

The module is traced once for every way that its programs can go (`interp.tracing`), every trace is
verified as that of a PTX kernel is (`verify`), and the answers are put together.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.arguments import open_arguments, representative, said
from xttir.analyses.paths import Lines
from xttir.analyses.verify import Report, distinct, verify_trace
from xttir.diagnostics import Fault, Policy, Verdict
from xttir.interp.tracing import Launch, trace_module


def verify_module(
    module: ModuleOp, launch: Launch, *, strict: bool = False, pair: Lines | None = None
) -> Report:
    """The verdict on all schedules of a kernel whose shared memory is allocated and whose barriers
    stand in the module. Arguments that decide something and are not given get values of ours
    (`arguments`). See `verify_trace` for `strict` and `pair`. Raises `InputError` and
    `Unsupported`."""
    missing = open_arguments(module, launch)
    if not missing:
        traces = trace_module(module, launch)
        return merged([verify_trace(t, strict=strict, pair=pair) for t in traces], strict)
    reports: list[Report] = []
    tried: list[tuple[Launch, int]] = []
    for given, value, traces in representative(module, launch, missing):
        reports += (verify_trace(t, strict=strict, pair=pair) for t in traces)
        tried.append((given, value))
    result = merged(reports, strict)
    if result.verdict is Verdict.VERIFIED:
        values = [value for _, value in tried]
        result.assumptions += said(module, tried[-1][0], missing, values)
    return result


def merged(reports: Sequence[Report], strict: bool = False) -> Report:
    """What several traces of one launch say together: free of faults when all of them are."""
    faults: list[Fault] = []
    result = Report(Verdict.VERIFIED, faults, [], [], stats={"traces": len(reports)})
    for report in reports:
        faults += report.faults
        result.assumptions += report.assumptions
        result.unknown += report.unknown
        result.explanation += report.explanation
        result.tickets += report.tickets
        result.paths = result.paths or report.paths
        for name, count in report.stats.items():
            result.stats[name] = result.stats.get(name, 0) + count
    result.faults = distinct(faults)
    result.assumptions = list(dict.fromkeys(result.assumptions))
    result.unknown = list(dict.fromkeys(result.unknown))
    if any(strict or f.policy is not Policy.STRICT for f in result.faults):
        result.verdict = Verdict.FAULT
    elif result.unknown:
        result.verdict = Verdict.UNKNOWN
    return result
