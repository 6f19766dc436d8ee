"""What all tests share: where the shared cases lie, and isolation from the user's Triton cache."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes an example slow, not wrong.
settings.register_profile("xttir", deadline=None)
settings.load_profile("xttir")

ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["pytester"]


def shared_root() -> Path | None:
    """The folder of shared cases: `XTTIR_SHARED`, else `../shared`; None when there is none."""
    path = Path(os.environ.get("XTTIR_SHARED", ROOT.parent / "shared"))
    return path if path.is_dir() else None


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared cases; the test is skipped where it is absent."""
    path = shared_root()
    if path is None:
        pytest.skip("no folder of shared cases (set XTTIR_SHARED)")
    return path


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees options, caches or modes of the environment it is started in.

    Compiled kernels are kept for the whole run: what is compiled depends on nothing else.
    """
    for name in os.environ:
        if name.startswith("XTTIR_") and name != "XTTIR_SHARED":
            monkeypatch.delenv(name)
    for name in ("TRITON_INTERPRET", "NO_COLOR", "FORCE_COLOR", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    cache = tmp_path_factory.getbasetemp() / "triton-cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))


_RUN_KERNELS = (
    "docs/test_examples.py",
    "test_cases.py",
    "tools/test_cli.py",
    "tools/test_pytest_plugin.py",
    "tools/test_script.py",
    "tools/test_verify_script.py",
)
"""Test files that run Triton kernels in processes of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("torch") is not None and find_spec("triton") is not None:
        return
    skip = pytest.mark.skip(reason="needs torch and Triton")
    for item in items:
        if item.path.as_posix().endswith(_RUN_KERNELS):
            item.add_marker(skip)
