"""The search: sets of ops first (delta debugging), then single steps until none is left that helps.

A candidate counts when it is valid, has not been tried, and the predicate holds for its text. Every
step makes the module smaller in one respect and in none larger, so the search ends; a time limit
ends it early with what has been reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import InputError
from xttir.dialects.syntax import verifier
from xttir.frontends.mlir import parse_module
from xttir.refine.reduce import shapes, structure
from xttir.refine.reduce.build import (
    droppable,
    inner_ops,
    module_text,
    op_count,
    remove_dead,
    share_constants,
)
from xttir.refine.reduce.drop import Edit, Style, drop

Interesting = Callable[[str], bool]

Progress = Callable[["Reduction"], None]

TIME_LIMIT = 300.0
"""Seconds after which the search ends, unless it is told otherwise."""

_STYLES = (Style.OPERAND, Style.EARLIER, Style.ZERO, Style.ONE, Style.ARGUMENT)

_STEPS: tuple[Callable[[ModuleOp], Iterator[Edit]], ...] = (
    structure.functions,
    structure.unused_arguments,
    structure.unwrap,
    structure.carried_values,
    structure.trip_counts,
    structure.constant_arguments,
    structure.optional_operands,
    shapes.scalars,
    shapes.smaller_dimensions,
    structure.constants,
    structure.attributes,
)


@dataclass
class Reduction:
    """How far a search has come. `ops`, `before`: ops of the module now and at the start. `tried`:
    candidates that the predicate was asked about; `complete`: no single step helps any more."""

    text: str
    before: int
    ops: int
    tried: int = 0
    kept: int = 0
    seconds: float = 0.0
    complete: bool = False
    interrupted: bool = False
    """Ctrl-C ended the search: this is what it had reached."""


def reduce_text(
    text: str,
    interesting: Interesting,
    *,
    seconds: float = TIME_LIMIT,
    progress: Progress | None = None,
    name: str = "<module>",
) -> Reduction:
    """The smallest module that the search finds for which `interesting(text)` holds.

    Raises `InputError` when the module cannot be read, or when it is not interesting itself.
    """
    module = parse_module(text, name)
    search = _Search(module.clone(), interesting, seconds, progress)
    return search.run()


@dataclass
class _Search:
    module: ModuleOp
    interesting: Interesting
    seconds: float
    progress: Progress | None
    seen: set[str] = field(default_factory=set)

    def run(self) -> Reduction:
        self.began = time.monotonic()
        text = module_text(self.module)
        count = op_count(self.module)
        self.state = Reduction(text, count, count)
        if not self.interesting(text):
            raise InputError("the module does not show what is to be kept")
        self.seen.add(text)
        try:
            self._choose_tidying()
            self._to_the_end()
            self.state.complete = True
        except _OutOfTime:
            pass
        except KeyboardInterrupt:
            self.state.interrupted = True
        self.state.seconds = time.monotonic() - self.began
        return self.state

    def _choose_tidying(self) -> None:
        """Tidy candidates up as far as that does not hide what is to be kept."""
        self.tidy: tuple[Callable[[ModuleOp], object], ...] = ()
        for steps in ((remove_dead, share_constants), (remove_dead,), (share_constants,)):
            self.tidy = steps
            text = self._text(self.module.clone())
            if text in self.seen or self._try(lambda module: True):
                return
        self.tidy = ()

    def _to_the_end(self) -> None:
        self._sets()
        while True:
            count = self.state.kept
            for step in _STEPS:
                self._apply_all(step)
            self._single_drops()
            if self.state.kept == count:
                return

    # Candidates

    def _text(self, module: ModuleOp) -> str:
        for step in self.tidy:
            step(module)
        return module_text(module)

    def _try(self, edit: Edit) -> bool:
        """Apply an edit to a clone and keep that if it is still interesting."""
        if time.monotonic() - self.began > self.seconds:
            raise _OutOfTime
        module = self.module.clone()
        try:
            if not edit(module):
                return False
        except (VerifyException, ValueError):
            # Types and attributes check themselves when they are made: no such module.
            return False
        if not _valid(module):
            return False
        text = self._text(module)
        if text in self.seen:
            return False
        self.seen.add(text)
        self.state.tried += 1
        if not self.interesting(text):
            return False
        self.module = module
        self.state.kept += 1
        self.state.text, self.state.ops = text, op_count(module)
        self.state.seconds = time.monotonic() - self.began
        if self.progress is not None:
            self.progress(self.state)
        return True

    # Steps

    def _sets(self) -> None:
        """Drop sets of ops, halves first, then ever smaller ones. Later ops first: what they use
        falls with them."""
        size = max(1, len(droppable(self.module)) // 2)
        while size >= 1:
            end = len(droppable(self.module))
            while end > 0:
                start = max(0, end - size)
                self._try(drop(droppable(self.module)[start:end]))
                end = min(start, len(droppable(self.module)))
            size //= 2

    def _single_drops(self) -> None:
        """Drop single ops, with every kind of value for their results."""
        at = len(droppable(self.module)) - 1
        while at >= 0:
            found = droppable(self.module)
            at = min(at, len(found) - 1)
            if at < 0:
                return
            styles = _STYLES if inner_ops(self.module)[found[at]].results else _STYLES[:1]
            for style in styles:
                if self._try(drop([found[at]], style)):
                    break
            at -= 1

    def _apply_all(self, step: Callable[[ModuleOp], Iterator[Edit]]) -> None:
        """Try every edit of a step; after a success, those of the new module that follow."""
        tried = 0
        while True:
            edits = list(step(self.module))[tried:]
            for edit in edits:
                if self._try(edit):
                    break
                tried += 1
            else:
                return


class _OutOfTime(Exception):
    """The time limit has been reached."""


def _valid(module: ModuleOp) -> bool:
    try:
        verifier.verify(module)
    except verifier.InvalidOp:
        return False
    return True
