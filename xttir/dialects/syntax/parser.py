"""xDSL's parser, taught what Triton prints, and made fast enough for whole compilations.

What is added to the syntax: location aliases used before their definition, fused locations with
metadata, file ranges. What is mended (`literals`): hexadecimal floats inside `dense<...>` and NaN
payloads.
As in MLIR, an op without a location gets its place in the text.
What makes it fast: one regular expression per token (`lexer`), types and attributes remembered by
their text (`remembered`), `loc(#loc7)` read in one step, and one plan per assembly format
(`formats`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import UnresolvedOperand
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xttir.diagnostics import Location
from xttir.dialects.locations import file_location, range_location, unchecked
from xttir.dialects.syntax.formats import FormatPlan
from xttir.dialects.syntax.lexer import FastToken
from xttir.dialects.syntax.lines import NAME, OFTEN, ConstantLine, LinePlan
from xttir.dialects.syntax.remembered import RememberingParser
from xttir.dialects.tt.versions import upgrade

_ALIAS_DEF = re.compile(r"^(#[\w.$-]+) = (?=loc\()", re.MULTILINE)
_LOC_ALIAS = re.compile(r"loc\((#[\w.$-]+)\)").match
_LOC_PLAIN = re.compile(
    r'loc\((?:"([^"\\\n]*)":(\d+):(\d+)'  # file
    r'|"([^"\\\n]*)"\((#[\w.$-]+)\)'  # name
    r"|callsite\((#[\w.$-]+) at (#[\w.$-]+)\)"
    r"|(unknown))\)"
).match

_PAREN0 = r'(?:[^()"\n]++|"[^"\n\\]*+")*+'


def _parens(depth: int) -> str:
    """Text with balanced parentheses, nested up to `depth` times."""
    inner = _PAREN0 if depth == 1 else _parens(depth - 1)
    return rf"{_PAREN0}(?:\({inner}\){_PAREN0})*+"


_LOC_TEXT = re.compile(rf"loc\({_parens(7)}\)").match
"""A location written in place, with call sites up to seven deep."""

_PERCENT = MLIRTokenKind.PERCENT_IDENT
_BARE = MLIRTokenKind.BARE_IDENT
_EXCLAMATION = MLIRTokenKind.EXCLAMATION_IDENT
_HASH = MLIRTokenKind.HASH_IDENT
_STRING = MLIRTokenKind.STRING_LIT
_INTEGER = MLIRTokenKind.INTEGER_LIT
_ALIASES = (_HASH, _EXCLAMATION)

_Known = tuple[type[Operation], str, FormatPlan | None, frozenset[str]]
"""An op class, its dialect, how its format is read, and its inherent attributes."""

_LINES: dict[type[Operation], LinePlan | ConstantLine] = {}
"""How to read at once the ops that occur often."""
_PLANS: dict[type[Operation], FormatPlan | None] = {}


def _plan_of(op_type: type[Operation]) -> FormatPlan | None:
    """The plan of an op with a declarative format; None for an op that parses by hand."""
    if op_type not in _PLANS:
        plan = None
        if issubclass(op_type, IRDLOperation) and op_type.get_irdl_definition().assembly_format:
            plan = FormatPlan(op_type)
        _PLANS[op_type] = plan
    return _PLANS[op_type]


def _inherent(op_type: type[Operation]) -> frozenset[str]:
    """Names that an attribute dictionary may hold and that are properties, as in MLIR."""
    if not issubclass(op_type, IRDLOperation):
        return frozenset()
    return frozenset(op_type.get_irdl_definition().properties)


@cache
def _hint_of(name: str) -> str | None:
    """The name hint that values called `name` get, if any."""
    return SSAValue.extract_valid_name(name) if SSAValue.is_valid_name(name) else None


class FastOperand(UnresolvedOperand):
    """An operand's name and tuple index; its span is made only for an error."""

    def __init__(self, token: FastToken, index: int = 0):
        self._token = token
        self.index = index

    @property
    def span(self) -> Span:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._token.span

    @property
    def operand_name(self) -> str:
        return self._token.text[1:]


class TTParser(RememberingParser):
    """See the module's docstring.

    `op_starts` holds the position of every op parsed, in the order in which they were finished;
    `forward_values` are the values that were used before their definition.
    """

    def __init__(
        self,
        ctx: Context,
        input: str | bytes,
        name: str = "<unknown>",
        types: dict[str, TypeAttribute] | None = None,
    ) -> None:
        super().__init__(ctx, input, name, types)
        self.op_starts: list[tuple[Operation, int]] = []
        self.forward_values: list[SSAValue] = []
        self._pending: dict[str, int] = {}
        self._inline_locations: dict[str, LocationAttr] = {}
        self._ops: dict[str, _Known] = {}
        self._strings: dict[str, StringAttr] = {}
        self._file = self._string(name)
        self._lines_of: dict[str, LinePlan | ConstantLine | None] = {}
        self._lines: list[int] | None = None

    # Modules and ops

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        self._find_aliases()
        if allow_implicit_module:
            while self.token_kind in _ALIASES:
                self._parse_alias_def()
            if self.token_kind is MLIRTokenKind.EOF:
                return ModuleOp([])
        return super().parse_module(allow_implicit_module)

    def _parse_external_resources(self) -> None:
        """Skip what tools left for themselves, such as the pipeline of a reproducer."""
        depth = 0
        while True:
            kind = self.token_kind
            depth += (kind is MLIRTokenKind.L_BRACE) - (kind is MLIRTokenKind.R_BRACE)
            if kind is MLIRTokenKind.EOF:
                self.raise_error("expected '}' in external resources")
            self.advance()
            if depth == 0:
                return

    def parse_operation(self) -> Operation:
        state = self._parser_state
        start: int = state.current_token.start  # pyright: ignore
        op = self._line(start)
        if op is not None:
            return op
        results = self._parse_op_result_list() if state.current_token.kind is _PERCENT else []
        token = state.current_token
        stack = state.dialect_stack
        if token.kind is _BARE:
            known = self._ops.get(token.text)
            if known is None:
                known = self._know(token.text, self._get_op_by_name(token.text))
            state.current_token = state.lexer.lex()
            op_type, dialect, plan, inherent = known
            if plan is not None and plan.used < OFTEN:
                plan.used += 1
                if plan.used == OFTEN:
                    _LINES[op_type] = LinePlan(plan)
                    self._know(token.text, op_type)
            stack.append(dialect)
            op = op_type.parse(self) if plan is None else plan.parse(self)
            stack.pop()
            if op.attributes and not inherent.isdisjoint(op.attributes):
                for key in inherent & op.attributes.keys():
                    op.properties[key] = op.attributes.pop(key)
            location = self.parse_optional_location()
            if location is not None:
                op.location = location
        else:
            name = self.expect(self.parse_optional_str_literal, "operation name expected")
            op_type = self._get_op_by_name(name)
            stack.append(op_type.dialect_name())
            op = self._parse_generic_operation(op_type)
            stack.pop()
            upgrade(op)
        if isinstance(op.location, UnknownLoc) and not self._said_unknown:
            op.location = self._location_at(start)
        self._said_unknown = False
        self.op_starts.append((op, start))
        self._bind(results, op, start)
        return op

    def _know(self, name: str, op_type: type[Operation]) -> _Known:
        """Note how the op class is read that is called `name`."""
        known = op_type, op_type.dialect_name(), _plan_of(op_type), _inherent(op_type)
        if "." in name:
            self._ops[name] = known
            line = _LINES.get(op_type)
            if line is None and op_type.name == "arith.constant":
                line = _LINES[op_type] = ConstantLine(op_type)
            self._lines_of[name] = line if line is not None and line.match else None
        return known

    def _line(self, start: int) -> Operation | None:
        """The op that begins at `start`, if it can be read at once."""
        name = NAME(self.text, start)
        if name is None:
            return None
        result, op_name = name.groups()
        if op_name not in self._lines_of:
            op_type = self.ctx.get_optional_op(op_name)
            if op_type is None:
                return None
            self._know(op_name, op_type)
        plan = self._lines_of[op_name]
        if plan is None:
            return None
        if result is not None and (
            plan.count[1] != 1 or result in self.ssa_values or result in self.forward_ssa_references
        ):
            return None
        found = plan.read(self, name.end())
        if found is None:
            self._jump(start)
            return None
        op, end = found
        self._jump(end)
        location = self.parse_optional_location()
        if location is None:
            op.location = self._location_at(start)
        else:
            op.location = location
            self._said_unknown = False
        self.op_starts.append((op, start))
        if result is not None:
            self.ssa_values[result] = tuple(op.results)
            hint = _hint_of(result)
            if hint is not None:
                op.results[0]._name = hint  # pyright: ignore[reportPrivateUsage]
        return op

    _said_unknown = False
    """Whether the location read last was `loc(unknown)`, which is kept as it is."""

    def _bind(self, results: Sequence[tuple[Any, int]], op: Operation, start: int) -> None:
        """Give the op's results their names."""
        if not results:
            return
        bound = sum(size for _, size in results)
        if bound and len(op.results) != bound:
            self.raise_error(
                f"Operation has {len(op.results)} results, but was given {bound} to bind.", start
            )
        first = 0
        for span, size in results:
            self._register_ssa_definition(span.text[1:], op.results[first : first + size], span)
            first += size

    def _parse_op_result(self) -> tuple[Any, int]:
        # The token stands in for its span: it has `text`, and an error needs no more.
        token = self._parse_token(_PERCENT, "Expected result SSA value!")
        if self.token_kind is not MLIRTokenKind.COLON:
            return token, 1
        self.advance()
        size = self._parse_token(_INTEGER, "Expected SSA value tuple size")
        return token, int(size.text, 0)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Any) -> None:
        if name in self.ssa_values or name in self.forward_ssa_references:
            real = span.span if isinstance(span, FastToken) else span
            super()._register_ssa_definition(name, values, real)
            self.forward_values += values
            return
        self.ssa_values[name] = tuple(values)
        first = values[0] if values else None
        if isinstance(first, BlockArgument) and not self._pending:
            # The text has no location aliases, so the argument is placed in the text.
            if isinstance(first.location, UnknownLoc) and not self._said_unknown:
                start = span.start if isinstance(span, Span | FastToken) else 0
                first.location = self._location_at(start)
            self._said_unknown = False
        hint = _hint_of(name)
        if hint is not None:
            for value in values:
                value._name = hint  # pyright: ignore[reportPrivateUsage]

    def _parse_block(self) -> Block:
        if self.token_kind is not MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected an operation, a block label or '}'")
        return super()._parse_block()

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        state = self._parser_state
        token = state.current_token
        if token.kind is not _PERCENT:
            return None
        state.current_token = state.lexer.lex()
        if state.current_token.kind is not _HASH:
            return FastOperand(token)  # pyright: ignore[reportArgumentType]
        index = state.current_token.text[1:]
        if not index.isdecimal():
            self.raise_error("Expected integer as SSA value tuple index")
        self.advance()
        return FastOperand(token, int(index))  # pyright: ignore[reportArgumentType]

    def parse_unresolved_operand(self, msg: str = "operand expected") -> UnresolvedOperand:
        operand = self.parse_optional_unresolved_operand()
        if operand is None:
            self.raise_error(msg)
        return operand

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> Any:
        values = self.ssa_values.get(operand.operand_name)
        if values is not None and operand.index < len(values):
            value = values[operand.index]
            if value.type is type or value.type == type:
                return value
        return super().resolve_operand(operand, type)

    # Locations

    def _find_aliases(self) -> None:
        """Note where location aliases are defined: mostly at the end, after all their uses."""
        for match in _ALIAS_DEF.finditer(self.text):
            name = match.group(1)
            if name in self._pending:
                self.raise_error(f"re-declaration of alias '{name}'", match.start())
            self._pending[name] = match.end()

    def _parse_alias_def(self) -> None:
        name = self.token_text
        if name in self._pending:
            self._alias(name)
            self._jump(self._pending[name])
            self.parse_optional_location()
            self._said_unknown = False
            return
        super()._parse_alias_def()

    def _alias(self, name: str) -> Attribute:
        """The attribute that alias `name` stands for, read where it is defined."""
        found = self.attribute_aliases.get(name)
        if found is not None:
            return found
        position = self._pending.get(name)
        if position is None:
            self.raise_error(f"undefined symbol alias '{name}'")
        if position < 0:
            self.raise_error(f"alias '{name}' refers to itself")
        match = _LOC_PLAIN(self.text, position)
        self._pending[name] = -1
        if match is not None:
            found = self._plain_location(match)
        else:
            state = self._parser_state
            resume, token = state.lexer.pos, state.current_token
            self._jump(position)
            found = self.parse_optional_location()
            assert found is not None
            state.lexer.pos, state.current_token = resume, token
        self._pending[name] = position
        self.attribute_aliases[name] = found
        return found

    def _location_alias(self, name: str) -> LocationAttr:
        attr = self._alias(name)
        if not isinstance(attr, LocationAttr):
            self.raise_error(f"alias '{name}' is not a location")
        return attr

    def _plain_location(self, match: re.Match[str]) -> LocationAttr:
        file, line, column, name, child, callee, caller, _ = match.groups()
        if file is not None:
            return file_location(self._string(file), int(line), int(column))
        if name is not None:
            return unchecked(NameLoc, self._string(name), self._location_alias(child))
        if callee is not None:
            places = self._location_alias(callee), self._location_alias(caller)
            return unchecked(CallSiteLoc, *places)
        return UnknownLoc()

    def _string(self, text: str) -> StringAttr:
        found = self._strings.get(text)
        if found is None:
            found = self._strings[text] = StringAttr(text)
        return found

    def parse_optional_location(self) -> LocationAttr | None:
        token = self._parser_state.current_token
        if token.kind is not _BARE or token.text != "loc":
            return None
        start: int = token.start  # pyright: ignore
        match = _LOC_ALIAS(self.text, start)
        if match is not None:
            found = self._location_alias(match.group(1))
            self._jump(match.end())
        else:
            match = _LOC_TEXT(self.text, start)
            text = "" if match is None else match.group()
            found = self._inline_locations.get(text)
            if match is not None and found is not None:
                self._jump(match.end())
            else:
                found = self._location_in_place(start)
                if match is not None and not self.text[match.end() : self.pos].strip():
                    self._inline_locations[text] = found
        self._said_unknown = isinstance(found, UnknownLoc)
        return found

    def _location_in_place(self, start: int) -> LocationAttr:
        """Read `loc(...)`, whose first token is the current one."""
        plain = _LOC_PLAIN(self.text, start)
        if plain is not None:
            found = self._plain_location(plain)
            self._jump(plain.end())
            return found
        self.advance()
        with self.in_parens():
            return self._parse_location()

    def _parse_location(self) -> LocationAttr:
        """What stands between the parentheses of `loc(...)`."""
        if self.token_kind is _HASH:
            name = self.token_text
            self.advance()
            return self._location_alias(name)
        if self.token_kind is _STRING:
            return self._file_or_name()
        if self.parse_optional_keyword("fused"):
            metadata: Attribute = NoneAttr()
            if self.parse_optional_punctuation("<"):
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(tuple(parts), metadata)
        if self.token_kind is _BARE and self.token_text not in ("unknown", "callsite"):
            self.raise_error("Unsupported location type.")
        return super()._parse_location()

    def _file_or_name(self) -> LocationAttr:
        text = StringAttr(self.parse_str_literal())
        if not self.parse_optional_punctuation(":"):
            if not self.parse_optional_punctuation("("):
                return NameLoc(text, NoneAttr())
            child = self._parse_location()
            self.parse_punctuation(")")
            return NameLoc(text, child)
        line = self.parse_integer(False, False)
        self.parse_punctuation(":")
        column = self.parse_integer(False, False)
        begin = FileLineColLoc(text, IntAttr(line), IntAttr(column))
        if not self.parse_optional_keyword("to"):
            return begin
        end_line = line
        if self.token_kind is not MLIRTokenKind.COLON:
            end_line = self.parse_integer(False, False)
        self.parse_punctuation(":")
        end_column = self.parse_integer(False, False)
        return range_location(begin, FileLineColLoc(text, IntAttr(end_line), IntAttr(end_column)))

    def place(self, position: int) -> Location:
        """Where `position` is in the text."""
        if self._lines is None:
            self._lines = [0, *(m.end() for m in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, position)
        return Location(self._file.data, line, position - self._lines[line - 1] + 1)

    def place_of(self, op: Operation) -> Location:
        """Where `op`, which this parser made, stands in the text."""
        for made, position in self.op_starts:
            if made is op:
                return self.place(position)
        return Location(self._file.data)

    def _location_at(self, position: int) -> FileLineColLoc:
        at = self.place(position)
        assert at.line is not None
        assert at.column is not None
        return file_location(self._file, at.line, at.column)
