"""Attributes written as named parameters, `#ttg.blocked<{sizePerThread = [1, 4], ...}>`.

They keep their parameters as attributes, in the order written; what they mean is said by the
classes that read them. Syntax from the printers in Triton's `lib/Dialect/TritonGPU/IR/Dialect.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

_WORDS_OF_ATTRIBUTES = frozenset(
    ("true", "false", "dense", "array", "unit", "affine_map", "none", "loc", "opaque")
)


def parse_value(parser: AttrParser) -> Attribute:
    """A parameter: a number, list, attribute, or a keyword (kept as a string attribute)."""
    start = parser.pos
    word = parser.parse_optional_identifier()
    if word is None:
        return parser.parse_attribute()
    if word not in _WORDS_OF_ATTRIBUTES:
        return StringAttr(word)
    parser._resume_from(start)  # pyright: ignore[reportPrivateUsage]
    return parser.parse_attribute()


def parse_entries(parser: AttrParser, delimiter: AttrParser.Delimiter) -> DictionaryAttr:
    """`key = value` pairs between the delimiters."""
    entries: dict[str, Attribute] = {}

    def entry() -> None:
        start = parser.pos
        key = parser.parse_identifier()
        if key in entries:
            parser.raise_error(f"'{key}' is given twice", start)
        parser.parse_punctuation("=")
        entries[key] = parse_value(parser)

    parser.parse_comma_separated_list(delimiter, entry)
    return DictionaryAttr(entries)


def print_value(printer: Printer, value: Attribute) -> None:
    """The inverse of `parse_value`: i64 without their type."""
    if isinstance(value, IntegerAttr) and value.type == i64:
        printer.print_string(str(value.value.data))
    elif isinstance(value, ArrayAttr):
        with printer.in_square_brackets():
            printer.print_list(value.data, lambda item: print_value(printer, item))
    elif isinstance(value, StringAttr):
        printer.print_string(value.data)
    else:
        printer.print_attribute(value)


def print_entries(printer: Printer, entries: DictionaryAttr) -> None:
    def entry(pair: tuple[str, Attribute]) -> None:
        printer.print_string(f"{pair[0]} = ")
        print_value(printer, pair[1])

    printer.print_list(entries.data.items(), entry)


class StructAttr(ParametrizedAttribute):
    """Base of attributes whose parameters are named; a class with BRACES writes `<{...}>`."""

    BRACES: ClassVar[bool] = True

    parameters_: DictionaryAttr

    def verify(self) -> None:
        # The rules know the classes of encodings, which derive from this one.
        from xttir.dialects.layouts.rules import check_encoding

        check_encoding(self)

    def get(self, name: str) -> Attribute | None:
        """The parameter `name`, or None where it is left out."""
        return self.parameters_.data.get(name)

    def number(self, name: str, default: int | None = None) -> int:
        """The integer (or bool) parameter `name`."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        assert isinstance(value, IntegerAttr), f"{self.name} has no number '{name}'"
        return abs(value.value.data) if value.type == IntegerType(1) else value.value.data

    def numbers(self, name: str) -> tuple[int, ...]:
        """The parameter `name`, a list of integers."""
        value = self.get(name)
        assert isinstance(value, ArrayAttr), f"{self.name} has no list '{name}'"
        return tuple(item.value.data for item in value.data if isinstance(item, IntegerAttr))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if not cls.BRACES:
            return [parse_entries(parser, parser.Delimiter.ANGLE)]
        with parser.in_angle_brackets():
            return [parse_entries(parser, parser.Delimiter.BRACES)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if not self.BRACES:
                print_entries(printer, self.parameters_)
                return
            with printer.in_braces():
                print_entries(printer, self.parameters_)
