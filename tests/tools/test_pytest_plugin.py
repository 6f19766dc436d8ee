"""The pytest plugin in whole pytest runs, with and without workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.clean_process import Outcome, run, xttir
from tests.tools.test_cli import KERNELS
from xttir.tools import json_report

SUITE = """\
import pytest, torch
from kernels import double, launch, unmasked

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

@pytest.fixture(scope="module")
def prepared():
    return launch(unmasked, 90)

def test_clean():
    assert launch(double).sum() == 200

def test_fault():
    launch(unmasked)

def test_fault_and_failure():
    launch(unmasked)
    assert 1 == 2

def test_failure():
    assert 1 == 3, "mine"

@pytest.mark.xfail
def test_expected():
    launch(unmasked)

@pytest.mark.xttir(checks="all,-bounds")
def test_switched_off():
    launch(unmasked)

def test_in_a_fixture(prepared):
    pass

def test_session(xttir_session):
    before = len(xttir_session.launches)
    launch(double)
    assert len(xttir_session.launches) == before + 1
    assert xttir_session.launches[-1].kernel == "double"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def pytest_run(folder: Path, *args: str, **environment: str) -> Outcome:
    return run("pytest", "-p", "no:cacheprovider", *args, cwd=folder, environment=environment)


def check_outcomes(output: str) -> None:
    """What must be the same with and without workers."""
    assert re.search(r"3 failed, 3 passed, 1 xfailed(, \d warnings?)?, 1 error in", output)
    assert "FAILED test_suite.py::test_fault - Failed: error[out-of-bounds]: store past" in output
    assert "FAILED test_suite.py::test_fault_and_failure - assert 1 == 2" in output
    assert "ERROR test_suite.py::test_in_a_fixture - Failed: error[out-of-bounds]" in output
    assert "xttir, call" in output
    assert " --> kernels.py:11:5 in unmasked, launch " in output
    listed = output.split("3 tests with faulty launches:\n")[1].splitlines()[:3]
    assert sorted(listed) == [
        f"  test_suite.py::test_{name}" for name in ("fault", "fault_and_failure", "in_a_fixture")
    ]
    assert "14 programs of 7 launches checked in" in output
    assert "Not checked: nothing.\n" in output


def test_a_fault_fails_the_test_it_happened_in(suite: Path):
    file = suite / "report.json"
    done = pytest_run(suite, "--xttir", "--xttir-format=json", f"--xttir-output={file}")
    check_outcomes(done.stdout)
    assert done.code == 1
    report = json.loads(file.read_text())
    jsonschema.validate(report, json_report.schema())
    assert [f["kind"] for f in report["faults"]] == ["out-of-bounds", "out-of-bounds", "assert"]
    assert report["faults"][2]["message"].startswith("assertion failed: mine")
    assert report["faults"][2]["locations"][0]["line"] == 21
    tests = {"passed": 3, "failed": 3, "error": 1, "xfailed": 1}
    assert report["stats"]["tests"] == tests


def test_workers_report_to_the_controller(suite: Path):
    file = suite / "report.json"
    words = ["sanitize", "--format", "json", "-o", str(file), "pytest", "-n", "2"]
    done = xttir(*words, "-p", "no:cacheprovider", cwd=suite)
    check_outcomes(done.stdout)
    report = json.loads(file.read_text())
    jsonschema.validate(report, json_report.schema())
    assert (done.code, report["command"], report["stats"]["launches"]) == (1, "pytest", 7)


def test_sanitize_pytest_says_it_once(suite: Path):
    done = xttir("sanitize", "pytest", "-q", "-p", "no:cacheprovider", cwd=suite)
    check_outcomes(done.stdout)
    assert done.code == 1
    assert "error[" not in done.stderr
    assert "cannot be rewritten" not in done.stdout
    clean = xttir("sanitize", "pytest", "-q", "-k", "clean", "-p", "no:cacheprovider", cwd=suite)
    assert clean.code == 0


def test_without_the_option_nothing_happens(suite: Path):
    done = pytest_run(suite)
    assert "8 skipped" in done.stdout
    assert "= xttir =" not in done.stdout
    assert done.code == 0


def test_without_the_option_nothing_is_imported(tmp_path: Path):
    (tmp_path / "test_a.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    heavy = {'torch', 'triton', 'numpy', 'xdsl', 'rich', 'xttir.tools.pytest_session'}\n"
        "    assert not heavy & set(sys.modules)\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_options_come_from_the_ini_file_and_the_environment(suite: Path):
    (suite / "pytest.ini").write_text(
        "[pytest]\nxttir = true\nxttir_checks = race\nxttir_cc = 80\n"
    )
    (suite / "test_cc.py").write_text(
        "import torch\ndef test_it(xttir_session):\n"
        "    assert torch.cuda.get_device_capability() == (8, 0)\n"
        "    assert xttir_session.policy.checks == {'race'}\n",
    )
    done = pytest_run(suite, "test_cc.py")
    assert "1 passed" in done.stdout, done.stdout
    assert "Not checked: bounds, " in done.stdout
    other = pytest_run(suite, "test_cc.py", XTTIR_CHECKS="bounds")
    assert "1 failed" in other.stdout
    flag = pytest_run(suite, "test_cc.py", "--xttir-checks=race", XTTIR_CHECKS="bounds")
    assert "1 passed" in flag.stdout


def test_wrong_options_are_usage_errors(suite: Path):
    done = pytest_run(suite, "--xttir", "--xttir-cc=75")
    assert done.code == 4
    assert "xttir: --xttir-cc: '75' is not one of 80, 90, 100" in done.stderr
    assert "Traceback" not in done.stderr


def test_unsupported_is_told_from_failure(tmp_path: Path):
    (tmp_path / "test_a.py").write_text(
        "from xttir.diagnostics import Unsupported, Location\n"
        "def test_it():\n    raise Unsupported('op tt.future', Location(__file__, 1))\n",
    )
    done = xttir("sanitize", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.code == 3
    assert "unsupported: op tt.future\n --> test_a.py:1\n" in done.stdout
    assert "Not checked: op tt.future (unsupported).\n" in done.stdout


def test_a_suite_without_tests_or_with_wrong_options_is_no_success(tmp_path: Path):
    assert xttir("sanitize", "pytest", "-q", cwd=tmp_path).code == 2
    assert xttir("sanitize", "pytest", "--no-such-option", cwd=tmp_path).code == 2
