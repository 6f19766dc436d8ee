"""Ops of `nvws` that say which warps run what, before `ttg.warp_specialize` does."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect, ReturnLike

from xttir.dialects.tt.traits import check
from xttir.dialects.ttg.types import I32_ARRAY


@irdl_op_definition
class WarpGroupOp(IRDLOperation):
    """Partitions, each run by its own warps; results are those of the first. ODS calls the results
    `results`."""

    name = "nvws.warp_group"
    num_warps = prop_def(I32_ARRAY, prop_name="numWarps")
    results_ = var_result_def()
    partition_regions: Sequence[Region] = var_region_def()
    traits = traits_def(RecursiveMemoryEffect())

    def verify_(self) -> None:
        regions = self.partition_regions
        check(len(self.num_warps) == len(regions), "must supply numWarps for each warp group")
        if self.results_:
            check(bool(regions), "must have at least one region when there are results")
            block = regions[0].blocks.first
            last = None if block is None else block.last_op
            check(
                isinstance(last, WarpGroupYieldOp),
                "has results, so its first region must end with nvws.warp_group.yield",
            )
            assert last is not None
            check(
                len(self.results_) == len(last.operands),
                f"has {len(self.results_)} results, but its first region yields "
                f"{len(last.operands)}",
            )

    @classmethod
    def parse(cls, parser: Parser) -> WarpGroupOp:
        attributes = parser.parse_optional_attr_dict_with_keyword()
        warps: list[int] = []
        regions: list[Region] = []
        while parser.parse_optional_keyword(f"partition{len(warps)}"):
            parser.parse_keyword("num_warps")
            with parser.in_parens():
                warps.append(parser.parse_integer(allow_boolean=False))
            regions.append(parser.parse_region())
        types: Sequence[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            types = parser.parse_optional_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_type
            ) or [parser.parse_type()]
        return cls.create(
            result_types=types,
            properties={"numWarps": DenseArrayBase.from_list(i32, warps)},
            attributes=dict(attributes.data) if attributes else {},
            regions=regions,
        )

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes, print_keyword=True)
        numbers = self.num_warps.get_values()
        for i, (region, warps) in enumerate(zip(self.partition_regions, numbers, strict=True)):
            printer.print_string(f"\npartition{i} num_warps({warps}) ")
            printer.print_region(region, print_entry_block_args=False)
        if self.results_:
            printer.print_string(" -> ")
            if len(self.results_) == 1:
                printer.print_attribute(self.results_[0].type)
                return
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)


@irdl_op_definition
class WarpGroupYieldOp(IRDLOperation):
    """Terminator of the first region of an `nvws.warp_group` that has results."""

    name = "nvws.warp_group.yield"
    values = var_operand_def()
    assembly_format = "($values^)? attr-dict (`:` type($values)^)?"
    traits = traits_def(HasParent(WarpGroupOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class WarpGroupReturnOp(IRDLOperation):
    """Terminator of the other regions of `nvws.warp_group`."""

    name = "nvws.warp_group.return"
    assembly_format = "attr-dict"
    traits = traits_def(HasParent(WarpGroupOp), Pure(), IsTerminator())
