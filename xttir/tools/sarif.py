"""A report as SARIF 2.1.0, the format code-scanning services read.

One rule per fault kind, level `warning` for what only the letter of the rules forbids, a code flow
with one thread per side for faults of two places (races), and fingerprints that survive edits
elsewhere in the file: they hash the text of the line, not its number.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import xttir
from xttir.diagnostics import Fault, Kind, Location, Policy
from xttir.tools import source
from xttir.tools.json_report import plain
from xttir.tools.report import Problem, Report, distinct

SCHEMA_URI = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

RULES: dict[Kind, tuple[str, str]] = {
    Kind.OUT_OF_BOUNDS: (
        "Access outside a tensor",
        "A load, store or atomic touches memory outside the elements of the tensor or view "
        "that its pointer came from.",
    ),
    Kind.RACE: (
        "Conflicting accesses that nothing orders",
        "Two program instances, or two lanes, access one element, at least one writes, and no "
        "synchronisation orders them.",
    ),
    Kind.UNINITIALIZED: (
        "Read of memory that nobody wrote",
        "A value is read from memory that neither the host nor a kernel has written.",
    ),
    Kind.UNDEFINED: (
        "Undefined result",
        "A value that the language leaves undefined (division by zero, a shift or conversion "
        "out of range) reaches memory, an address or a branch.",
    ),
    Kind.INT_OVERFLOW: (
        "Integer overflow in an offset",
        "An integer wraps around on the way to an address.",
    ),
    Kind.ASSERT: ("Failed assertion", "An assertion of the kernel or of the script is false."),
    Kind.PHASE: (
        "Barrier phase differs between schedules",
        "A barrier's phase can complete early, late or twice, depending on the schedule.",
    ),
    Kind.PROXY: (
        "Missing proxy fence",
        "Accesses through different memory proxies are ordered but not made visible.",
    ),
    Kind.DEADLOCK: (
        "Program that never ends",
        "Programs wait for one another, or for something that never happens.",
    ),
    Kind.DIVERGENCE: (
        "Divergent use of a collective operation",
        "Threads that must execute an operation together do not.",
    ),
    Kind.LIFETIME: (
        "Use outside a lifetime",
        "Memory is used after it is freed or reused, or is never freed.",
    ),
    Kind.SCOPE: (
        "Synchronisation of too small a scope",
        "An operation synchronises fewer threads than those that rely on it.",
    ),
    Kind.MISMATCH: (
        "Result differs from the reference",
        "The program is free of undefined behaviour and computes something else.",
    ),
    Kind.RESOURCE: (
        "More than the device has",
        "A launch asks for more threads, programs or memory than the device allows.",
    ),
    Kind.MISUSE: (
        "Wrong use on the host side",
        "A launch has wrong arguments, or the kernel does not compile.",
    ),
}
"""Short and full description of each kind."""


def sarif(report: Report) -> dict[str, Any]:
    """The report as a SARIF log object with one run."""
    found = distinct(report.faults)
    kinds = [kind for kind in Kind if any(f.kind is kind for f, _ in found)]
    seen: dict[str, int] = {}
    results = []
    for fault, launches in found:
        print_ = fingerprint(fault)
        seen[print_] = seen.get(print_, 0) + 1
        results.append(
            _result(fault, launches, kinds.index(fault.kind), f"{print_}:{seen[print_]}", report)
        )
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "xttir",
                        "version": xttir.__version__,
                        "semanticVersion": xttir.__version__,
                        "rules": [_rule(kind) for kind in kinds],
                    }
                },
                "automationDetails": {"id": f"xttir/{report.command}/"},
                "invocations": [_invocation(report)],
                "originalUriBaseIds": {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}},
                "columnKind": "unicodeCodePoints",
                "results": results,
                "properties": {
                    "verdict": str(report.verdict),
                    "assumptions": report.assumptions(),
                    "notChecked": report.not_checked(),
                },
            }
        ],
    }


def _rule(kind: Kind) -> dict[str, Any]:
    short, full = RULES[kind]
    return {
        "id": str(kind),
        "name": "".join(word.capitalize() for word in kind.split("-")),
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "defaultConfiguration": {"level": "error"},
    }


def _result(
    fault: Fault, launches: tuple[int, ...], rule: int, print_: str, report: Report
) -> dict[str, Any]:
    strict = fault.policy is Policy.STRICT and not report.policy.strict
    text = "\n".join([fault.message, *fault.notes, *([fault.hint] if fault.hint else [])])
    result: dict[str, Any] = {
        "ruleId": str(fault.kind),
        "ruleIndex": rule,
        "level": "warning" if strict else "error",
        "message": {"text": text},
        "partialFingerprints": {"xttirFault/v1": print_},
        "properties": {
            "kernel": fault.kernel,
            "policy": str(fault.policy),
            "confirmed": fault.confirmed,
            "count": fault.count,
            "launches": list(launches),
            "launch": fault.launch_text,
            "witness": plain(fault.witness),
        },
    }
    places = [source.corrected(x) for x in fault.locations if x.file]
    if places:
        result["locations"] = [_location(places[0], fault.kernel)]
    if len(places) > 1:
        result["relatedLocations"] = [
            {"id": i, **_location(place, "", place.role or "see also")}
            for i, place in enumerate(places[1:], 1)
        ]
    if len(places) > 1 and fault.kind in (Kind.RACE, Kind.DEADLOCK, Kind.PROXY, Kind.PHASE):
        result["codeFlows"] = [_code_flow(fault, places)]
    return result


def _code_flow(fault: Fault, places: list[Location]) -> dict[str, Any]:
    """One thread per side, called sites staying with the side they follow."""
    sides: list[list[Location]] = []
    for place in places:
        if sides and place.role.startswith("called from"):
            sides[-1].insert(0, place)
        else:
            sides.append([place])
    flows = [
        {
            "id": side[-1].role or f"side {i}",
            "locations": [
                {"location": _location(place, fault.kernel, place.role or fault.message)}
                for place in side
            ],
        }
        for i, side in enumerate(sides, 1)
    ]
    ids = [flow["id"] for flow in flows]
    for i, flow in enumerate(flows):
        if ids.count(flow["id"]) > 1:
            flow["id"] = f"{flow['id']} ({i + 1})"
    return {"message": {"text": fault.message}, "threadFlows": flows}


def _location(place: Location, kernel: str, message: str = "") -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file)}
    if place.line:
        physical["region"] = _region(place)
    out: dict[str, Any] = {"physicalLocation": physical}
    name = place.function or kernel
    if name:
        out["logicalLocations"] = [{"name": name, "kind": "function"}]
    if message:
        out["message"] = {"text": message}
    return out


def _region(place: Location) -> dict[str, Any]:
    shown = source.excerpt(place)
    region: dict[str, Any] = {"startLine": place.line}
    if place.column:
        region["startColumn"] = place.column
    if shown is not None:
        region["snippet"] = {"text": "\n".join(shown.lines)}
        if place.column and len(shown.lines) == 1:
            region["endColumn"] = place.column + shown.end - shown.start
        elif len(shown.lines) > 1 and not shown.cut:
            region["endLine"] = place.line + len(shown.lines) - 1
    return region


def _artifact(file: str) -> dict[str, Any]:
    """Relative to the current directory where it is below it, as code-scanning services want."""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    if near.startswith(".."):
        return {"uri": Path(file).resolve().as_uri()}
    return {"uri": Path(near).as_posix().replace(" ", "%20"), "uriBaseId": "SRCROOT"}


def fingerprint(fault: Fault) -> str:
    """Equal for the same finding after edits elsewhere: kind, function and text of its lines."""
    parts = [str(fault.kind), fault.kernel]
    for place in fault.locations:
        parts += [os.path.basename(place.file), place.function, source.line_text(place)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _invocation(report: Report) -> dict[str, Any]:
    notes = [_notification("not-checked", "note", _text(x)) for x in report.not_checked()]
    notes += [_notification("unsupported", "error", p.what, p) for p in report.unsupported]
    notes += [_notification("internal-error", "error", p.what, p) for p in report.internal]
    if report.input_error:
        what = report.input_error
        notes.append(_notification("input-error", "error", what.what, what))
    if report.script_error:
        error = report.script_error
        text = f"{error.type}: {error.message}"
        notes.append(_notification("script-error", "error", text, Problem(text, error.location)))
    if report.interrupted:
        notes.append(_notification("interrupted", "error", report.interrupted))
    return {
        "executionSuccessful": report.exit_code in (0, 1),
        "exitCode": report.exit_code,
        "toolExecutionNotifications": notes,
    }


def _text(entry: dict[str, Any]) -> str:
    return f"not checked: {entry['what']} ({entry['reason']})"


def _notification(
    name: str, level: str, text: str, problem: Problem | None = None
) -> dict[str, Any]:
    out: dict[str, Any] = {
        "descriptor": {"id": name},
        "level": level,
        "message": {"text": text},
    }
    if problem and problem.location and problem.location.file:
        out["locations"] = [_location(problem.location, "")]
    return out
