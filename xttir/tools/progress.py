"""A progress bar on the terminal for launches that take longer than two seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from xttir.interp import progress

DELAY = 2.0
"""Seconds a launch runs before a bar appears."""

INTERVAL = 0.1
"""Seconds between updates."""


class TerminalProgress:
    """Listener of `xttir.interp.progress`: one bar for the launch that runs, gone when it ends."""

    def __init__(self, stream: Any = None, clock: Any = time.monotonic):
        self._stream = stream or sys.stderr
        self._clock = clock
        self._lock = threading.Lock()
        self._key: tuple[str, int, int] | None = None
        self._done = 0
        self._began = self._shown = 0.0
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, done: int, total: int, kernel: str) -> None:
        with self._lock:
            now = self._clock()
            key = (kernel, total, threading.get_ident())
            if key != self._key or done < self._done:
                self._close()
                self._key, self._began = key, now
            self._done = done
            if done >= total:
                self._close()
            elif now - self._began >= DELAY and now - self._shown >= INTERVAL:
                self._show(done, total, kernel)
                self._shown = now

    def _show(self, done: int, total: int, kernel: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} programs"),
                TimeRemainingColumn(),
                console=Console(file=self._stream),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                auto_refresh=False,
            )
            self._bar.start()
            self._task = self._bar.add_task(kernel, total=total)
        self._bar.update(self._task, completed=done, refresh=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._key = None

    def close(self) -> None:
        with self._lock:
            self._close()


@contextlib.contextmanager
def shown(enabled: bool = True) -> Iterator[None]:
    """Show progress on standard error while the block runs, if it is a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield
        return
    bar = TerminalProgress()
    previous = progress.set_listener(bar)
    try:
        yield
    finally:
        progress.set_listener(previous)
        bar.close()
