"""The pytest plugin: options, and nothing else until `--xttir` is given.

Loaded by every pytest run of an environment that has xttir, so it imports nothing heavy and does
nothing by default. The work is in `xttir.tools.pytest_session`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from xttir.tools.options import OUTPUT_OPTIONS, RUN_OPTIONS, Option

SWITCH = "XTTIR_PYTEST"
"""Environment variable that mirrors `--xttir`; it also switches worker processes on."""

OPTIONS: tuple[Option, ...] = (
    *RUN_OPTIONS,
    *(option for option in OUTPUT_OPTIONS if option.name in ("format", "output")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xttir", "Triton kernels on the CPU, checked (xttir)")
    what = "run kernel launches on the CPU and fail tests whose kernels have faults"
    group.addoption("--xttir", action="store_true", default=False, help=what)
    parser.addini("xttir", what, type="bool", default=False)
    for option in OPTIONS:
        action: dict[str, Any] = {"metavar": option.metavar}
        if option.flag:
            action = {"action": "store_const", "const": "1"}
        text = option.help.replace("%", "%%")
        group.addoption(
            f"--xttir-{option.name}", dest=f"xttir_{option.key}", default=None, help=text, **action
        )
        parser.addini(f"xttir_{option.key}", option.help, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest or test module is imported: they may ask for the device at once."""
    given = early_config.known_args_namespace
    if given.xttir or early_config.getini("xttir") or os.environ.get(SWITCH, "0") not in ("", "0"):
        from xttir.tools import pytest_session

        pytest_session.start(early_config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "xttir(checks=None): what to check in kernels this test launches, as for --xttir-checks",
    )


@pytest.fixture
def xttir_session(request: pytest.FixtureRequest) -> Any:
    """The session that runs this test's launches: `.launches`, `.faults`, `.counts`."""
    plugin = request.config.pluginmanager.get_plugin("xttir-session")
    if plugin is None:
        pytest.skip("needs --xttir")
    return plugin.session
