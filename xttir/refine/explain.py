"""From a difference to places and facts that a person can check: which op of which stage did it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from xttir.diagnostics import Location, XttirError
from xttir.dialects.locations import locations_of
from xttir.frontends.module_launch.signature import find_function
from xttir.refine.outcome import MAX_TRIPS, Toucher, run_case, who_touches
from xttir.refine.stages import Finding, Stage, plain_text

MAX_DIFF_LINES = 60


@dataclass(frozen=True, eq=False)
class Explanation:
    """`locations`: where it shows, the target's side first. `diff`: the lines that the pass
    changed, as a unified diff. `program`: the program instance concerned."""

    locations: tuple[Location, ...]
    program: tuple[int, int, int] | None
    diff: tuple[str, ...]


def explain(finding: Finding, stages: list[Stage], kernel: str) -> Explanation:
    """Find the ops behind a finding by running its case on the stages with locations."""
    source, target = stages[finding.base], stages[finding.stage]
    places, program = _places(finding, target, source, kernel)
    return Explanation(places, program, tuple(diff_lines(source, target)))


def _places(
    finding: Finding, target: Stage, source: Stage, kernel: str
) -> tuple[tuple[Location, ...], tuple[int, int, int] | None]:
    difference, case = finding.difference, finding.case
    try:
        module = target.module_with_locations()
        function = find_function(module, kernel)
        if difference.fault is not None:
            outcome = run_case(case, module, function, trips=10 * MAX_TRIPS)
            same = [f for f in outcome.faults if f.message == difference.fault.message]
            return (same[0].locations if same else ()), None
        if difference.position < 0:
            return (), None
        verb = {"read": "load"}.get(difference.what, "store")
        wanted = (verb, "atomic")
        here = who_touches(
            case, module, function, difference.position, difference.byte, lambda v: v in wanted
        )
        places = _last(here, "in the target")
        if difference.what == "value":
            before = source.module_with_locations()
            there = who_touches(
                case,
                before,
                find_function(before, kernel),
                difference.position,
                difference.byte,
                lambda v: v in wanted,
            )
            places += _last(there, "in the source")
            here = here or there
        return places, here[-1].program if here else None
    except XttirError:
        # A module without locations that cannot be run again is no reason to lose the finding.
        return (), None


def _last(found: list[Toucher], side: str) -> tuple[Location, ...]:
    if not found:
        return ()
    toucher = found[-1]
    places = locations_of(toucher.op)
    if not places:
        return ()
    role = f"{toucher.verb} {side} by program {toucher.program}"
    return (places[0].with_role(role), *places[1:])


def diff_lines(source: Stage, target: Stage, context: int = 2) -> list[str]:
    """The texts of two stages as a unified diff, without locations and comments."""
    a, b = (_lines(stage) for stage in (source, target))
    names = (source.file or source.name or "source"), (target.file or target.name or "target")
    return list(difflib.unified_diff(a, b, *names, lineterm="", n=context))


def _lines(stage: Stage) -> list[str]:
    return [
        x
        for x in plain_text(stage.printed or stage.text).splitlines()
        if not x.lstrip().startswith("//")
    ]


def first_change(source: Stage, target: Stage) -> int:
    """The first line (from 1) of the target's text that the source does not have; 0 for none."""
    held = {x.strip() for x in _lines(source)}
    for number, line in enumerate(target.text.splitlines(), 1):
        text = plain_text(line).strip()
        if text and not text.startswith("//") and text not in held:
            return number
    return 0


def layout_places(stage: Stage) -> list[tuple[Location, ...]]:
    """Where the ops whose layouts do not fit come from, in order."""
    from xttir.analyses.layout_checks import check_layouts

    try:
        return [f.locations for f in check_layouts(stage.module_with_locations()).faults]
    except XttirError:
        return []
