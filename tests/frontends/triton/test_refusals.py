"""Launches that a GPU refuses, in a test suite: expected by the test or not."""

from __future__ import annotations

from pathlib import Path

from tests.clean_process import run

SUITE = """\
import pytest, torch, triton, triton.language as tl

@triton.jit
def k(x):
    tl.store(x, 1.0)

def test_expected():
    with pytest.raises(ValueError, match="cpu tensor"):
        k[(1,)](torch.ones(1))

def test_not_expected():
    k[(1,)](torch.ones(1))

def test_grid():
    with pytest.raises(RuntimeError):
        k[(1, 70000)](torch.ones(1, device="cuda"))
"""


def test_a_test_may_expect_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    done = run("pytest", "-p", "no:cacheprovider", "--xttir", "-q", cwd=tmp_path, environment={})
    assert "1 failed, 2 passed" in done.stdout
    assert "FAILED test_it.py::test_not_expected" in done.stdout
    assert "error[misuse]: CPU tensor `x`" in done.stdout
