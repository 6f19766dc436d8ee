"""What is installed now: one object, set by `install`, looked up by everything it put in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xttir.diagnostics import Fault
from xttir.frontends.triton.devices import Device
from xttir.frontends.triton.patches import Patches
from xttir.interp.launch import Launch


@dataclass
class State:
    """One installation. `on_launch` runs a launch; `on_fault` hears what the host did wrong."""

    device: Device
    on_launch: Callable[[Launch], Any]
    on_fault: Callable[[Fault], Any]
    on_unchecked: Callable[..., Any]
    patches: Patches = field(default_factory=Patches)
    launches: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


_current: State | None = None


def current() -> State:
    """The installation in force. Raises RuntimeError when there is none."""
    if _current is None:
        raise RuntimeError("xttir is not installed: no launch can run (see xttir.sanitize)")
    return _current


def installed() -> State | None:
    """The installation in force, or None."""
    return _current


def set_current(state: State | None) -> None:
    """For `install` and `uninstall` alone."""
    global _current
    _current = state
