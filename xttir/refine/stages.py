"""A program at every stage of a compilation, run on the same inputs: the first stage that means
something else names the pass at fault.

Stages whose text is the same are one. Each distinct stage runs on every case, on its own copy of
memory, and is compared with the last stage before it that was found right, so that a pass is judged
by what it was given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Fault, InputError, Kind, Unsupported, XttirError
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module
from xttir.frontends.module_launch.signature import find_function
from xttir.garbage import no_collection
from xttir.refine import inputs
from xttir.refine.compare import Difference, compare
from xttir.refine.meaning import meaning
from xttir.refine.outcome import MAX_TRIPS, POLICY, Outcome, run_case
from xttir.refine.status import AFTER, MATCH, MISMATCH, ROUNDING, SAME, UNSUPPORTED
from xttir.refine.world import Case, with_descriptors


@dataclass(eq=False)
class Stage:
    """A module as a pass left it.

    `name`: the pass that made it ("" for the source), `pipeline` its textual form with options,
    `part` the compiler's own stage ("ttir", "ttgir"). `file`: what errors in `text` are told to
    be in. `located`: the same module with locations, if `text` has none. `printed`: as the compiler
    prints it, if `text` is not that.
    """

    name: str
    text: str
    pipeline: str = ""
    part: str = ""
    file: str = ""
    located: str = ""
    printed: str = ""

    def module(self, verify: bool = False) -> ModuleOp:
        """The parsed text. Raises `InputError` and `Unsupported`."""
        file = self.file or f"{self.name or 'source'}.mlir"
        return parse_module(self.text, file, verify=verify)

    def module_with_locations(self) -> ModuleOp:
        """The same program with locations in the user's source, where they are known."""
        if not self.located:
            return self.module()
        return parse_module(self.located, self.file or f"{self.name}.loc.mlir", verify=False)


@dataclass(frozen=True, eq=False)
class Finding:
    """A difference that a stage makes on a case, against the stage it was compared with."""

    stage: int
    base: int
    case: Case
    difference: Difference


@dataclass(frozen=True, eq=False)
class Inner:
    """The step at fault inside a pass. `stage`: what it made. `before`: the last module inside the
    pass that was found right. `unsure`: steps between the two that could not be run."""

    stage: Stage
    before: Stage
    unsure: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What to say of it after its name."""
        text = f", the first step after {self.before.name or 'the source'} to do something else"
        if self.unsure:
            text += f", of those that could be run (not {', '.join(self.unsure)})"
        return text


@dataclass(eq=False)
class Row:
    """One stage's line of the table. `status`: see `refine.status`. `cases`: on how many cases it
    was compared. `like`: an earlier stage that a run could not tell from it, or -1. `layouts`: ops
    whose layouts do not fit, which the stage before did not have. `unjudged`: ops whose layouts
    have no meaning here, by reason. `invalid`: why the module does not verify (asked of files of
    the user's alone: the compiler has verified what it prints). `inner`: which step of the pass is
    at fault, if it has several and one of them was found to be."""

    index: int
    stage: Stage
    status: str = MATCH
    cases: int = 0
    like: int = -1
    findings: list[Finding] = field(default_factory=list)
    unsupported: XttirError | None = None
    layouts: list[Fault] = field(default_factory=list)
    unjudged: dict[str, int] = field(default_factory=dict)
    invalid: Fault | None = None
    inner: Inner | None = None


@dataclass(eq=False)
class Validation:
    """What was found. `rows`: one per stage. `cases`: those on which the source is defined;
    `skipped`: how many were left out, by reason. `notes`: what to know of those that were not.
    `kernel`: its name."""

    kernel: str
    rows: list[Row]
    cases: list[Case] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def findings(self) -> list[Finding]:
        """The faults of all stages, in order."""
        return [f for row in self.rows for f in row.findings if f.difference.is_fault]

    @property
    def first(self) -> Row | None:
        """The first stage that changes the meaning."""
        return next((r for r in self.rows if r.status == MISMATCH), None)

    @property
    def unsupported(self) -> list[Row]:
        return [r for r in self.rows if r.status == UNSUPPORTED]

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


FENCES = "triton-nvidia-gpu-fence-insertion"
"""The pass after which proxy fences between partitions stand."""

MAX_SIMPLER = 16
"""Steps in which a case that shows a fault is made plainer."""


def validate(
    stages: Sequence[Stage],
    cases: Sequence[Case] | None = None,
    *,
    kernel: str = "",
    limit: int = inputs.LIMIT,
    seed: int = 0,
    stop_at_first: bool = False,
) -> Validation:
    """Run every distinct stage on `cases` and on edge cases made from the first of them (all are
    made when there are none), and compare. `limit`: edge cases made at most.

    Raises `InputError` when the first stage cannot be read or has no such kernel.
    """
    run = _Validator(list(stages), kernel, limit, seed, stop_at_first)
    with no_collection():
        return run.run(list(cases or ()))


def refines(source: str, target: str, cases: Sequence[Case] | None = None, **options: int) -> bool:
    """Whether the module text `target` does what `source` does, as far as running them can tell.
    Raises `Unsupported` where that cannot be asked."""
    stages = [Stage("", source), Stage("target", target)]
    result = validate(stages, cases, stop_at_first=True, **options)  # pyright: ignore
    for row in result.unsupported:
        assert row.unsupported is not None
        raise row.unsupported
    return result.first is None


_good_lines: set[str] = set()
"""Lines of modules in whose layouts nothing was found."""
MANY_LINES = 1 << 14


class _Validator:
    def __init__(
        self, stages: list[Stage], kernel: str, limit: int, seed: int, stop_at_first: bool
    ):
        self.stages = stages
        self.limit, self.seed, self.stop_at_first = limit, seed, stop_at_first
        self.name = kernel
        self.result = Validation(kernel, [Row(n, s) for n, s in enumerate(stages)])
        self.prepared: dict[int, tuple[ModuleOp, tt.FuncOp]] = {}

    def run(self, cases: list[Case]) -> Validation:
        self._distinct()
        for row in self.result.rows:
            if row.stage.file:
                self._verify(row)
        first = self._first_runnable()
        if first is None:
            return self.result
        module, kernel = self.prepared[first]
        self.result.kernel = self.name = kernel.sym_name.data
        self._layouts()
        cases = [with_descriptors(case, [a.type for a in kernel.args]) for case in cases]
        base = cases[0] if cases else None
        self.generator = inputs.Generator(module, kernel, base, self.seed, self._last(first))
        for case in (*cases, *self.generator.cases(self.limit)):
            self._case(first, case)
            if self.stop_at_first and self.result.first is not None:
                break
        self._conclude(first)
        for row in self.result.rows:
            if any(f.difference.is_fault for f in row.findings):
                self._simplify(row)
                self._look_inside(row)
        return self.result

    def _last(self, first: int) -> tuple[ModuleOp, tt.FuncOp] | None:
        """The last stage, if it is another and takes the same parameters: what it decides on may
        be what a pass brought in."""
        for row in reversed(self.result.rows[first + 1 :]):
            if row.status != SAME and row.invalid is None and self._prepare(row):
                found = self.prepared[row.index]
                same = len(found[1].args) == len(self.prepared[first][1].args)
                return found if same else None
        return None

    def _look_inside(self, row: Row) -> None:
        """Which step of the pass is at fault."""
        if not row.stage.pipeline:
            return
        from xttir.refine.nested import look_inside

        finding = next(f for f in row.findings if f.difference.is_fault)
        base = self.stages[finding.base]
        row.inner = look_inside(base, row.stage, finding, self.result.kernel)

    def _distinct(self) -> None:
        """Give stages with the same text the same key."""
        text = ""
        before: tuple[str, int] = ("", -1)
        for row in self.result.rows:
            last, text = text, plain_text(row.stage.text)
            if row.index and text == last:
                row.status = SAME
                continue
            # The normal form is one of what Triton prints; people write otherwise.
            found = row.stage.text if row.stage.file else meaning(text)
            if found == before[0]:
                row.like = before[1]
            else:
                before = found, row.index

    def _verify(self, row: Row) -> None:
        """Read a file of the user's. One that can be read and does not verify is a finding, but for
        the source."""
        try:
            row.stage.module(verify=True)
        except InputError as error:
            if row.index == 0:
                raise
            self._prepare(row)
            places = () if error.location is None else (error.location,)
            row.invalid = Fault(Kind.MISUSE, f"does not verify: {error.what}", locations=places)
            row.status = MISMATCH
        except Unsupported as error:
            self._unsupported(row, error)

    def _layouts(self) -> None:
        """Check that each lane holds what the types say, once per distinct text: a run of values
        without layouts cannot see it."""
        before: set[tuple[str, str]] = set()
        for row in self.result.rows:
            if row.status == SAME or "ttg" not in row.stage.text:
                continue
            from xttir.analyses.layout_checks import check_layouts
            from xttir.analyses.layout_checks.text import lines_with_layouts

            lines = lines_with_layouts(plain_text(row.stage.text))
            if lines <= _good_lines:
                before = set()
                continue
            if not self._prepare(row):
                continue
            report = check_layouts(self.prepared[row.index][0])
            row.unjudged = dict(report.unjudged)
            row.layouts = [f for f in report.faults if _layout_key(f) not in before]
            before = {_layout_key(f) for f in report.faults}
            if row.layouts:
                row.status = MISMATCH
            if not (report.faults or report.unjudged):
                if len(_good_lines) > MANY_LINES:
                    _good_lines.clear()
                _good_lines.update(lines)

    def _first_runnable(self) -> int | None:
        for row in self.result.rows:
            if row.status != SAME and self._prepare(row):
                return row.index
        return None

    def _prepare(self, row: Row) -> bool:
        """Parse a stage and find its kernel; False (and noted) if that is not supported."""
        if row.index in self.prepared:
            return True
        if row.status == UNSUPPORTED:
            return False
        try:
            module = row.stage.module()
            self.prepared[row.index] = module, find_function(module, self.name)
        except InputError as error:
            if row.index == 0 or row.stage.file:
                raise
            self._unsupported(row, error)
            return False
        except Unsupported as error:
            self._unsupported(row, error)
            return False
        return True

    def _unsupported(self, row: Row, error: XttirError) -> None:
        row.status, row.unsupported = UNSUPPORTED, error

    def _case(self, first: int, case: Case) -> None:
        """Run all stages from `first` on `case`."""
        result = self.result
        case, source = self._source(first, case)
        if source.unsupported is not None:
            result.skip(f"unsupported: {source.unsupported.what}")
            self._unsupported(result.rows[first], source.unsupported)
            return
        if not source.defined:
            self._undefined(first, case, source)
            return
        result.cases.append(case)
        result.rows[first].cases += 1
        base, at = source, first
        fenced = False
        for row in result.rows[first + 1 :]:
            fenced |= row.stage.name == FENCES
            if row.status in (SAME, UNSUPPORTED) or row.invalid is not None:
                continue
            if row.like >= first:
                row.cases += 1
                continue
            if not self._prepare(row):
                continue
            outcome = self._target(row.index, case, base)
            if outcome.unsupported is not None:
                self._unsupported(row, outcome.unsupported)
                continue
            row.cases += 1
            differences = compare(case, base, outcome, fenced=fenced)
            row.findings += [Finding(row.index, at, case, d) for d in differences]
            if any(d.is_fault for d in differences):
                row.status = MISMATCH
                if not outcome.defined:
                    return
            base, at = outcome, row.index

    def _undefined(self, first: int, case: Case, source: Outcome) -> None:
        """The source is undefined on `case`. Where all that is wrong is a promise to the compiler
        that the user's launch does not keep, and every stage does the same all the same, the case
        counts, with a note."""
        if not case.user or not source.faults:
            self.result.skip(_why_undefined(source))
            return
        why = self._where(first, case, source.faults[0])
        promises = all("promise" in fault.witness for fault in source.faults)
        rows = self._agreeing(first, case) if promises else None
        if rows is None:
            self.result.skip(f"the source is undefined there: {why}")
            return
        self.result.cases.append(case)
        self.result.notes.append(f"{why}; the stages were compared as if it were not there")
        for row in rows:
            row.cases += 1

    def _where(self, first: int, case: Case, fault: Fault) -> str:
        """A fault of the source with its place in the user's file, as far as that is known."""
        module = self.stages[first].module_with_locations()
        again = run_case(case, module, find_function(module, self.name)).faults
        found = again[0] if again else fault
        places = [place for place in found.locations if place.file]
        return found.message + (f" ({places[0]})" if places and again else "")

    def _agreeing(self, first: int, case: Case) -> list[Row] | None:
        """The stages that were run without looking at promises, if none of them differs."""
        policy = POLICY.without("hints")
        base = run_case(case, *self.prepared[first], policy=policy)
        if not base.defined:
            return None
        rows = [self.result.rows[first]]
        for row in self.result.rows[first + 1 :]:
            if row.status in (SAME, UNSUPPORTED) or row.invalid is not None:
                continue
            if row.like < first:
                if not self._prepare(row):
                    continue
                trips = max(10 * base.trips, MAX_TRIPS)
                outcome = run_case(case, *self.prepared[row.index], trips=trips, policy=policy)
                if outcome.unsupported is not None:
                    self._unsupported(row, outcome.unsupported)
                    continue
                if any(d.is_fault for d in compare(case, base, outcome)):
                    return None
                base = outcome
            rows.append(row)
        return rows

    def _source(self, first: int, case: Case) -> tuple[Case, Outcome]:
        """The outcome of a stage that others are compared with, and the case cut to it. Where the
        programs of a case of ours get in each other's way, one does."""
        limit = 0 if case.user else MAX_TRIPS
        source = run_case(case, *self.prepared[first], trips=limit)
        alone = replace(case, grid=(1, 1, 1))
        if source.faults and not case.user and case.grid != alone.grid:
            case, source = alone, run_case(alone, *self.prepared[first], trips=limit)
        if case.user or not source.defined:
            return case, source
        tight = inputs.cut(case, source)
        return tight, inputs.trimmed(source, case, tight)

    def _target(self, index: int, case: Case, base: Outcome) -> Outcome:
        return run_case(case, *self.prepared[index], trips=max(10 * base.trips, MAX_TRIPS))

    def _simplify(self, row: Row) -> None:
        """Put the findings on the plainest case that shows the fault first."""
        faults = [f for f in row.findings if f.difference.is_fault]
        if any(f.case.user for f in faults):
            return
        best = min(faults, key=lambda f: _plainness(f.case))
        found: list[Finding] = [f for f in faults if f.case is best.case]
        for _ in range(MAX_SIMPLER):
            better = self._better(row.index, found[0])
            if not better:
                break
            found = better
        rest = [f for f in row.findings if f.case is not best.case]
        row.findings = [*found, *rest]

    def _better(self, index: int, finding: Finding) -> list[Finding]:
        for case in self.generator.simpler(finding.case):
            tight, source = self._source(finding.base, case)
            if not source.defined:
                continue
            outcome = self._target(index, tight, source)
            if outcome.unsupported is not None:
                continue
            fenced = any(s.name == FENCES for s in self.stages[: index + 1])
            found = [
                Finding(index, finding.base, tight, d)
                for d in compare(tight, source, outcome, fenced=fenced)
                if d.is_fault
            ]
            if found:
                return found
        return []

    def _conclude(self, first: int) -> None:
        for row in self.result.rows:
            if row.status == MATCH and row.index > first and row.cases == 0:
                row.status = AFTER
            if row.status == MATCH and row.findings:
                row.status = ROUNDING
            if row.like >= 0 and self.result.rows[row.like].status == UNSUPPORTED:
                row.status = UNSUPPORTED
                row.unsupported = self.result.rows[row.like].unsupported


def _layout_key(fault: Fault) -> tuple[str, str]:
    return str(fault.witness.get("op", "")), fault.message


def _plainness(case: Case) -> tuple[int, float]:
    return sum(v not in (0, 1) for _, v in case.values), sum(abs(v) for _, v in case.values)


def _why_undefined(outcome: Outcome) -> str:
    if outcome.faults:
        return f"the source is undefined there: {outcome.faults[0].kind}"
    return "the source does not end there"


_LOC = re.compile(r"#loc\d* = loc\(")
_TRAILING_LOC = re.compile(r"\s*loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


def plain_text(text: str) -> str:
    """The text without locations: equal for modules that differ in nothing else."""
    lines = (_TRAILING_LOC.sub("", line) for line in text.splitlines() if not _LOC.match(line))
    return "\n".join(line for line in lines if line.strip())


def located(stage: Stage) -> Stage:
    """The stage as its text with locations."""
    return replace(stage, text=stage.located or stage.text)
