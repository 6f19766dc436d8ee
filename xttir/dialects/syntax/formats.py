"""Declarative assembly formats, run by a plan made once per op class.

xDSL runs the statements of a format one by one, then checks every constraint, infers the types
that the format leaves out, and builds the op through generic builders. A `FormatPlan` knows which
type is copied from which and creates the op directly; the checks are left to the verifier, which
runs on the whole module anyway. What a plan does not know goes the way of xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    EqAttrConstraint,
    IRDLOperation,
    RangeLengthConstraint,
    RangeOf,
    SameVariadicOperandSize,
    SameVariadicResultSize,
    VarConstraint,
    VariadicDef,
)
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    FormatProgram,
    KeywordDirective,
    OperandVariable,
    OptionalGroupDirective,
    ParsingState,
    PunctuationDirective,
    ResultVariable,
    TypeDirective,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRTokenKind

from xttir.dialects.ods import Derived, segment_sizes

if TYPE_CHECKING:
    from xttir.dialects.syntax.parser import TTParser

Step = Callable[["TTParser", ParsingState], None]


def _punctuation(stmt: PunctuationDirective) -> Step:
    kind = KIND_BY_PUNCTUATION_SPELLING[stmt.punctuation]
    message = f"Expected '{stmt.punctuation}'"
    return lambda parser, state: parser.skip(kind, message)


def _operand(stmt: OperandVariable) -> Step:
    index = stmt.index

    def step(parser: TTParser, state: ParsingState) -> None:
        state.operands[index] = (parser.parse_unresolved_operand(),)

    return step


def _type(stmt: TypeDirective) -> Step:
    inner = stmt.inner
    if type(inner) is OperandVariable:
        index = inner.index

        def operand_type(parser: TTParser, state: ParsingState) -> None:
            state.operand_types[index] = (parser.parse_type(),)

        return operand_type
    if type(inner) is ResultVariable:
        index = inner.index

        def result_type(parser: TTParser, state: ParsingState) -> None:
            state.result_types[index] = (parser.parse_type(),)

        return result_type
    return stmt.parse


def _attr_dict(stmt: AttrDictDirective) -> Step:
    if stmt.with_keyword:
        return stmt.parse
    brace = MLIRTokenKind.L_BRACE

    def step(parser: TTParser, state: ParsingState) -> None:
        if parser.token_kind is brace:
            stmt.parse(parser, state)

    return step


def _group(stmt: OptionalGroupDirective) -> Step:
    first = stmt.then_first
    if not isinstance(first, PunctuationDirective | KeywordDirective):
        return stmt.parse
    if isinstance(first, PunctuationDirective):
        kind, text = KIND_BY_PUNCTUATION_SPELLING[first.punctuation], first.punctuation
    else:
        kind, text = MLIRTokenKind.BARE_IDENT, first.keyword
    then = tuple(_step(element) for element in stmt.then_elements)
    otherwise = tuple(_step(element) for element in stmt.else_elements)

    def step(parser: TTParser, state: ParsingState) -> None:
        if parser.token_kind is kind and parser.token_text == text:
            parser.advance()
            for run in then:
                run(parser, state)
            for element in stmt.else_elements:
                element.set_empty(state)
        else:
            for element in stmt.then_elements:
                element.set_empty(state)
            for run in otherwise:
                run(parser, state)

    return step


_STEPS: dict[type, Callable[[Any], Step]] = {
    PunctuationDirective: _punctuation,
    OperandVariable: _operand,
    TypeDirective: _type,
    AttrDictDirective: _attr_dict,
    OptionalGroupDirective: _group,
}


def _step(stmt: Any) -> Step:
    make = _STEPS.get(type(stmt))
    return stmt.parse if make is None else make(stmt)


def _attr_constraint(constr: Any) -> Any:
    """The constraint on each type of an operand or result group."""
    if isinstance(constr, RangeLengthConstraint):
        constr = constr.constraint
    return constr.constr if isinstance(constr, RangeOf) else constr


class FormatPlan:
    """How to parse the declarative format of one op class."""

    def __init__(self, op_type: type[IRDLOperation]):
        op_def = op_type.get_irdl_definition()
        assert op_def.assembly_format is not None
        self.op_type = op_type
        self.op_def = op_def
        self.used = 0
        """How many ops have been read with it."""
        self.program = FormatProgram.from_str(op_def.assembly_format, op_def)
        self.steps = tuple(_step(stmt) for stmt in self.program.stmts)
        self.operand_constraints = [_attr_constraint(d.constr) for _, d in op_def.operands]
        self.result_constraints = [_attr_constraint(d.constr) for _, d in op_def.results]
        self.operand_segments: str | None = None
        self.result_segments: str | None = None
        self.same_operands = self.same_results = False
        self.segments_as_property = True
        for option in op_def.options:
            match option:
                case AttrSizedOperandSegments():
                    self.operand_segments = option.attribute_name
                    self.segments_as_property = option.as_property
                case AttrSizedResultSegments():
                    self.result_segments = option.attribute_name
                    self.segments_as_property = option.as_property
                case SameVariadicOperandSize():
                    self.same_operands = True
                case SameVariadicResultSize():
                    self.same_results = True
                case _:
                    pass

    def parse(self, parser: TTParser) -> Operation:
        """Parse one op, its name having been read."""
        start = parser.pos
        state = ParsingState(self.op_type)
        for step in self.steps:
            step(parser, state)
        try:
            if None in state.operand_types or None in state.result_types:
                self._infer(state)
        except VerifyException as error:
            parser.raise_error(str(error), start)
        operands: list[SSAValue] = []
        for names, types in zip(state.operands, state.operand_types, strict=True):
            assert names is not None
            assert types is not None
            if len(names) != len(types):
                parser.raise_error(
                    f"expected {len(types)} operand types but had {len(names)}", parser.pos
                )
            for name, type_ in zip(names, types, strict=True):
                operands.append(parser.resolve_operand(name, type_))
        self._sizes(parser, state)
        return self.op_type.create(
            operands=operands,
            result_types=[t for types in state.result_types for t in types or ()],
            properties=state.properties,
            attributes=state.attributes,
            regions=[r for group in state.regions for r in group or ()],
            successors=[s for group in state.successors for s in group or ()],
        )

    def _infer(self, state: ParsingState) -> None:
        """Fill in the types that the format leaves out."""
        known: dict[str, Attribute] = {}
        for groups, constraints in (
            (state.operand_types, self.operand_constraints),
            (state.result_types, self.result_constraints),
        ):
            for types, constraint in zip(groups, constraints, strict=True):
                if types and type(constraint) is VarConstraint:
                    known[constraint.name] = types[0]
        done = True
        for i, types in enumerate(state.operand_types):
            if types is None:
                one = self._one(self.operand_constraints[i], known)
                done = done and one is not None
                if one is not None:
                    state.operand_types[i] = (one,) * len(state.operands[i] or ())
        for i, types in enumerate(state.result_types):
            if types is None:
                one = self._one(self.result_constraints[i], known)
                if one is None or isinstance(self.op_def.results[i][1], VariadicDef):
                    done = False
                else:
                    state.result_types[i] = (one,)
        if not done:
            self.program.resolve_constraint_variables(state, self.op_def)
            state.operand_types = list(self.program.resolve_operand_types(state, self.op_def))
            state.result_types = list(self.program.resolve_result_types(state, self.op_def))

    @staticmethod
    def _one(constraint: Any, known: dict[str, Attribute]) -> Attribute | None:
        kind = type(constraint)
        if kind is VarConstraint:
            return known.get(constraint.name)
        if kind is Derived:
            source = known.get(constraint.source)
            return None if source is None else constraint.rule(source)
        return constraint.attr if kind is EqAttrConstraint else None

    def _sizes(self, parser: TTParser, state: ParsingState) -> None:
        """Record or check the sizes of variadic groups."""
        target = state.properties if self.segments_as_property else state.attributes
        if self.operand_segments is not None:
            target[self.operand_segments] = segment_sizes(state.operand_types)
        if self.result_segments is not None:
            target[self.result_segments] = segment_sizes(state.result_types)
        for wanted, groups, definitions in (
            (self.same_operands, state.operand_types, self.op_def.operands),
            (self.same_results, state.result_types, self.op_def.results),
        ):
            if wanted:
                sizes = {
                    len(group or ())
                    for group, (_, d) in zip(groups, definitions, strict=True)
                    if isinstance(d, VariadicDef)
                }
                if len(sizes) > 1:
                    parser.raise_error(f"groups of different sizes {sorted(sizes)}")
