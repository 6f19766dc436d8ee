"""Where the executor says how far a launch has come. One listener at most; none costs nothing.

The executor calls `report` after each batch of programs; whoever shows progress (a command, a
notebook) registers a listener. Nothing here knows about terminals.
"""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[int, int, str], None]
"""Called as listener(done, total, kernel): programs done of the launch (0 when it starts), and the
kernel's name."""

_listener: Listener | None = None


def set_listener(listener: Listener | None) -> Listener | None:
    """Register `listener` (None: nobody) and return the one it replaces."""
    global _listener
    previous, _listener = _listener, listener
    return previous


def report(done: int, total: int, kernel: str) -> None:
    """`done` of `total` programs of the running launch of `kernel` have ended."""
    if _listener is not None:
        _listener(done, total, kernel)
