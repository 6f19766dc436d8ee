"""Whether every schedule of a launch of a TTGIR kernel is free of faults.

The module is traced once for every way that its programs can go (`interp.tracing`), every trace is
verified as that of a PTX kernel is (`verify`), and the answers are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.arguments import is_flag, open_arguments, representative, said
from xttir.analyses.events import Trace
from xttir.analyses.paths import Lines
from xttir.analyses.verify import Report, distinct, verify_trace
from xttir.diagnostics import Fault, Policy, Unsupported, Verdict
from xttir.interp.tracing import Launch, trace_module


def verify_module(
    module: ModuleOp, launch: Launch, *, strict: bool = False, pair: Lines | None = None
) -> Report:
    """The verdict on all schedules of a kernel whose shared memory is allocated and whose barriers
    stand in the module. Numbers that decide something and are not given get values of ours
    (`arguments`); flags are taken both ways wherever they are asked for, or where that is not
    supported once for all. See `verify_trace` for `strict` and `pair`. Raises `InputError` and
    `Unsupported`."""
    missing = open_arguments(module, launch)
    flags = [n for n in missing if is_flag(module, launch, n)]
    numbers = [n for n in missing if n not in flags]
    question = _Question(module, numbers, strict, pair)
    try:
        return question.answer(launch)
    except Unsupported:
        if not flags:
            raise
    both = [
        replace(launch, arguments={**launch.arguments, **dict.fromkeys(flags, value)})
        for value in (False, True)
    ]
    result = merged([question.answer(one) for one in both], strict)
    if len(flags) > 1:
        result.assumptions.append(f"flags that were not given are all alike: {len(flags)} of them")
    return result


@dataclass(frozen=True)
class _Question:
    module: ModuleOp
    missing: list[int]
    strict: bool
    pair: Lines | None

    def answer(self, launch: Launch) -> Report:
        """The verdict on a launch; the `missing` numbers get values."""
        if not self.missing:
            return self._merged(trace_module(self.module, launch))
        reports: list[Report] = []
        tried: list[tuple[Launch, int]] = []
        for given, value, traces in representative(self.module, launch, self.missing):
            reports.append(self._merged(traces))
            tried.append((given, value))
        result = merged(reports, self.strict)
        if result.verdict is Verdict.VERIFIED:
            values = [value for _, value in tried]
            result.assumptions += said(self.module, tried[-1][0], self.missing, values)
        return result

    def _merged(self, traces: Sequence[Trace]) -> Report:
        found = [verify_trace(t, strict=self.strict, pair=self.pair) for t in traces]
        return merged(found, self.strict)


def merged(reports: Sequence[Report], strict: bool = False) -> Report:
    """What several traces of one launch say together: free of faults when all of them are."""
    faults: list[Fault] = []
    result = Report(Verdict.VERIFIED, faults, [], [], stats={"traces": 0})
    for report in reports:
        faults += report.faults
        result.assumptions += report.assumptions
        result.unknown += report.unknown
        result.explanation += report.explanation
        result.tickets += report.tickets
        result.paths = result.paths or report.paths
        for name, count in ({"traces": 1} | report.stats).items():
            result.stats[name] = result.stats.get(name, 0) + count
    result.faults = distinct(faults)
    result.assumptions = list(dict.fromkeys(result.assumptions))
    result.unknown = list(dict.fromkeys(result.unknown))
    if any(strict or f.policy is not Policy.STRICT for f in result.faults):
        result.verdict = Verdict.FAULT
    elif result.unknown:
        result.verdict = Verdict.UNKNOWN
    return result
