"""Fixtures: the fake GPU with a recorder, and with the real executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from xttir.diagnostics import Fault
from xttir.frontends.triton import install, uninstall
from xttir.interp.launch import Launch


@dataclass
class Recorder:
    """What the frontend handed over."""

    launches: list[Launch] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    run: Any = None
    """Called with each launch when set."""

    def on_launch(self, launch: Launch) -> None:
        self.launches.append(launch)
        if self.run is not None:
            self.run(launch)

    def on_unchecked(self, reason: str, by_choice: bool = False) -> None:
        self.unchecked.append(reason)


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """A fake H100 (or the capability given as the fixture's parameter) that records launches."""
    recorder = Recorder()
    cc = getattr(request, "param", 90)
    install(cc, recorder.on_launch, recorder.faults.append, recorder.on_unchecked)
    try:
        yield recorder
    finally:
        uninstall()


@pytest.fixture
def running(gpu: Recorder) -> Recorder:
    """The fake GPU with launches run by the executor, no checks."""
    from xttir.interp.executor import run_launch
    from xttir.policy import RunPolicy

    policy = RunPolicy(checks=frozenset())
    gpu.run = lambda launch: run_launch(launch, policy)
    return gpu
