"""Ops read by one regular expression, where their text is as a printer writes it.

A `LinePlan` is made of a `FormatPlan` for an op class that occurs often: an expression that takes
the op's whole text after its name, with a group for every operand, type, keyword and attribute
dictionary. Types and dictionaries must have been read before (`remembered`), and operands defined,
with the right type. Otherwise nothing happens, and the op is read token by token, which also finds
the errors; so the expression need not know all of the syntax, but must not take less than all of
the op: what may follow optionally and is not understood is ruled out by a lookahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import EqAttrConstraint, OptionalDef, VarConstraint, VariadicDef
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    CustomDirective,
    FunctionalTypeDirective,
    KeywordDirective,
    OperandsDirective,
    OperandVariable,
    OptionalGroupDirective,
    OptionalOperandVariable,
    PunctuationDirective,
    ResultsDirective,
    ResultVariable,
    TypeDirective,
    WhitespaceDirective,
)

from xttir.dialects.ods import BareType, Derived, EnumKeyword, segment_sizes
from xttir.dialects.syntax.formats import FormatPlan
from xttir.dialects.syntax.remembered import DENSE, DICTIONARY, NEST, NUMBER, TYPE

if TYPE_CHECKING:
    from xttir.dialects.syntax.parser import TTParser

OFTEN = 24
"""An op class that has been read so often gets an expression; compiling it takes a millisecond."""

_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_OPERAND = rf"\s*+%({_SUFFIX}(?:\#[0-9]+)?)"
_TYPE = rf"\s*+({TYPE}|![\w.$-]+|[a-z][a-z0-9]*)"
_DICTIONARY = rf"(?:\s*+({DICTIONARY})|(?!\s*+\{{))"

NAME = re.compile(rf"(?:%({_SUFFIX}) = )?([a-z_][a-zA-Z0-9_$]*\.[a-zA-Z0-9_$.]+)").match
"""The beginning of an op with at most one named result."""

_MANY = 1024

Slot = tuple[bool, int]
"""An operand (False) or result (True) by its number."""


_Types = tuple[list[Attribute | None], list[Attribute | None]]
"""Types of the operands and of the results."""


class _NotPlain(Exception):
    """The format has something that no expression is made for."""


class _Source:
    """A type that the format leaves out: `slot`'s, or what `rule` makes of it."""

    def __init__(self, slot: Slot, rule: Callable[[Attribute], Attribute] | None):
        self.slot = slot
        self.rule = rule
        self._made: dict[int, tuple[Attribute, Attribute]] = {}

    def type_from(self, base: Attribute) -> Attribute:
        if self.rule is None:
            return base
        known = self._made.get(id(base))
        if known is None:
            if len(self._made) >= _MANY:
                self._made.clear()
            known = self._made[id(base)] = (base, self.rule(base))
        return known[1]


class LinePlan:
    """How to read the ops of one class at once. `match` is None where that cannot be done."""

    def __init__(self, plan: FormatPlan):
        self.plan = plan
        self.op_type = plan.op_type
        self.count = len(plan.op_def.operands), len(plan.op_def.results)
        self.segments = plan.operand_segments
        self.inherent = frozenset(plan.op_def.properties)
        self.reserved: frozenset[str] = frozenset()
        self.fields: list[tuple[str, Any]] = []
        self.match: Callable[[str, int], re.Match[str] | None] | None = None
        op_def = plan.op_def
        if (
            op_def.regions
            or op_def.successors
            or plan.same_operands
            or plan.same_results
            or any(isinstance(d, VariadicDef) for _, d in op_def.results)
            or any(
                isinstance(d, VariadicDef) and not isinstance(d, OptionalDef)
                for _, d in op_def.operands
            )
        ):
            return
        try:
            pattern = "".join(self._element(stmt) for stmt in plan.program.stmts)
            self.missing = self._missing()
        except _NotPlain:
            return
        self.match = re.compile(pattern).match

    # Making the expression

    def _element(self, stmt: Any) -> str:
        match stmt:
            case WhitespaceDirective():
                return ""
            case PunctuationDirective() | KeywordDirective():
                return _word(stmt)
            case OperandVariable():
                self.fields.append(("operand", stmt.index))
                return _OPERAND
            case TypeDirective(OperandVariable() | ResultVariable() as inner):
                self.fields.append(("type", (isinstance(inner, ResultVariable), inner.index)))
                return _TYPE
            case AttrDictDirective(with_keyword=False):
                self.reserved = frozenset(stmt.reserved_attr_names)
                self.fields.append(("dictionary", None))
                return _DICTIONARY
            case OptionalGroupDirective(else_elements=()):
                return self._group(stmt)
            case FunctionalTypeDirective(OperandsDirective(), ResultsDirective()) if self.count == (
                1,
                1,
            ):
                self.fields += [("type", (False, 0)), ("type", (True, 0))]
                return rf"\s*+\((?:{_TYPE})?\s*+\)\s*+->{_TYPE}"
            case BareType(inner=TypeDirective(OperandVariable() | ResultVariable() as inner)):
                slot = isinstance(inner, ResultVariable), inner.index
                self.fields.append(("bare", (*slot, f"!{stmt.cls.name}")))
                return rf"\s*+(<{NEST}>)"
            case EnumKeyword():
                self.fields.append(("enum", (stmt.value.name, stmt.cases)))
                return r"\s*+([a-z_0-9]+)(?![\w.$])"
            case CustomDirective() if words := getattr(stmt, "KEYWORDS", None):
                return "".join(rf"(?!\s*+{re.escape(word)})" for word in words)
            case _:
                raise _NotPlain

    def _group(self, group: OptionalGroupDirective) -> str:
        first = group.then_first
        if isinstance(first, EnumKeyword):
            words = "|".join(case.keyword for case in first.cases)
            return rf"(?!\s*+(?:{words})(?![\w.$]))"
        if not isinstance(first, PunctuationDirective | KeywordDirective):
            raise _NotPlain
        absent = rf"(?!{_word(first)})"
        parts, fields = [_word(first)], len(self.fields)
        for stmt in group.then_elements:
            match stmt:
                case WhitespaceDirective():
                    pass
                case PunctuationDirective() | KeywordDirective():
                    parts.append(_word(stmt))
                case OptionalOperandVariable():
                    self.fields.append(("operand", stmt.index))
                    parts.append(_OPERAND)
                case TypeDirective(OptionalOperandVariable() as inner):
                    self.fields.append(("type", (False, inner.index)))
                    parts.append(_TYPE)
                case EnumKeyword():
                    parts.append(self._element(stmt))
                case _:
                    del self.fields[fields:]
                    return absent
        return f"(?:{''.join(parts)}|{absent})"

    def _missing(self) -> list[tuple[Slot, _Source | Attribute]]:
        """Where each type comes from that the format leaves out."""
        plan = self.plan
        constraints = {(False, i): c for i, c in enumerate(plan.operand_constraints)}
        constraints |= {(True, i): c for i, c in enumerate(plan.result_constraints)}
        given = [slot[:2] for kind, slot in self.fields if kind in ("type", "bare")]
        read = {(False, index) for kind, index in self.fields if kind == "operand"}
        required = {(True, i) for i in range(self.count[1])}
        required |= {
            (False, i)
            for i, (_, definition) in enumerate(plan.op_def.operands)
            if not isinstance(definition, OptionalDef)
        }
        if any(slot not in read for slot in required if not slot[0]):
            raise _NotPlain
        variables = {
            constraints[slot].name: slot
            for slot in given
            if slot in required and isinstance(constraints[slot], VarConstraint)
        }
        missing: list[tuple[Slot, _Source | Attribute]] = []
        for slot, constraint in constraints.items():
            if slot in given or not (slot[0] or slot in read):
                continue
            match constraint:
                case VarConstraint(name=name) if name in variables:
                    missing.append((slot, _Source(variables[name], None)))
                case Derived(source=source) if source in variables:
                    missing.append((slot, _Source(variables[source], constraint.rule)))
                case EqAttrConstraint(attr=attr):
                    missing.append((slot, attr))
                case _:
                    raise _NotPlain
        return missing

    # Reading

    def read(self, parser: TTParser, start: int) -> tuple[Operation, int] | None:
        """The op whose text after the name begins at `start`, and where it ends."""
        assert self.match is not None
        match = self.match(parser.text, start)
        if match is None:
            return None
        operands, results = self.count
        names: list[str | None] = [None] * operands
        types: _Types = ([None] * operands, [None] * results)
        properties: dict[str, Attribute] = {}
        attributes: dict[str, Attribute] = {}
        group = 0
        for kind, what in self.fields:
            group += 1
            text = match[group]
            if text is None:
                continue
            if kind == "operand":
                names[what] = text
            elif kind == "enum":
                case = what[1].of_keyword(text)
                if case is None:
                    return None
                properties[what[0]] = case.attr
            elif kind == "dictionary":
                known = parser.dictionary_at(text, match.start(group))
                if known is None or not self.reserved.isdisjoint(known):
                    return None
                for key, value in known.items():
                    (properties if key in self.inherent else attributes)[key] = value
            else:
                found = (
                    parser.type_at(text, match.start(group))
                    if kind == "type"
                    else parser.type_of(what[2] + text)
                )
                if found is None:
                    return None
                types[what[0]][what[1]] = found
        self._infer(types, names)
        values = self._values(parser, names, types[0])
        if values is None:
            return None
        if self.segments is not None:
            groups = [() if name is None else (name,) for name in names]
            target = properties if self.plan.segments_as_property else attributes
            target[self.segments] = segment_sizes(groups)
        op = self.op_type.create(
            operands=values,
            result_types=types[1],  # pyright: ignore[reportArgumentType]
            properties=properties,
            attributes=attributes,
        )
        return op, match.end()

    def _infer(self, types: _Types, names: list[str | None]) -> None:
        """Fill in the types that the format leaves out."""
        for (is_result, i), source in self.missing:
            if isinstance(source, Attribute):
                types[is_result][i] = source
            elif is_result or names[i] is not None:
                base = types[source.slot[0]][source.slot[1]]
                assert base is not None
                types[is_result][i] = source.type_from(base)

    @staticmethod
    def _values(
        parser: TTParser, names: list[str | None], types: list[Attribute | None]
    ) -> list[SSAValue] | None:
        """The operands, if all are defined and of the types given."""
        values: list[SSAValue] = []
        for name, type_ in zip(names, types, strict=True):
            if name is None:
                if type_ is not None:
                    return None
                continue
            number = 0
            found = parser.ssa_values.get(name)
            if found is None and "#" in name:
                name, _, digits = name.partition("#")
                number, found = int(digits), parser.ssa_values.get(name)
            if found is None or number >= len(found):
                return None
            value = found[number]
            got = value._type  # pyright: ignore[reportPrivateUsage]
            if got is not type_ and got != type_:
                return None
            values.append(value)
        return values


def _word(stmt: PunctuationDirective | KeywordDirective) -> str:
    if isinstance(stmt, KeywordDirective):
        return rf"\s*+{re.escape(stmt.keyword)}(?![\w.$])"
    return rf"\s*+{re.escape(stmt.punctuation)}"


class ConstantLine:
    """`arith.constant` with a number or a short `dense<...>`, as a `LinePlan`."""

    count = 0, 1

    match = staticmethod(re.compile(rf"\s*+(true|false|{NUMBER}|{DENSE})(?= *+(?:loc\(|\n))").match)

    def __init__(self, op_type: type[Operation]):
        self.op_type = op_type

    def read(self, parser: TTParser, start: int) -> tuple[Operation, int] | None:
        """See `LinePlan.read`."""
        match = self.match(parser.text, start)
        if match is None:
            return None
        value = parser.attribute_at(match[1], match.start(1))
        if not isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
            return None
        op = self.op_type.create(result_types=(value.type,), properties={"value": value})
        return op, match.end()
