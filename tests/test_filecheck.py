"""Runs the lit tests under `tests/filecheck`, so that one command runs all tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "filecheck"
SUFFIXES = (".mlir", ".ttir", ".ttgir", ".ptx")
FOLDERS = sorted({path.parent for path in ROOT.rglob("*") if path.suffix in SUFFIXES})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_lit(folder: Path) -> None:
    pytest.importorskip("lit", reason="lit is not installed")
    if shutil.which("filecheck", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("filecheck is not installed")
    command = [sys.executable, "-m", "lit.main", "-v", "-j2", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
