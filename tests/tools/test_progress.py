from __future__ import annotations

import io
import sys

import pytest

from xttir.interp import progress
from xttir.tools.progress import TerminalProgress, shown


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    return stream


def test_short_launches_show_nothing(terminal: io.StringIO):
    clock = Clock()
    bar = TerminalProgress(terminal, clock)
    for launch in range(5):
        for done in range(0, 101, 10):
            bar(done, 100, "add_kernel")
            clock.now += 0.19
        clock.now += launch
    assert terminal.getvalue() == ""


def test_long_launches_show_a_bar_that_goes_away(terminal: io.StringIO):
    clock = Clock()
    bar = TerminalProgress(terminal, clock)
    for done in range(0, 100, 10):
        bar(done, 1000, "slow_kernel")
        clock.now += 0.5
    text = terminal.getvalue()
    assert "slow_kernel" in text
    assert "/1,000 programs" in text
    assert "40" in text
    bar(1000, 1000, "slow_kernel")
    before = len(terminal.getvalue())
    bar(0, 10, "next_kernel")
    bar.close()
    assert len(terminal.getvalue()) == before


def test_the_listener_is_there_only_on_terminals(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    def listener() -> object:
        current = progress.set_listener(None)
        progress.set_listener(current)
        return current

    with shown():
        assert listener() is None
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown(False):
        assert listener() is None
    with shown():
        assert isinstance(listener(), TerminalProgress)
    assert listener() is None


def test_reports_reach_the_listener_that_is_set():
    heard: list[tuple[int, int, str]] = []
    previous = progress.set_listener(lambda *args: heard.append(args))
    try:
        progress.report(1, 2, "k")
    finally:
        progress.set_listener(previous)
    progress.report(2, 2, "k")
    assert heard == [(1, 2, "k")]
