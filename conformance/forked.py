"""Work in a fork of this process: what it has imported is there, what it breaks stays away."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from typing import Any


def run(target: Callable[..., None], seconds: float | None, *arguments: Any) -> str:
    """Run `target`; "" when it came to its end, else what became of it."""
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
        return f"more than {seconds:g} seconds"
    return "" if child.exitcode == 0 else f"exit {child.exitcode}"


def ask(target: Callable[..., Any], seconds: float, *arguments: Any) -> tuple[Any, str]:
    """What `target` returns (it must fit into a pipe's buffer or be read in time: small things), or
    None, and what became of it otherwise."""
    receive, send = multiprocessing.get_context("fork").Pipe(duplex=False)

    def work() -> None:
        send.send(target(*arguments))

    ended = run(work, seconds)
    send.close()
    found = None
    with contextlib.suppress(EOFError):
        found = receive.recv() if receive.poll() else None
    receive.close()
    return found, ended
