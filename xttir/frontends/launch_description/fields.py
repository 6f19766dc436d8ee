"""Reading of nested JSON-like data with messages that say where and what was expected.

A `Node` is a value and its key path (`params[2].box`). Its readers raise `InputError` with the
path, the line of the file where it can be told, what was expected, and a near match for a
misspelt word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from xttir.diagnostics import InputError, Location
from xttir.frontends.launch_description.dtypes import near

Key = str | int
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True)
class Document:
    """Where data came from: a file name and, for JSON, its text."""

    file: str = ""
    text: str = ""

    def location(self, path: tuple[Key, ...]) -> Location | None:
        """The place of a key path, with its line when the text is JSON."""
        if not self.file:
            return None
        return Location(self.file, _line_of(self.text, path) if self.text else 0)


@dataclass(frozen=True)
class Node:
    """A value inside a document. `path` are the keys that lead to it."""

    value: Any
    document: Document
    path: tuple[Key, ...] = ()
    _seen: set[str] = field(default_factory=set, repr=False)

    @property
    def name(self) -> str:
        """`params[2].box`"""
        text = ""
        for key in self.path:
            text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
        return text

    def fail(self, what: str, hint: str = "") -> NoReturn:
        """Raise `InputError` for this value."""
        prefix = f"{self.name}: " if self.path else ""
        raise InputError(prefix + what, self.document.location(self.path), hint)

    def expected(self, what: str) -> NoReturn:
        self.fail(f"expected {what}, found {_shown(self.value)}")

    # Structure

    def object(self, known: Sequence[str], required: Sequence[str] = ()) -> Node:
        """This as an object with only keys in `known`, and all of `required`."""
        if not isinstance(self.value, dict):
            self.expected("an object" if self.path else "a launch description (an object)")
        for key in self.value:
            if key not in known:
                self.at(str(key)).fail(
                    f"unknown key{near(str(key), known)}", f"known: {', '.join(known)}"
                )
        for key in required:
            if key not in self.value:
                self.fail(f"'{key}' is missing")
        return self

    def at(self, key: Key) -> Node:
        value = self.value[key] if key in self.value or isinstance(key, int) else None
        return Node(value, self.document, (*self.path, key))

    def has(self, key: str) -> bool:
        return key in self.value

    def items(self) -> list[tuple[str, Node]]:
        if not isinstance(self.value, dict):
            self.expected("an object")
        return [(key, self.at(key)) for key in self.value]

    def list(self, what: str = "a list") -> list[Node]:
        if not isinstance(self.value, list | tuple):
            self.expected(what)
        return [self.at(i) for i in range(len(self.value))]

    # Values

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.expected("a string")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def integer(self, low: int | None = None, high: int | None = None) -> int:
        value = self.value
        if isinstance(value, np.integer):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.expected("an integer")
        if low is not None and value < low:
            self.expected(f"an integer of at least {low}")
        if high is not None and value > high:
            self.expected(f"an integer of at most {high}")
        return value

    def integers(
        self, length: int | None = None, low: int | None = None, high: int | None = None
    ) -> tuple[int, ...]:
        nodes = self.list("a list of integers")
        if length is not None and len(nodes) != length:
            self.fail(f"expected {length} integers, found {len(nodes)}")
        return tuple(node.integer(low, high) for node in nodes)

    def number(self) -> int | float:
        value = self.value
        if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf", "infinity"):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            self.expected("a number")
        return value.item() if isinstance(value, np.number) else value

    def one_of(self, words: Iterable[str]) -> str:
        words = list(words)
        if self.value not in words:
            hint = near(str(self.value), words) if isinstance(self.value, str) else ""
            self.fail(f"expected one of {', '.join(words)}, found {_shown(self.value)}{hint}")
        return self.value

    def when(self, key: str, read: Callable[[Node], Any], default: Any) -> Any:
        """`read` of the entry, or `default` when it is not there."""
        return read(self.at(key)) if self.has(key) else default


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    try:
        text = json.dumps(value)
    except TypeError:
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _line_of(text: str, path: tuple[Key, ...]) -> int:
    """Line (from 1) of the value at `path` in JSON `text`, as deep as it can be followed."""
    decoder = json.JSONDecoder()
    at = _BLANK.match(text, 0).end()  # type: ignore[union-attr]
    for key in path:
        inside = _enter(text, at, key, decoder)
        if inside is None:
            break
        at = inside
    return text.count("\n", 0, at) + 1


def _enter(text: str, at: int, key: Key, decoder: json.JSONDecoder) -> int | None:
    """Offset of the entry `key` of the object or list that begins at `at`."""

    def blank(i: int) -> int:
        return _BLANK.match(text, i).end()  # type: ignore[union-attr]

    is_object = text[at : at + 1] == "{"
    if is_object is isinstance(key, int):
        return None
    i, index = blank(at + 1), 0
    while text[i : i + 1] not in ("}", "]", ""):
        name: Key = index
        if is_object:
            name, i = decoder.raw_decode(text, i)
            i = blank(blank(i) + 1)
        if name == key:
            return i
        _, i = decoder.raw_decode(text, i)
        i = blank(i)
        if text[i : i + 1] == ",":
            i = blank(i + 1)
        index += 1
    return None
