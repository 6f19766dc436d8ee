"""Monkey patches that can be undone: every replaced attribute goes through one `Patches` object.

Undoing happens in reverse order, so an attribute patched twice ends as it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """A stack of undo actions."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Set `owner.name`; returns what was there before (None when there was nothing)."""
        own = vars(owner) if hasattr(owner, "__dict__") else {}
        had = own.get(name, _ABSENT)
        before = getattr(owner, name, None)
        setattr(owner, name, value)

        def undo() -> None:
            if had is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, had)

        self._undo.append(undo)
        return before

    def set_item(self, mapping: Any, key: Any, value: Any) -> None:
        """Set `mapping[key]`."""
        had = mapping.get(key, _ABSENT)
        mapping[key] = value

        def undo() -> None:
            if had is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = had

        self._undo.append(undo)

    def on_undo(self, action: Callable[[], None]) -> None:
        """Run `action` when the patches are undone."""
        self._undo.append(action)

    def undo(self) -> None:
        """Undo everything, last first. Every action runs; the first error is raised at the end."""
        error: BaseException | None = None
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as e:
                error = error or e
        if error is not None:
            raise error
