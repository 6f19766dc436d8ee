"""The `ttg` dialect: tiles with layouts, and shared memory (TTGIR).

Ops and types bear the names of Triton's `TritonGPUOps.td` and `TritonGPUTypes.td`. Syntax and types
are complete; layouts (`layouts/encodings.py`) are compared for equality only.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Dialect, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    RecursiveMemoryEffect,
    ReturnLike,
)
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts.encodings import *  # noqa: F403
from xttir.dialects.layouts.encodings import TTG_ENCODINGS
from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    Check,
    Derived,
    bare_type,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.enums import RMWOp
from xttir.dialects.tt.traits import SameElementType, SameShape, check
from xttir.dialects.tt.types import (
    ANY_TYPE,
    FLOAT_TENSOR,
    INT_TENSOR,
    PTR,
    TENSOR,
    int_of,
    is_ptr,
    is_scalar,
    like,
    pointee_type_of,
    tensor_of,
)
from xttir.dialects.tt.versions import CacheHints


class AddrSpace(enum.IntFlag):
    """The memories that a barrier orders."""

    NONE = 0
    LOCAL = 1
    GLOBAL_READ = 2
    GLOBAL_WRITE = 4
    TENSOR_READ = 8
    TENSOR_WRITE = 16
    ALL = 31


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """Ties an asynchronous op to those that wait for it."""

    name = "ttg.async.token"


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.memdesc<2x64x32xf16, #shared, #smem, mutable>`: a view of shared or tensor memory."""

    name = "ttg.memdesc"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    encoding: Attribute
    memory_space: Attribute
    mutable_memory: IntAttr
    """1 for memory that may be stored to."""
    alloc_shape: ArrayAttr[IntAttr]
    """Shape of the allocation that this is a view of."""

    def get_shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.shape.data)

    def get_alloc_shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.alloc_shape.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_ranked_shape()
            parser.parse_punctuation(",")
            encoding = parser.parse_attribute()
            parser.parse_punctuation(",")
            space = parser.parse_attribute()
            mutable, alloc = False, shape
            if parser.parse_optional_punctuation(","):
                mutable = parser.parse_optional_keyword("mutable") is not None
                if not mutable or parser.parse_optional_punctuation(","):
                    alloc = parser.parse_dimension_list()
        return [
            ArrayAttr([IntAttr(d) for d in shape]),
            element_type,
            encoding,
            space,
            IntAttr(int(mutable)),
            ArrayAttr([IntAttr(d) for d in alloc]),
        ]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{d}x" for d in self.get_shape()))
            printer.print_attribute(self.element_type)
            for attr in (self.encoding, self.memory_space):
                printer.print_string(", ")
                printer.print_attribute(attr)
            if self.mutable_memory.data:
                printer.print_string(", mutable")
            if self.alloc_shape != self.shape:
                printer.print_string(", " + "x".join(map(str, self.get_alloc_shape())))

    def verify(self) -> None:
        if not self.shape.data:
            raise VerifyException("rank 0 memdesc is not allowed")
        if len(self.alloc_shape.data) < len(self.shape.data):
            raise VerifyException("alloc shape must have at least as many dimensions as shape")


MEMDESC = Check("a memory descriptor", lambda a: isinstance(a, MemDescType))
TENSOR_OR_MEMDESC = Check(
    "a tensor or memory descriptor", lambda a: isinstance(a, TensorType | MemDescType)
)
TYPE_OR_MEMDESC = Check(
    "a Triton type or memory descriptor",
    lambda a: isinstance(a, MemDescType) or like(is_scalar)(a),
)
PTR_TENSOR = Check("a tensor of pointers", tensor_of(is_ptr))
I1_TENSOR = Check("a tensor of i1", tensor_of(int_of(1)))
I8_TENSOR = Check("a tensor of i8", tensor_of(int_of(8)))
INDUCTION = Check("an integer or index", lambda a: isinstance(a, IndexType) or int_of(32, 64)(a))
I32_TYPED = IntegerAttr.constr(i32)
I32_ARRAY = DenseArrayBase.constr(i32)

_VIEW = "$src attr-dict `:` type($src) `->` type($result)"


@irdl_custom_directive
class Offsets(CustomDirective):
    """`custom<Offsets>($offsets)`: the numbers of an i32 array, bare."""

    offsets: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        values = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parser.parse_integer(allow_boolean=False)
        )
        self.offsets.set(state, DenseArrayBase.from_list(i32, values))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        values = self.offsets.get(op)
        assert isinstance(values, DenseArrayBase)
        state.print_whitespace(printer)
        printer.print_string(", ".join(map(str, values.get_values())))


@irdl_op_definition
class InlineAsmOp(IRDLOperation):
    """Inline assembly run once per thread, on all the registers of its operands."""

    name = "ttg.inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BOOL_ATTR)
    args = var_operand_def(TYPE_OR_MEMDESC)
    result = var_result_def(ANY_TYPE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$asm_string attr-dict ($args^)? `:` functional-type($args, $result)"


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """The same tensor in another layout."""

    name = "ttg.convert_layout"
    src = operand_def(TENSOR)
    force_warp_shuffle = opt_prop_def(UnitAttr)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(SameShape(), SameElementType(), Pure())


@irdl_op_definition
class AsyncWaitOp(IRDLOperation):
    """Wait until at most `num` groups of asynchronous copies are outstanding."""

    name = "ttg.async_wait"
    async_token = var_operand_def(AsyncTokenType())
    num = prop_def(I32_ATTR)
    ret_token = result_def(AsyncTokenType())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($async_token^)? attr-dict"


@irdl_op_definition
class AsyncCommitGroupOp(IRDLOperation):
    """Close the current group of asynchronous copies."""

    name = "ttg.async_commit_group"
    input_tokens = var_operand_def(AsyncTokenType())
    async_token = result_def(AsyncTokenType())
    assembly_format = "(`tokens` $input_tokens^)? attr-dict"


@irdl_op_definition
class AsyncCopyGlobalToLocalOp(IRDLOperation):
    """Copy global to shared memory asynchronously."""

    name = "ttg.async_copy_global_to_local"
    P: ClassVar = VarConstraint("P", PTR_TENSOR)
    src = operand_def(P)
    result = operand_def(MEMDESC)
    mask = opt_operand_def(Derived("P", same_shape_i1, "mask type does not match src"))
    other = opt_operand_def(Derived("P", pointee_type_of, "type of other does not match src"))
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="isVolatile")
    contiguity = prop_def(I32_ATTR, default_value=IntegerAttr(1, i32))
    token = result_def(AsyncTokenType())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$src `,` $result (`mask` $mask^)? (`other` $other^)? custom<CacheHints>() attr-dict"
        " `:` type($src) `->` custom<BareMemDescType>(type($result))"
    )
    custom_directives = (CacheHints, bare_type(MemDescType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class LocalAllocOp(IRDLOperation):
    """Allocate shared memory, holding `src` if it is given."""

    name = "ttg.local_alloc"
    src = opt_operand_def(TENSOR)
    alignment = opt_prop_def(I32_ATTR)
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($src^)? attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class LocalDeallocOp(IRDLOperation):
    """Free shared memory."""

    name = "ttg.local_dealloc"
    src = operand_def(MEMDESC)
    assembly_format = "$src attr-dict `:` type($src)"
    traits = traits_def(MemoryFreeEffect())


@irdl_op_definition
class MemDescIndexOp(IRDLOperation):
    """The view `src[index]`."""

    name = "ttg.memdesc_index"
    src = operand_def(MEMDESC)
    index = operand_def(i32)
    result = result_def(MEMDESC)
    assembly_format = "$src `[` $index `]` attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescSubsliceOp(IRDLOperation):
    """The view of the result's shape that begins at `offsets`."""

    name = "ttg.memdesc_subslice"
    src = operand_def(MEMDESC)
    offsets = prop_def(I32_ARRAY)
    result = result_def(MEMDESC)
    custom_directives = (Offsets,)
    assembly_format = (
        "$src `[` custom<Offsets>($offsets) `]` attr-dict `:` type($src) `->` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescTransOp(IRDLOperation):
    """The view with dimensions permuted."""

    name = "ttg.memdesc_trans"
    src = operand_def(MEMDESC)
    order = prop_def(I32_ARRAY)
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _VIEW
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescReshapeOp(IRDLOperation):
    """The view in another shape."""

    name = "ttg.memdesc_reshape"
    src = operand_def(MEMDESC)
    result = result_def(MEMDESC)
    assembly_format = _VIEW
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescReinterpretOp(IRDLOperation):
    """The same bytes as another type and shape."""

    name = "ttg.memdesc_reinterpret"
    src = operand_def(MEMDESC)
    result = result_def(MEMDESC)
    assembly_format = _VIEW
    traits = traits_def(Pure())


@irdl_op_definition
class LocalLoadOp(IRDLOperation):
    """Load from shared memory."""

    name = "ttg.local_load"
    src = operand_def(MEMDESC)
    token = opt_operand_def(AsyncTokenType())
    result = result_def(TENSOR)
    assembly_format = "$src (`token` $token^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class LocalStoreOp(IRDLOperation):
    """Store to shared memory."""

    name = "ttg.local_store"
    src = operand_def(TENSOR)
    dst = operand_def(MEMDESC)
    assembly_format = "$src `,` $dst attr-dict `:` type($src) `->` type($dst)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class LocalGatherOp(IRDLOperation):
    """Load from shared memory at `indices` along `axis`."""

    name = "ttg.local_gather"
    src = operand_def(MEMDESC)
    indices = operand_def(INT_TENSOR)
    axis = prop_def(I32_ATTR)
    token = opt_operand_def(AsyncTokenType())
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$src `[` $indices `]` (`token` $token^)? attr-dict"
        " `:` type($src) `,` type($indices) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class LocalScatterOp(IRDLOperation):
    """Store to shared memory at `indices` along `axis`."""

    name = "ttg.local_scatter"
    dst = operand_def(MEMDESC)
    values = operand_def(TENSOR)
    indices = operand_def(INT_TENSOR)
    axis = prop_def(I32_ATTR)
    token = opt_operand_def(AsyncTokenType())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$dst `[` $indices `]` `,` $values (`token` $token^)? attr-dict"
        " `:` type($dst) `,` type($indices) `,` type($values)"
    )
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class LocalAtomicScatterRMWOp(IRDLOperation):
    """Atomic read-modify-write in shared memory at `indices` along `axis`; gives the old values."""

    name = "ttg.local_atomic_scatter_rmw"
    atomic_rmw_op = prop_def(enum_attr(RMWOp))
    dst = operand_def(MEMDESC)
    values = operand_def(TENSOR)
    indices = operand_def(INT_TENSOR)
    mask = opt_operand_def(I1_TENSOR)
    axis = prop_def(I32_ATTR)
    result = result_def(TENSOR)
    custom_directives = (keyword_directive(RMWOp),)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "custom<RMWOp>($atomic_rmw_op) `,` $dst `[` $indices `]` `,` $values (`,` $mask^)?"
        " attr-dict `:` functional-type(operands, results)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class PredicateStageOp(IRDLOperation):
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
class MaskOp(IRDLOperation):
    """A region that runs where `pred` holds."""

    name = "ttg.mask"
    pred = operand_def(i1)
    result = var_result_def()
    region: Region = region_def("single_block")


@irdl_op_definition
class MaskReturnOp(IRDLOperation):
    """Terminator of `ttg.mask`."""

    name = "ttg.mask.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(MaskOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class Fp4ToFpOp(IRDLOperation):
    """fp4 (e2m1) packed in pairs along `axis`, low half first, as a wider float."""

    name = "ttg.fp4_to_fp"
    src = operand_def(I8_TENSOR)
    axis = prop_def(I32_ATTR)
    result = result_def(FLOAT_TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _VIEW
    traits = traits_def(Pure())


@irdl_op_definition
class GlobalScratchAllocOp(IRDLOperation):
    """Global memory private to the program."""

    name = "ttg.global_scratch_alloc"
    nbytes = prop_def(I32_ATTR)
    alignment = prop_def(I32_ATTR)
    third_party_allocation = opt_prop_def(UnitAttr)
    shared_cluster_state = opt_prop_def(UnitAttr)
    result = result_def(PTR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class WarpSpecializePartitionsOp(IRDLOperation):
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
class WarpSpecializeOp(IRDLOperation):
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
class WarpYieldOp(IRDLOperation):
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
class WarpReturnOp(IRDLOperation):
    """Terminator of a partition of `ttg.warp_specialize`."""

    name = "ttg.warp_return"
    assembly_format = "attr-dict"
    traits = traits_def(HasParent(WarpSpecializePartitionsOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the program meet; what they did to the memories `addr_space` is visible."""

    name = "ttg.barrier"
    addr_space = prop_def(I32_ATTR, prop_name="addrSpace")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def spaces(self) -> AddrSpace:
        return AddrSpace(self.addr_space.value.data)

    def verify_(self) -> None:
        check(0 <= self.addr_space.value.data <= AddrSpace.ALL, "unknown address space")

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        spaces = AddrSpace.NONE
        while True:
            start = parser.pos
            word = parser.parse_identifier()
            if word.upper() not in AddrSpace.__members__:
                parser.raise_error(f"unknown addrSpace '{word}'", start)
            spaces |= AddrSpace[word.upper()]
            if not parser.parse_optional_punctuation("|"):
                break
        attributes = parser.parse_optional_attr_dict()
        return cls.create(
            properties={"addrSpace": IntegerAttr(int(spaces), i32)}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        spaces = self.spaces
        if spaces in (AddrSpace.ALL, AddrSpace.NONE):
            words = spaces.name or ""
        else:
            words = "|".join(one.name or "" for one in spaces)
        printer.print_string(f" {words.lower()}")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class WarpIdOp(IRDLOperation):
    """The index of the warp in its program."""

    name = "ttg.warp_id"
    omit_uniform_hint = opt_prop_def(UnitAttr, prop_name="omitUniformHint")
    result = result_def(i32)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(Pure())


TTG = Dialect(
    "ttg",
    [
        InlineAsmOp,
        ConvertLayoutOp,
        AsyncWaitOp,
        AsyncCommitGroupOp,
        AsyncCopyGlobalToLocalOp,
        LocalAllocOp,
        LocalDeallocOp,
        MemDescIndexOp,
        MemDescSubsliceOp,
        MemDescTransOp,
        MemDescReshapeOp,
        MemDescReinterpretOp,
        LocalLoadOp,
        LocalStoreOp,
        LocalGatherOp,
        LocalScatterOp,
        LocalAtomicScatterRMWOp,
        PredicateStageOp,
        MaskOp,
        MaskReturnOp,
        Fp4ToFpOp,
        GlobalScratchAllocOp,
        WarpSpecializeOp,
        WarpSpecializePartitionsOp,
        WarpYieldOp,
        WarpReturnOp,
        BarrierOp,
        WarpIdOp,
    ],
    [AsyncTokenType, MemDescType, *TTG_ENCODINGS],
)
