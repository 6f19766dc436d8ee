"""JSON and SARIF: valid by their schemas, complete, and stable where they promise to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.tools.faults import KERNEL, kernel_file, out_of_bounds, race, strict
from xttir.diagnostics import Fault, Kind, Location, Policy, Verdict
from xttir.policy import CheckCounts, RunPolicy
from xttir.tools import json_report, source
from xttir.tools.report import Problem, Report, ScriptError
from xttir.tools.sarif import RULES, sarif

SARIF_SCHEMA = json.loads((Path(__file__).parent / "data/sarif.schema.json").read_text())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return kernel_file(tmp_path)


def reports(file: str) -> list[Report]:
    place = Location(file, 8, 9, "load", "add_kernel")
    return [
        Report(),
        Report(faults=[out_of_bounds(file), race(file), strict(file)], launches=3, programs=9),
        Report(
            policy=RunPolicy().with_checks("-race"),
            counts=CheckCounts({"bounds": 3}, {"a table": 2}, {"benchmarks": 1}),
            unsupported=[Problem("op tt.future", place, "hint"), Problem("elsewhere")],
            internal=[Problem("xttir failed")],
        ),
        Report(input_error=Problem("no such file")),
        Report(script_error=ScriptError("ValueError", "bad", "Traceback ...", place)),
        Report(script_exit=3, interrupted="while add_kernel ran", tests={"passed": 2}),
        Report(faults=[Fault(kind, "m") for kind in Kind]),
    ]


def round_trip(data: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize("index", range(7))
def test_json_is_valid_by_the_published_schema(file: str, index: int):
    data = round_trip(json_report.object_json(reports(file)[index]))
    jsonschema.validate(data, json_report.schema())


@pytest.mark.parametrize("index", range(7))
def test_sarif_is_valid(file: str, index: int):
    jsonschema.validate(round_trip(sarif(reports(file)[index])), SARIF_SCHEMA)


def test_the_schema_is_a_schema_and_refuses_other_words(file: str):
    schema = json_report.schema()
    jsonschema.validators.validator_for(schema).check_schema(schema)
    data = json_report.object_json(reports(file)[1])
    data["faults"][0]["kind"] = "oob"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


def test_the_schema_knows_the_words_of_the_code():
    defs = json_report.schema()["$defs"]
    assert defs["fault"]["properties"]["kind"]["enum"] == [str(kind) for kind in Kind]
    assert defs["fault"]["properties"]["policy"]["enum"] == [str(p) for p in Policy]
    verdicts = json_report.schema()["properties"]["verdict"]["enum"]
    assert sorted(verdicts) == sorted(str(v) for v in Verdict)
    assert set(RULES) == set(Kind)


def test_json_keeps_every_distinct_fault_and_merges_equal_ones(file: str):
    faults = [out_of_bounds(file, 1), out_of_bounds(file, 4), race(file)]
    first, second = json_report.object_json(Report(faults=faults))["faults"]
    assert first["kind"] == "out-of-bounds"
    assert first["launches"] == [1, 4]
    assert first["count"] == 48
    assert first["locations"][0] == {
        "file": file,
        "line": 13,
        "column": 5,
        "role": "store",
        "function": "add_kernel",
    }
    assert second["kind"] == "race"


def test_witnesses_of_numpy_values_become_json(file: str):
    witness = {
        "program": (np.int32(7), 0, 0),
        "values": np.array([1.5, np.nan, np.inf]),
        3: {True},
    }
    fault = out_of_bounds(file, witness=witness)
    data = round_trip(json_report.fault_to_json(fault))
    assert data["witness"] == {
        "program": [7, 0, 0],
        "values": [1.5, "nan", "inf"],
        "3": [True],
    }


def test_a_part_of_another_process_arrives_whole(file: str):
    part = reports(file)[2]
    part.faults = [out_of_bounds(file), race(file)]
    sent = json.loads(json.dumps(json_report.part_to_json(part)))
    got = Report(policy=part.policy)
    got.merge(json_report.part_from_json(sent))
    got.merge(json_report.part_from_json(sent))
    assert [f.key for f in got.faults] == [f.key for f in part.faults] * 2
    assert got.counts.done == {"bounds": 6}
    assert got.counts.not_done == {"a table": 4}
    assert got.counts.left_out == {"benchmarks": 2}
    assert got.unsupported == part.unsupported * 2


def test_exit_codes_follow_the_verdict(file: str):
    assert [r.exit_code for r in reports(file)] == [0, 1, 3, 2, 2, 130, 1]
    only_strict = Report(faults=[strict(file)])
    assert only_strict.verdict is Verdict.VERIFIED
    only_strict.policy = RunPolicy(strict=True)
    assert only_strict.verdict is Verdict.FAULT
    assert Report(counts=CheckCounts({}, {"a table": 1})).exit_code == 3
    assert Report(counts=CheckCounts({}, {}, {"benchmarks": 1})).exit_code == 0


def test_both_sides_of_a_race_are_threads_of_a_code_flow(file: str):
    (result,) = sarif(Report(faults=[race(file)]))["runs"][0]["results"]
    flows = result["codeFlows"][0]["threadFlows"]
    assert [flow["id"] for flow in flows] == [
        "store by program (0, 0, 0)",
        "load by program (1, 0, 0)",
    ]
    lines = [f["locations"][0]["location"]["physicalLocation"]["region"] for f in flows]
    assert [x["startLine"] for x in lines] == [13, 9]
    assert lines[1]["endLine"] == 12


def test_strict_faults_are_warnings(file: str):
    results = sarif(Report(faults=[race(file), strict(file)]))["runs"][0]["results"]
    assert [r["level"] for r in results] == ["error", "warning"]
    relaxed = Report(faults=[strict(file)], policy=RunPolicy(strict=True))
    assert sarif(relaxed)["runs"][0]["results"][0]["level"] == "error"


def fingerprints(*faults: Fault) -> list[str]:
    results = sarif(Report(faults=list(faults)))["runs"][0]["results"]
    return [r["partialFingerprints"]["xttirFault/v1"] for r in results]


def test_fingerprints_survive_edits_elsewhere_and_tell_faults_apart(file: str):
    before = fingerprints(out_of_bounds(file), race(file))
    assert len(set(before)) == 2
    Path(file).write_text("# a comment\n\n" + KERNEL)
    source.forget()
    moved = out_of_bounds(file, locations=(Location(file, 15, 5, "store", "add_kernel"),))
    assert fingerprints(moved)[0] == before[0]
    Path(file).write_text(KERNEL.replace("x + y)", "x + y, mask=offs < n)"))
    source.forget()
    assert fingerprints(out_of_bounds(file))[0] != before[0]


def test_paths_below_the_current_directory_are_relative(file: str):
    (result,) = sarif(Report(faults=[out_of_bounds(file)]))["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": "add.py", "uriBaseId": "SRCROOT"}
    assert where["region"]["startColumn"] == 5
    assert where["region"]["endColumn"] == 30


def test_what_was_not_checked_is_a_notification(file: str):
    run = sarif(reports(file)[2])["runs"][0]
    ids = [n["descriptor"]["id"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert ids.count("not-checked") == 5
    assert ids.count("unsupported") == 2
    assert ids.count("internal-error") == 1
    assert not run["invocations"][0]["executionSuccessful"]
