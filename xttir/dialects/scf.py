"""`scf`: upstream's ops, with `scf.for unsigned`, `scf.while` without operands, and verifiers.

The classes here derive from xDSL's, so that its traits, passes and `isinstance` tests see them.
What differs is syntax (`unsigned`, an optional operand list, debug locations in the right place)
and that yields and conditions are checked against what they feed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf as upstream
from xdsl.dialects.builtin import DictionaryAttr, IndexType, UnitAttr, i1
from xdsl.dialects.scf import (
    ConditionOp,
    IndexSwitchOp,
    ParallelOp,
    ReduceOp,
    ReduceReturnOp,
    YieldOp,
)
from xdsl.dialects.utils import print_assignment
from xdsl.ir import Attribute, Block, Dialect, Operation, Region
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ods import OptionalUnitProperty, with_unit_property


def _types(values: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, values))})"


def _check_types(what: str, got: Sequence[Attribute], want: Sequence[Attribute]) -> None:
    if tuple(got) != tuple(want):
        raise VerifyException(f"{what} have types {_types(got)}, expected {_types(want)}")


def _check_yield(region: Region, want: Sequence[Attribute]) -> None:
    """The yield that ends `region` must yield values of the types `want`."""
    for block in region.blocks:
        if isinstance(last := block.last_op, YieldOp):
            _check_types("values yielded", last.operand_types, want)


def _end_with_yield(region: Region) -> None:
    """Add the `scf.yield` that the pretty form leaves out."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[0]
    if block.last_op is None or not isinstance(block.last_op, YieldOp):
        block.add_op(YieldOp())


def _print_pairs(printer: Printer, op: ForOp | WhileOp, block: Block, first: int) -> None:
    """`(%arg = %init, ...)`."""
    with printer.in_parens():
        printer.print_list(
            zip(block.args[first:], op.operands[3 * first :], strict=True),
            lambda pair: print_assignment(printer, *pair),
        )


def _parse_pairs(
    parser: Parser,
) -> tuple[list[Parser.UnresolvedArgument], list[UnresolvedOperand]]:
    args: list[Parser.UnresolvedArgument] = []
    inits: list[UnresolvedOperand] = []

    def pair() -> None:
        args.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        inits.append(parser.parse_unresolved_operand())

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
    return args, inits


def _parse_types(parser: Parser) -> Sequence[Attribute]:
    """What follows `->`: one type, or types in parentheses."""
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else types


class ForOp(upstream.ForOp):
    """A counted loop; `unsigned_cmp` compares the induction variable as unsigned."""

    unsigned_cmp = OptionalUnitProperty("unsignedCmp")
    get_irdl_definition = with_unit_property(upstream.ForOp, "unsignedCmp")

    def verify_(self) -> None:
        type(self).get_irdl_definition().verify(self)
        args = self.body.block.args
        if not args:
            raise VerifyException("the body has no induction variable")
        index = args[0].type
        _check_types("bounds and step", [v.type for v in self.operands[:3]], [index] * 3)
        carried = [v.type for v in self.iter_args]
        _check_types("loop-carried arguments of the body", [a.type for a in args[1:]], carried)
        _check_types("results", self.result_types, carried)
        _check_yield(self.body, carried)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        unsigned = parser.parse_optional_keyword("unsigned")
        names = [parser.parse_argument(expect_type=False)]
        parser.parse_punctuation("=")
        bounds = [parser.parse_unresolved_operand()]
        for word in ("to", "step"):
            parser.parse_keyword(word)
            bounds.append(parser.parse_unresolved_operand())
        inits: list[UnresolvedOperand] = []
        types: Sequence[Attribute] = ()
        start = parser.pos
        if parser.parse_optional_keyword("iter_args"):
            args, inits = _parse_pairs(parser)
            names += args
            parser.parse_punctuation("->")
            types = _parse_types(parser)
            if len(types) != len(inits):
                parser.raise_error(f"{len(inits)} iter_args but {len(types)} types", start)
        index: Attribute = IndexType()
        if parser.parse_optional_punctuation(":"):
            index = parser.parse_type()
        operands = parser.resolve_operands([*bounds, *inits], (index, index, index, *types), start)
        arguments = [n.resolve(t) for n, t in zip(names, (index, *types), strict=True)]
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict()
        if not types:
            _end_with_yield(body)
        return cls.create(
            operands=operands,
            result_types=types,
            properties={"unsignedCmp": UnitAttr()} if unsigned else {},
            attributes=attributes,
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        block = self.body.block
        printer.print_string(" unsigned " if self.unsigned_cmp else " ")
        printer.print_ssa_value(block.args[0])
        for word, value in zip((" = ", " to ", " step "), self.operands[:3], strict=True):
            printer.print_string(word)
            printer.print_ssa_value(value)
        if self.iter_args:
            printer.print_string(" iter_args")
            _print_pairs(printer, self, block, 1)
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)
        if not isinstance(block.args[0].type, IndexType):
            printer.print_string(" : ")
            printer.print_attribute(block.args[0].type)
        printer.print_string(" ")
        printer.print_region(
            self.body,
            print_entry_block_args=False,
            print_empty_block=False,
            print_block_terminators=bool(self.iter_args),
        )
        printer.print_op_attributes(self.attributes)


class WhileOp(upstream.WhileOp):
    """`before` gives the condition and the values for `after`, which yields back to `before`."""

    def verify_(self) -> None:
        type(self).get_irdl_definition().verify(self)
        before, after = self.before_region.block, self.after_region.block
        _check_types("arguments of the first region", before.arg_types, self.operand_types)
        _check_types("arguments of the second region", after.arg_types, self.result_types)
        if not isinstance(condition := before.last_op, ConditionOp):
            raise VerifyException("the first region must end with scf.condition")
        _check_types("values of scf.condition", [v.type for v in condition.args], self.result_types)
        if not isinstance(after.last_op, YieldOp):
            raise VerifyException("the second region must end with scf.yield")
        _check_yield(self.after_region, self.operand_types)

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        names: list[Parser.UnresolvedArgument] = []
        inits: list[UnresolvedOperand] = []
        start = parser.pos
        if not parser.parse_optional_punctuation(":"):
            names, inits = _parse_pairs(parser)
            parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        inputs = signature.inputs.data
        if len(inputs) != len(inits):
            parser.raise_error(f"{len(inits)} operands but {len(inputs)} types", start)
        operands = parser.resolve_operands(inits, inputs, start)
        before = parser.parse_region([n.resolve(t) for n, t in zip(names, inputs, strict=True)])
        parser.parse_keyword("do")
        after = parser.parse_region()
        attributes: DictionaryAttr | None = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(
            operands=operands,
            result_types=signature.outputs.data,
            attributes=attributes.data if attributes else {},
            regions=[before, after],
        )

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            _print_pairs(printer, self, self.before_region.block, 0)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        printer.print_string(" ")
        printer.print_region(
            self.before_region, print_entry_block_args=False, print_empty_block=False
        )
        printer.print_string(" do ")
        printer.print_region(self.after_region, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)


class IfOp(upstream.IfOp):
    """A conditional; both regions yield the results."""

    def verify_(self) -> None:
        super().verify_()
        if self.results and not self.false_region.blocks:
            raise VerifyException("an scf.if with results needs an else region")
        for region in (self.true_region, self.false_region):
            if region.blocks and region.blocks[0].args:
                raise VerifyException("the regions of an scf.if take no arguments")
            _check_yield(region, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        condition = parser.parse_unresolved_operand()
        start = parser.pos
        types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            types = _parse_types(parser)
        (operand,) = parser.resolve_operands([condition], [i1], start)
        regions = [parser.parse_region(), Region()]
        _end_with_yield(regions[0])
        if parser.parse_optional_keyword("else"):
            regions[1] = parser.parse_region()
            _end_with_yield(regions[1])
        attributes = parser.parse_optional_attr_dict()
        return cls.create(
            operands=[operand], result_types=types, attributes=attributes, regions=regions
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.cond)
        if self.results:
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)
        for word, region in ((" ", self.true_region), (" else ", self.false_region)):
            if region.blocks:
                printer.print_string(word)
                printer.print_region(
                    region,
                    print_entry_block_args=False,
                    print_empty_block=False,
                    print_block_terminators=bool(self.results),
                )
        printer.print_op_attributes(self.attributes)


class ExecuteRegionOp(upstream.ExecuteRegionOp):
    """A region of several blocks, run once."""

    no_inline = OptionalUnitProperty("no_inline")
    get_irdl_definition = with_unit_property(upstream.ExecuteRegionOp, "no_inline")

    def verify_(self) -> None:
        type(self).get_irdl_definition().verify(self)
        if self.region.first_block is None:
            raise VerifyException("scf.execute_region needs at least one block")
        _check_yield(self.region, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> ExecuteRegionOp:
        types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            types = _parse_types(parser)
        no_inline = parser.parse_optional_keyword("no_inline")
        region = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        return cls.create(
            result_types=types,
            properties={"no_inline": UnitAttr()} if no_inline else {},
            attributes=attributes,
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        if self.results:
            printer.print_string(" -> ")
            if len(self.results) == 1:
                printer.print_attribute(self.results[0].type)
            else:
                with printer.in_parens():
                    printer.print_list(self.result_types, printer.print_attribute)
        printer.print_string(" no_inline " if self.no_inline else " ")
        printer.print_region(self.region, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)


_OURS: tuple[type[Operation], ...] = (ExecuteRegionOp, ForOp, IfOp, WhileOp)

Scf = Dialect(
    "scf",
    [
        *(op for op in upstream.Scf.operations if op.name not in {o.name for o in _OURS}),
        *_OURS,
    ],
    list(upstream.Scf.attributes),
)

__all__ = [
    "ConditionOp",
    "ExecuteRegionOp",
    "ForOp",
    "IfOp",
    "IndexSwitchOp",
    "ParallelOp",
    "ReduceOp",
    "ReduceReturnOp",
    "Scf",
    "WhileOp",
    "YieldOp",
]
