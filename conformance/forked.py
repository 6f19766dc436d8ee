"""Work in a fork of this process: what it has imported is there, what it breaks stays away."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from typing import Any


def run(target: Callable[..., None], seconds: float | None, *arguments: Any) -> str:
    """Run `target`; "" when it came to its end, else what became of it."""
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    child.join(seconds)
    return _ended(child, seconds)


def ask(
    target: Callable[..., Any], seconds: float, *arguments: Any, cpu: int = 0
) -> tuple[Any, str]:
    """What `target` returns, or None, and what became of it otherwise. `cpu`: seconds of CPU time
    that it may take, 0 for any."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def work() -> None:
        if cpu:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
        send.send(target(*arguments))

    child = context.Process(target=work)
    child.start()
    send.close()
    found = None
    try:
        if receive.poll(seconds):
            found = receive.recv()
            child.join(10)
    except EOFError:
        child.join(10)
    receive.close()
    return found, _ended(child, seconds)


def _ended(child: Any, seconds: float | None) -> str:
    if child.exitcode is None:
        child.kill()
        child.join()
        return f"more than {seconds:g} seconds"
    if child.exitcode == -signal.SIGXCPU:
        return "more CPU time than it may take"
    return "" if child.exitcode == 0 else f"exit {child.exitcode}"
