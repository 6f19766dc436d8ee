"""Ops of `ttng` that copy through tensor descriptors."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr, i1, i16, i32, i64
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    enum_attr,
    keyword_directive,
    segment_sizes,
)
from xttir.dialects.tt.enums import DescriptorReduceKind
from xttir.dialects.tt.memory import check_cache_policy
from xttir.dialects.tt.traits import LayoutOp, check
from xttir.dialects.tt.types import PTR, TENSOR, TENSOR_DESC
from xttir.dialects.tt.versions import CacheHints
from xttir.dialects.ttg.types import I32_TENSOR, MEMDESC
from xttir.dialects.ttng.tma_checks import (
    check_async_store,
    check_coordinates,
    check_multicast,
    check_not_fp4_padded,
    check_reduce_kind,
    check_tma_block,
    check_tma_load,
    check_tma_rows,
    check_tma_store,
    description,
)
from xttir.dialects.ttng.types import ANY_TENSOR_DESC


@irdl_op_definition
class AsyncSharedStoreOp(LayoutOp):
    """Store to shared memory of the cluster; completes on an mbarrier."""

    name = "ttng.async_shared_store"
    src = operand_def(TENSOR)
    dst = operand_def(MEMDESC)
    mbarrier = operand_def(MEMDESC)
    assembly_format = (
        "$src `,` $dst `,` $mbarrier attr-dict `:` type($src) `->` type($dst) `,` type($mbarrier)"
    )
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_async_store(self, self.src.type, self.dst.type, self.mbarrier.type)


@irdl_op_definition
class AsyncTMACopyGlobalToLocalOp(LayoutOp):
    """TMA load of a block; completes on `barrier`."""

    name = "ttng.async_tma_copy_global_to_local"
    desc = operand_def(ANY_TENSOR_DESC)
    coord = var_operand_def(i32)
    offsets = var_operand_def(i16)
    barrier = operand_def(MEMDESC)
    result = operand_def(MEMDESC)
    pred = operand_def(i1)
    multicast = opt_prop_def(UnitAttr)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="isVolatile")
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$desc `[` $coord `]` (`offsets` `=` `[` $offsets^ `]`)? $result `,` $barrier `,` $pred"
        " custom<CacheHints>() attr-dict `:` type($desc) `,` type($barrier) `->` type($result)"
    )
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_coordinates(self.desc.type, len(self.coord), len(self.offsets))
        check_tma_block(self.desc.type, self.result.type)
        check_tma_load(self, self.desc.type, self.barrier.type, self.result.type)
        check_cache_policy(self.cache_policy)
        if self.multicast is not None:
            check_multicast(self.result.type)


@irdl_op_definition
class AsyncTMACopyLocalToGlobalOp(LayoutOp):
    """TMA store of a block."""

    name = "ttng.async_tma_copy_local_to_global"
    desc = operand_def(TENSOR_DESC)
    coord = var_operand_def(i32)
    src = operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `[` $coord `]` $src attr-dict `:` type($desc) `,` type($src)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_coordinates(self.desc.type, len(self.coord))
        check_tma_block(self.desc.type, self.src.type)
        check_tma_store(self.desc.type, self.src.type)


@irdl_op_definition
class AsyncTMAReduceOp(LayoutOp):
    """TMA reduction of a block into global memory."""

    name = "ttng.async_tma_reduce"
    kind = prop_def(enum_attr(DescriptorReduceKind))
    desc = operand_def(TENSOR_DESC)
    coord = var_operand_def(i32)
    src = operand_def(MEMDESC)
    custom_directives = (keyword_directive(DescriptorReduceKind),)
    assembly_format = (
        "custom<DescriptorReduceKind>($kind) `,` $desc `[` $coord `]` $src"
        " attr-dict `:` type($desc) `,` type($src)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_coordinates(self.desc.type, len(self.coord))
        check_tma_block(self.desc.type, self.src.type)
        check_tma_store(self.desc.type, self.src.type)
        check_reduce_kind(
            DescriptorReduceKind.of(self.kind), description(self.desc.type).element_type
        )


@irdl_op_definition
class AsyncTMAGatherOp(LayoutOp):
    """TMA load of rows."""

    name = "ttng.async_tma_gather"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I32_TENSOR)
    y_offset = operand_def(i32)
    barrier = operand_def(MEMDESC)
    result = operand_def(MEMDESC)
    pred = operand_def(i1)
    multicast = opt_prop_def(UnitAttr)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` $result `,` $barrier `,` $pred"
        " attr-dict `:` type(operands)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tma_load(self, self.desc.type, self.barrier.type, self.result.type)
        check_not_fp4_padded(self.result.type)
        if self.multicast is not None:
            check_multicast(self.result.type)
        check_tma_rows(self.desc.type, self.result.type, self.x_offsets.type)


@irdl_op_definition
class AsyncTMAScatterOp(LayoutOp):
    """TMA store of rows."""

    name = "ttng.async_tma_scatter"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I32_TENSOR)
    y_offset = operand_def(i32)
    src = operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` $src attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tma_store(self.desc.type, self.src.type)
        check_tma_rows(self.desc.type, self.src.type, self.x_offsets.type)


@irdl_op_definition
class TMAStoreWaitOp(LayoutOp):
    """Wait until at most `pendings` TMA stores are outstanding."""

    name = "ttng.async_tma_store_wait"
    pendings = prop_def(I32_ATTR)
    read_only = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ReinterpretTensorDescOp(LayoutOp):
    """A pointer to a tensor map as a descriptor."""

    name = "ttng.reinterpret_tensor_descriptor"
    raw_desc = operand_def(PTR)
    result = result_def(TENSOR_DESC)
    assembly_format = "$raw_desc attr-dict `:` type($raw_desc) `to` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class TensormapCreateOp(LayoutOp):
    """Write a tensor map into memory."""

    name = "ttng.tensormap_create"
    desc_ptr = operand_def(PTR)
    global_address = operand_def(PTR)
    box_dim = var_operand_def(i32)
    global_dim = var_operand_def(i32)
    global_stride = var_operand_def(i64)
    element_stride = var_operand_def(i32)
    elem_type = prop_def(I32_ATTR)
    interleave_layout = prop_def(I32_ATTR)
    swizzle_mode = prop_def(I32_ATTR)
    fill_mode = prop_def(I32_ATTR)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> TensormapCreateOp:
        # Several variadic groups share one functional type, which IRDL's formats cannot say.
        start = parser.pos
        groups: list[list[UnresolvedOperand]] = [[parser.parse_unresolved_operand()]]
        parser.parse_punctuation(",")
        groups.append([parser.parse_unresolved_operand()])
        for _ in range(4):
            parser.parse_punctuation(",")
            groups.append(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_unresolved_operand
                )
            )
        given = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        names = [name for group in groups for name in group]
        known = cls.get_irdl_definition().properties
        op = cls.create(
            operands=parser.resolve_operands(names, signature.inputs.data, start),
            properties={name: attr for name, attr in given.items() if name in known},
            attributes={name: attr for name, attr in given.items() if name not in known},
        )
        op.properties["operandSegmentSizes"] = segment_sizes(groups)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.desc_ptr, self.global_address), printer.print_ssa_value)
        for group in (self.box_dim, self.global_dim, self.global_stride, self.element_stride):
            printer.print_string(", ")
            with printer.in_square_brackets():
                printer.print_list(group, printer.print_ssa_value)
        shown = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        printer.print_op_attributes(shown | self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    def verify_(self) -> None:
        rank = len(self.box_dim)
        check(len(self.global_dim) == rank, f"rank mismatch for global dim; expected {rank}")
        check(
            len(self.global_stride) + 1 == rank,
            f"rank mismatch for global stride; expected {rank - 1}",
        )
        check(
            len(self.element_stride) == rank, f"rank mismatch for element stride; expected {rank}"
        )
        for name, attr, most in (
            ("elem_type", self.elem_type, 15),
            ("interleave_layout", self.interleave_layout, 2),
            ("swizzle_mode", self.swizzle_mode, 3),
            ("fill_mode", self.fill_mode, 1),
        ):
            check(0 <= attr.value.data <= most, f"{name} must be between 0 and {most}")


@irdl_op_definition
class TensormapFenceproxyAcquireOp(LayoutOp):
    """Make a tensor map written by this program usable."""

    name = "ttng.tensormap_fenceproxy_acquire"
    desc_ptr = operand_def(PTR)
    assembly_format = "$desc_ptr attr-dict `:` type($desc_ptr)"
    traits = traits_def(MemoryWriteEffect())
