"""A pytest plugin (`-p conformance.compare_ttgir`): every launch of a test also runs as the TTGIR
that it is compiled to, and the test fails where that leaves other bytes or reports a new fault.

Kernels that divide by a constant are left out: Triton multiplies by its reciprocal, which rounds
twice.
"""

from __future__ import annotations

from typing import Any

import pytest

from conformance.ttgir_scripts import Judge
from xttir.frontends.triton import state
from xttir.interp.launch import Launch


class _Strict(Judge):
    """Fails at the first launch that differs."""

    def __call__(self, launch: Launch) -> None:
        texts = launch.compiled.kernel.asm
        if "tt.approx_divf" not in texts["ttgir"] or "tt.approx_divf" in texts["ttir"]:
            super().__call__(launch)

    def said(self, kind: str, line: str) -> None:
        assert kind == "equal", line


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Before each test: what the session does before a launch."""
    session: Any = state.current().on_launch.__self__  # pyright: ignore[reportFunctionMemberAccess]
    session.before = _Strict(session.policy, 1, every=False, once=False)
