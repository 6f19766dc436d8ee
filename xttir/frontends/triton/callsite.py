"""Where in the user's code a launch or an allocation was made, and under which tuning config.

Frames of torch, triton, xttir and of the standard library are not the user's.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from xttir.diagnostics import Location

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_foreign: dict[CodeType, bool] = {}


def _prefixes() -> tuple[str, ...]:
    found = [_OWN + os.sep, os.path.dirname(os.__file__) + os.sep, "<frozen"]
    for name in ("torch", "triton"):
        module = sys.modules.get(name)
        if module is not None and module.__file__:
            found.append(os.path.dirname(module.__file__) + os.sep)
    return tuple(found)


def is_foreign(code: CodeType) -> bool:
    """Whether `code` belongs to torch, triton, xttir or the standard library."""
    known = _foreign.get(code)
    if known is None:
        name = code.co_filename
        # Packages live below the standard library's folder, and theirs is code under test.
        known = name.startswith(_prefixes())
        if known and f"{os.sep}site-packages{os.sep}" in name:
            known = name.startswith(tuple(p for p in _prefixes() if "site-packages" in p))
        _foreign[code] = known
    return known


@dataclass(frozen=True)
class Site:
    """A line of the user's code. `config`: the tuning configuration being run, or "".

    `tuning`: while configurations are tried, the arguments that the tuner resets or restores. None
    otherwise, and where hooks of the user may do so.
    """

    file: str
    line: int
    function: str = ""
    config: str = ""
    tuning: tuple[str, ...] | None = None

    def location(self, role: str = "launch") -> Location:
        """The site as a place for a report."""
        return Location(self.file, self.line, role=role, function=self.function)

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


_NOWHERE = Site("", 0)


def user_site(depth: int = 1, tuner: Tuner | None = None) -> Site:
    """The innermost user frame above the caller, `depth` frames up.

    `tuner`: the code of the autotuner, when the configuration in force is wanted.
    """
    frame: FrameType | None = sys._getframe(depth)
    config: Any = None
    tuning: tuple[str, ...] | None = None
    while frame is not None:
        code = frame.f_code
        if tuner is not None and config is None and code in (tuner.bench, tuner.run):
            config = frame.f_locals.get("config")
            if code is tuner.bench:
                tuning = _put_back(frame.f_locals.get("self"), config)
        if not is_foreign(code):
            text = "" if config is None else _config_text(config)
            return Site(code.co_filename, frame.f_lineno, code.co_name, text, tuning)
        frame = frame.f_back
    return _NOWHERE


@dataclass(frozen=True)
class Tuner:
    """Code objects of the autotuner: the method that tries a configuration, and `run`. Both have
    the configuration in the local `config`."""

    bench: CodeType
    run: CodeType


def _put_back(tuner: Any, config: Any) -> tuple[str, ...] | None:
    if tuner.user_defined_pre_hook or tuner.user_defined_post_hook or config.pre_hook:
        return None
    return (*tuner.reset_to_zero, *tuner.restore_value)


def _config_text(config: Any) -> str:
    """ "B=128, num_warps=4": a `triton.Config` as its author wrote it."""
    return ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
