"""Where in the user's code a launch or an allocation was made, and under which tuning config.

Frames of torch, triton, xttir, the standard library and of generated code are not the user's.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from xttir.diagnostics import Location

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_foreign: dict[str, bool] = {}


def _is_foreign_file(name: str) -> bool:
    """Whether a file belongs to torch, triton, xttir, the standard library or to generated code."""
    libraries = [_OWN]
    for library in ("torch", "triton"):
        module = sys.modules.get(library)
        if module is not None and module.__file__:
            libraries.append(os.path.dirname(module.__file__) + os.sep)
    if name.startswith((*libraries, "<frozen", "<eval_with_key", "<__")):
        return True
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{os.sep}torchinductor_"
    if inductor in name:
        return True
    # Packages may live below the standard library's folder, and theirs is code under test.
    return name.startswith(_STANDARD) and not any(place in name for place in _PACKAGES)


def is_foreign(frame: FrameType) -> bool:
    """Whether the code of `frame` is not the user's."""
    name = frame.f_code.co_filename
    if name == "<string>":
        # `python -c` runs the user's code under this name; Inductor its launchers.
        return frame.f_globals.get("__name__") != "__main__"
    known = _foreign.get(name)
    if known is None:
        known = _foreign[name] = _is_foreign_file(name)
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
        if not is_foreign(frame):
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
