from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.faults import kernel_file, out_of_bounds, race, strict
from xttir.diagnostics import Fault, Kind, Location
from xttir.policy import CheckCounts, RunPolicy
from xttir.tools import render, render_static, render_validate
from xttir.tools.report import Problem, Report
from xttir.tools.static_report import StaticReport
from xttir.tools.validate_report import ValidateReport


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return kernel_file(tmp_path)


def text(*faults: Fault, **options: bool) -> str:
    return render.to_plain(render.fault_lines(faults, **options))


def test_a_fault_reads_like_a_diagnostic(file: str):
    assert text(out_of_bounds(file)) == (
        "error[out-of-bounds]: store past the end of `o` (float32[1000])\n"
        "  --> add.py:13:5 in add_kernel, launch 1, grid (8, 1, 1), BLOCK=128, n=1000\n"
        "   |\n"
        "13 |     tl.store(o + offs, x + y)\n"
        "   |     ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "   | program (7, 0, 0), lanes 104..127: o[1000..1023], 24 elements\n"
        "   = the store has no mask; `mask=offs < n` covers exactly the tensor\n"
        "\n"
    )


def test_both_sides_of_a_race_and_a_statement_of_several_lines(file: str):
    assert text(race(file)) == (
        "error[race]: two programs access `y`, one of them writes\n"
        "  --> add.py:13:5 in add_kernel, launch 1, grid (8, 1, 1), BLOCK=128, n=1000\n"
        "   |\n"
        "13 |     tl.store(o + offs, x + y)\n"
        "   |     ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  --> add.py:9:9 load by program (1, 0, 0) in add_kernel\n"
        "   |\n"
        " 9 |     y = tl.load(\n"
        "   |         ^^^^^^^^\n"
        "   |         y + offs,\n"
        "   |         mask=offs < n,\n"
        "   |     )\n"
        "\n"
    )


def test_the_same_fault_of_many_launches_is_shown_once(file: str):
    shown = text(*(out_of_bounds(file, launch) for launch in (1, 2, 3, 7)))
    assert shown.count("error[") == 1
    assert "seen in 4 launches: 1..3, 7\n" in shown


def test_other_messages_at_one_place_are_named(file: str):
    other = out_of_bounds(file, 2, message="store past the end of `o` (float32[500])")
    shown = text(out_of_bounds(file), other)
    assert shown.count("error[") == 1
    assert "also here: store past the end of `o` (float32[500])\n" in shown


def test_the_likely_cause_comes_first(file: str):
    wrong = Fault(Kind.ASSERT, "assertion failed", locations=(Location(file, 1),))
    host = Fault(Kind.MISUSE, "a CPU tensor", launch=3)
    uninitialized = out_of_bounds(file, 2, kind=Kind.UNINITIALIZED, message="read")
    undefined = out_of_bounds(file, 2, kind=Kind.UNDEFINED, message="division")
    shown = text(wrong, undefined, strict(file), uninitialized, host, race(file, 3))
    kinds = [line.split("[")[1].split("]")[0] for line in shown.splitlines() if "]: " in line]
    assert kinds == ["misuse", "uninitialized", "undefined", "race", "assert", "undefined"]


def test_strict_faults_are_warnings_unless_asked_for(file: str):
    assert text(strict(file)).startswith("warning[undefined]")
    assert text(strict(file), strict=True).startswith("error[undefined]")


def test_many_places_are_cut_to_one_line_each(file: str):
    many = [out_of_bounds(file, locations=(Location(file, 8, c),)) for c in range(1, 31)]
    shown = text(*many)
    assert shown.count("   = the store") == 0
    assert shown.count("error[out-of-bounds]") == 30
    assert shown.count(" = the store") == render.MAX_GROUPS


def test_a_place_without_source_is_still_named():
    gone = Fault(Kind.RACE, "m", "k", (Location("/nowhere/a.py", 3, 2, "", "k"),), launch=1)
    assert text(gone) == "error[race]: m\n --> /nowhere/a.py:3:2 in k, launch 1\n\n"
    assert text(Fault(Kind.RACE, "m", "k")) == "error[race]: m\n--> <unknown> in k\n\n"


def test_unconfirmed_faults_say_so(file: str):
    assert "not seen in a run" in text(out_of_bounds(file, confirmed=False))
    assert "not seen in a run" not in text(out_of_bounds(file))


def test_colours_change_nothing_but_style(file: str):
    import re

    lines = list(render.fault_lines([out_of_bounds(file), race(file)]))
    colored = render.to_ansi(lines)
    assert "\x1b[" in colored
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [x.rstrip() for x in plain.splitlines()] == render.to_plain(lines).splitlines()


def test_colour_is_for_terminals_and_respects_no_color(monkeypatch: pytest.MonkeyPatch):
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert render.wants_color(Terminal())
    assert not render.wants_color(object())
    assert render.wants_color(object(), "always")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not render.wants_color(Terminal())
    assert render.wants_color(Terminal(), "always")


def summary(report: Report) -> str:
    return render.to_plain(render.summary_lines(report))


def test_summary_of_a_clean_run():
    counts = CheckCounts({"race": 1000, "bounds": 2048})
    report = Report(launches=2, programs=16, seconds=0.123, counts=counts)
    assert summary(report) == (
        "16 programs of 2 launches checked in 0.12 s: no fault.\n"
        "Checked: bounds (2,048), race (1,000).\n"
        "Not checked: nothing.\n"
    )


def test_summary_counts_faults_and_warnings_apart(file: str):
    report = Report(faults=[race(file), strict(file)], launches=1, programs=1)
    assert "1 program of 1 launch checked in 0.00 s: 1 fault, 1 warning.\n" in summary(report)
    report.policy = RunPolicy(strict=True)
    assert ": 2 faults.\n" in summary(report)


def test_summary_says_what_was_not_checked():
    report = Report(
        policy=RunPolicy().with_checks("all,-race,-init"),
        launches=1,
        counts=CheckCounts({"bounds": 1}, {"addresses of a table": 3}),
        unsupported=[Problem("op tt.future")],
    )
    shown = summary(report)
    assert (
        "Not checked: race, init (switched off); addresses of a table (could not be checked, "
        "3 times); op tt.future (unsupported).\n"
    ) in shown
    assert "Verdict: unsupported" in shown


def test_a_run_without_launches_is_not_passed_off_as_checked():
    assert summary(Report()) == (
        "No kernel was launched: no fault.\nChecked: nothing.\nNot checked: nothing.\n"
    )


@pytest.mark.parametrize("kind", [Report, StaticReport, ValidateReport])
def test_a_launch_that_failed_is_not_one_that_was_never_made(kind: type[Report]):
    plain = kind()
    lines = {
        Report: render.summary_lines,
        StaticReport: render_static.summary_lines,
        ValidateReport: render_validate.summary_lines,
    }[kind]
    assert "No kernel was launched" in render.to_plain(lines(plain))  # pyright: ignore
    for failed in (kind(internal=[Problem("it broke")]), kind(unsupported=[Problem("op x")])):
        shown = render.to_plain(lines(failed))  # pyright: ignore
        assert "No kernel was launched" not in shown
        assert "No launch was finished" in shown


def test_what_is_unsupported_many_times_is_told_once():
    shown = summary(
        Report(launches=1, unsupported=[Problem("op tt.future"), Problem("op tt.future")])
    )
    assert "Not checked: op tt.future (unsupported, 2 times).\n" in shown


def test_unsupported_shows_the_place(file: str):
    problem = Problem("op tt.future", Location(file, 8, 9, "load", "add_kernel"), "try later")
    shown = render.to_plain(render.report_lines(Report(unsupported=[problem])))
    assert shown.startswith(
        "unsupported: op tt.future\n"
        " --> add.py:8:9 in add_kernel\n"
        "  |\n"
        "8 |     x = tl.load(x + offs, mask=offs < n)\n"
        "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = try later\n"
    )


def test_a_place_shown_above_is_not_shown_again(file: str):
    place = Location(file, 13, 5, "store by program (0, 0, 0)", "add_kernel")
    again = Location(file, 13, 5, "store by program (1, 0, 0)", "add_kernel")
    shown = text(Fault(Kind.RACE, "m", "add_kernel", (place, again)))
    assert shown.count("tl.store") == 1
    assert shown.endswith("  --> add.py:13:5 store by program (1, 0, 0) in add_kernel\n\n")


def test_a_fault_of_the_host_names_the_launch(file: str):
    place = Location(file, 1, role="launch", function="<module>")
    shown = text(Fault(Kind.MISUSE, "a CPU tensor", "add_kernel", (place,)))
    assert " --> add.py:1 launch of add_kernel\n" in shown
