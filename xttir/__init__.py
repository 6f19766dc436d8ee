"""xttir: GPU tile IRs with a meaning you can run, check and prove."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Sessions need torch and Triton; importing xttir does not.
    if name in ("sanitize", "Session"):
        from xttir import session

        return getattr(session, name)
    raise AttributeError(f"module 'xttir' has no attribute {name!r}")
