"""A report as JSON: the published object of `--format json`, and parts that travel between
processes. The schema is `report.schema.json`, next to this file.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import xttir
from xttir.diagnostics import Fault, Kind, Location, Policy
from xttir.policy import CheckCounts
from xttir.tools.report import Problem, Report, distinct
from xttir.tools.static_report import StaticReport
from xttir.tools.validate_report import ValidateReport

SCHEMA_FILE = "report.schema.json"


def schema() -> dict[str, Any]:
    """The published JSON schema of `object_json`."""
    return json.loads(resources.files("xttir.tools").joinpath(SCHEMA_FILE).read_text())


def object_json(report: Report) -> dict[str, Any]:
    """The one JSON object that `--format json` writes. Schema: `report.schema.json`."""
    error = report.script_error
    static = isinstance(report, StaticReport)
    return {
        "tool": "xttir",
        "version": xttir.__version__,
        "command": report.command,
        "verdict": str(report.verdict),
        "exit_code": report.exit_code,
        "faults": [
            {**fault_to_json(fault), "launches": list(launches)}
            for fault, launches in distinct(report.faults)
        ],
        "assumptions": report.assumptions(),
        "not_checked": report.not_checked(),
        "unsupported": [_problem_to_json(p) for p in report.unsupported],
        "internal_errors": [_problem_to_json(p) for p in report.internal],
        "input_error": _problem_to_json(report.input_error) if report.input_error else None,
        "script_error": {
            "type": error.type,
            "message": error.message,
            "traceback": error.traceback,
            "location": location_to_json(error.location) if error.location else None,
        }
        if error
        else None,
        "script_exit": report.script_exit,
        "interrupted": report.interrupted or None,
        **(
            {"subjects": [s.to_json() for s in report.subjects], "notes": report.notes}
            if isinstance(report, ValidateReport)
            else {}
        ),
        **({"outcomes": [o.to_json() for o in report.outcomes]} if static else {}),
        **({"results": list(report.results)} if report.results else {}),
        "stats": {
            "launches": report.launches,
            "programs": report.programs,
            "seconds": round(report.seconds, 6),
            "wall_seconds": round(report.wall, 6),
            "checks": dict(report.counts.done),
            "tests": dict(report.tests),
            "cc": report.policy.cc,
            "grid_order": report.policy.grid_order,
        },
    }


def fault_to_json(fault: Fault) -> dict[str, Any]:
    """The fault as in the published schema."""
    return {
        "kind": str(fault.kind),
        "policy": str(fault.policy),
        "message": fault.message,
        "kernel": fault.kernel,
        "locations": [location_to_json(x) for x in fault.locations],
        "notes": list(fault.notes),
        "hint": fault.hint,
        "witness": plain(fault.witness),
        "confirmed": fault.confirmed,
        "count": fault.count,
        "launch": fault.launch,
        "launch_text": fault.launch_text,
    }


def fault_from_json(data: dict[str, Any]) -> Fault:
    return Fault(
        kind=Kind(data["kind"]),
        policy=Policy(data["policy"]),
        message=data["message"],
        kernel=data["kernel"],
        locations=tuple(Location(**x) for x in data["locations"]),
        notes=tuple(data["notes"]),
        hint=data["hint"],
        witness=data["witness"],
        confirmed=data["confirmed"],
        count=data["count"],
        launch=data["launch"],
        launch_text=data["launch_text"],
    )


def location_to_json(location: Location) -> dict[str, Any]:
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column,
        "role": location.role,
        "function": location.function,
    }


def plain(value: Any) -> Any:
    """`value` with numpy scalars and arrays, tuples and other keys made JSON-able."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        # JSON has no NaN or infinity.
        return value if value == value and abs(value) != float("inf") else str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def part_to_json(report: Report) -> dict[str, Any]:
    """What `merge` needs of a report made in another process."""
    return {
        "faults": [fault_to_json(f) for f in report.faults],
        "done": dict(report.counts.done),
        "not_done": dict(report.counts.not_done),
        "left_out": dict(report.counts.left_out),
        "launches": report.launches,
        "programs": report.programs,
        "seconds": report.seconds,
        "unsupported": [_problem_to_json(p) for p in report.unsupported],
        "internal": [_problem_to_json(p) for p in report.internal],
        "interrupted": report.interrupted,
        "tests": dict(report.tests),
    }


def part_from_json(data: dict[str, Any]) -> Report:
    return Report(
        faults=[fault_from_json(f) for f in data["faults"]],
        counts=CheckCounts(dict(data["done"]), dict(data["not_done"]), dict(data["left_out"])),
        launches=data["launches"],
        programs=data["programs"],
        seconds=data["seconds"],
        unsupported=[_problem_from_json(p) for p in data["unsupported"]],
        internal=[_problem_from_json(p) for p in data["internal"]],
        interrupted=data["interrupted"],
        tests=dict(data["tests"]),
    )


def _problem_to_json(problem: Problem) -> dict[str, Any]:
    place = location_to_json(problem.location) if problem.location else None
    return {"what": problem.what, "location": place, "hint": problem.hint}


def _problem_from_json(data: dict[str, Any]) -> Problem:
    place = Location(**data["location"]) if data["location"] else None
    return Problem(data["what"], place, data["hint"])
