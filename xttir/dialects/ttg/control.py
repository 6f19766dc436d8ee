"""Ops of `ttg` that say which warps run what: specialization, masks, warp ids."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i1, i32
from xdsl.ir import Block, Region
from xdsl.irdl import (
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    ReturnLike,
)
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts.placement import warps_at
from xttir.dialects.tt.traits import LayoutOp, check
from xttir.dialects.ttg.types import I32_ARRAY, I32_TYPED, INDUCTION


@irdl_op_definition
class PredicateStageOp(LayoutOp):
    """Whether a stage of a pipelined loop runs."""

    name = "ttg.predicate_stage"
    T: ClassVar = VarConstraint("T", INDUCTION)
    iv = operand_def(T)
    ub = operand_def(T)
    step = operand_def(T)
    max_stage = prop_def(I32_TYPED, prop_name="maxStage")
    stage = prop_def(I32_TYPED)
    result = result_def(i1)
    assembly_format = (
        "$iv `,` $ub `,` $step `maxStage` $maxStage `stage` $stage attr-dict"
        " `:` type($iv) `->` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class MaskOp(LayoutOp):
    """A region that runs where `pred` holds."""

    name = "ttg.mask"
    pred = operand_def(i1)
    result = var_result_def()
    region: Region = region_def("single_block")


@irdl_op_definition
class MaskReturnOp(LayoutOp):
    """Terminator of `ttg.mask`."""

    name = "ttg.mask.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(MaskOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class WarpSpecializePartitionsOp(LayoutOp):
    """Holds the partitions of `ttg.warp_specialize`, isolated from above."""

    name = "ttg.warp_specialize.partitions"
    explicit_captures = var_operand_def()
    partition_regions = var_region_def()
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect(), IsTerminator())

    def verify_(self) -> None:
        want = [value.type for value in self.explicit_captures]
        for i, region in enumerate(self.partition_regions):
            block = region.blocks.first
            check(
                block is not None and list(block.arg_types) == want,
                f"arguments of partition {i} do not match the captures",
            )


@irdl_op_definition
class WarpSpecializeOp(LayoutOp):
    """A default region and partitions, each run by its own warps at the same time."""

    name = "ttg.warp_specialize"
    partition_num_warps = prop_def(I32_ARRAY, prop_name="partitionNumWarps")
    warp_group_start_ids = opt_prop_def(I32_ARRAY, prop_name="warpGroupStartIds")
    requested_registers = opt_prop_def(I32_ARRAY, prop_name="requestedRegisters")
    actual_registers = opt_prop_def(I32_ARRAY, prop_name="actualRegisters")
    default_passthrough = var_result_def()
    default_region: Region = region_def()
    partition_op_holder: Region = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    @property
    def partitions(self) -> WarpSpecializePartitionsOp:
        """The op that holds the partitions."""
        op = self.partition_op_holder.block.last_op
        assert isinstance(op, WarpSpecializePartitionsOp)
        return op

    def verify_(self) -> None:
        op = self.partition_op_holder.block.last_op
        if not isinstance(op, WarpSpecializePartitionsOp):
            raise VerifyException("expected to find only a `ttg.warp_specialize.partitions` op")
        check(
            len(op.partition_regions) == len(self.partition_num_warps),
            f"has {len(op.partition_regions)} partitions but "
            f"{len(self.partition_num_warps)} numbers of warps",
        )
        for i, warps in enumerate(self.partition_num_warps.get_values()):
            check(
                warps > 0 and int(warps) & (int(warps) - 1) == 0,
                f"partition #{i} number of warps ({warps}) must be a power of 2",
            )
        starts = self.warp_group_start_ids
        check(
            starts is None or len(starts) == len(self.partition_num_warps),
            "has another number of warp group start IDs than of partitions",
        )
        parent = self.parent_op()
        while parent is not None:
            check(
                parent.name != self.name,
                "cannot be nested inside another `ttg.warp_specialize` op",
            )
            parent = parent.parent_op()
        around = warps_at(self)
        check(
            around is None or around % 4 == 0,
            "warp-specialized kernels requires num_warps to be a multiple of 4",
        )

    @classmethod
    def parse(cls, parser: Parser) -> WarpSpecializeOp:
        start = parser.pos
        captures = parser.parse_op_args_list()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_keyword("default")
        default = parser.parse_region()
        warps: list[int] = []
        regions: list[Region] = []
        while parser.parse_optional_keyword(f"partition{len(warps)}"):
            regions.append(cls._parse_partition(parser, warps))
        parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        operands = parser.resolve_operands(captures, signature.inputs.data, start)
        holder = Block([WarpSpecializePartitionsOp.create(operands=operands, regions=regions)])
        given = dict(attributes.data) if attributes else {}
        names = cls.get_irdl_definition().properties
        properties = {name: given.pop(name) for name in tuple(given) if name in names}
        properties["partitionNumWarps"] = DenseArrayBase.from_list(i32, warps)
        return cls.create(
            result_types=signature.outputs.data,
            properties=properties,
            attributes=given,
            regions=[default, Region(holder)],
        )

    @staticmethod
    def _parse_partition(parser: Parser, warps: list[int]) -> Region:
        def argument() -> Parser.Argument:
            arg = parser.parse_argument()
            arg.location = parser.parse_optional_location()
            return arg

        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_keyword("num_warps")
        with parser.in_parens():
            warps.append(parser.parse_integer(allow_boolean=False))
        return parser.parse_region(args)

    def print(self, printer: Printer) -> None:
        partitions = self.partitions
        printer.print_operands(partitions.operands)
        shown = {k: v for k, v in self.properties.items() if k != "partitionNumWarps"}
        printer.print_op_attributes(shown | self.attributes, print_keyword=True)
        printer.print_string("\ndefault ")
        printer.print_region(self.default_region, print_entry_block_args=False)
        numbers = self.partition_num_warps.get_values()
        for i, (region, warps) in enumerate(
            zip(partitions.partition_regions, numbers, strict=True)
        ):
            printer.print_string(f"\npartition{i}")
            with printer.in_parens():
                printer.print_list(region.blocks[0].args, printer.print_block_argument)
            printer.print_string(f" num_warps({warps}) ")
            printer.print_region(region, print_entry_block_args=False)
        printer.print_string(" : ")
        printer.print_function_type(partitions.operand_types, self.result_types)


@irdl_op_definition
class WarpYieldOp(LayoutOp):
    """Terminator of the default region of `ttg.warp_specialize`."""

    name = "ttg.warp_yield"
    values = var_operand_def()
    assembly_format = "($values^)? attr-dict (`:` type($values)^)?"
    traits = traits_def(HasParent(WarpSpecializeOp), Pure(), IsTerminator(), ReturnLike())

    def verify_(self) -> None:
        parent = self.parent_op()
        check(
            parent is None or tuple(self.operand_types) == tuple(parent.result_types),
            "operands do not match the results of the parent op",
        )


@irdl_op_definition
class WarpReturnOp(LayoutOp):
    """Terminator of a partition of `ttg.warp_specialize`."""

    name = "ttg.warp_return"
    assembly_format = "attr-dict"
    traits = traits_def(HasParent(WarpSpecializePartitionsOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class WarpIdOp(LayoutOp):
    """The index of the warp in its program."""

    name = "ttg.warp_id"
    omit_uniform_hint = opt_prop_def(UnitAttr, prop_name="omitUniformHint")
    result = result_def(i32)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(Pure())
