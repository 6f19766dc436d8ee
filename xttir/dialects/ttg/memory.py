"""Ops of `ttg` on shared memory: allocations, views, loads, stores, copies, barriers."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryFreeEffect, MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.layouts.encodings import SharedMemorySpaceAttr
from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    Derived,
    bare_type,
    element_type_of,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.enums import RMWOp
from xttir.dialects.tt.memory import check_cache_policy
from xttir.dialects.tt.traits import LayoutOp, check
from xttir.dialects.tt.types import INT_TENSOR, PTR, TENSOR, is_ptr, pointee_type_of
from xttir.dialects.tt.versions import CacheHints
from xttir.dialects.ttg.memory_checks import (
    check_alloc,
    check_extent,
    check_index,
    check_indexed,
    check_mutable,
    check_rank,
    check_reinterpret,
    check_reshape,
    check_subslice,
    check_trans,
)
from xttir.dialects.ttg.types import (
    I32_ARRAY,
    MEMDESC,
    PTR_TENSOR,
    VIEW,
    AddrSpace,
    AsyncTokenType,
    MemDescType,
)


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
class AsyncWaitOp(LayoutOp):
    """Wait until at most `num` groups of asynchronous copies are outstanding."""

    name = "ttg.async_wait"
    async_token = var_operand_def(AsyncTokenType())
    num = prop_def(I32_ATTR)
    ret_token = result_def(AsyncTokenType())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($async_token^)? attr-dict"


@irdl_op_definition
class AsyncCommitGroupOp(LayoutOp):
    """Close the current group of asynchronous copies."""

    name = "ttg.async_commit_group"
    input_tokens = var_operand_def(AsyncTokenType())
    async_token = result_def(AsyncTokenType())
    assembly_format = "(`tokens` $input_tokens^)? attr-dict"


@irdl_op_definition
class AsyncCopyGlobalToLocalOp(LayoutOp):
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

    def verify_(self) -> None:
        check_cache_policy(self.cache_policy)
        check_mutable(self.result.type)


@irdl_op_definition
class LocalAllocOp(LayoutOp):
    """Allocate shared memory, holding `src` if it is given."""

    name = "ttg.local_alloc"
    src = opt_operand_def(TENSOR)
    alignment = opt_prop_def(I32_ATTR)
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($src^)? attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, MemDescType)
        check(
            isinstance(type_.memory_space, SharedMemorySpaceAttr),
            "should create a buffer of shared memory",
        )
        if self.src is not None:
            check_rank(self.src.type, type_)
        check_alloc(None if self.src is None else self.src.type, type_)


@irdl_op_definition
class LocalDeallocOp(LayoutOp):
    """Free shared memory."""

    name = "ttg.local_dealloc"
    src = operand_def(MEMDESC)
    assembly_format = "$src attr-dict `:` type($src)"
    traits = traits_def(MemoryFreeEffect())


@irdl_op_definition
class MemDescIndexOp(LayoutOp):
    """The view `src[index]`."""

    name = "ttg.memdesc_index"
    src = operand_def(MEMDESC)
    index = operand_def(i32)
    result = result_def(MEMDESC)
    assembly_format = "$src `[` $index `]` attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        check_index(source, result)


@irdl_op_definition
class MemDescSubsliceOp(LayoutOp):
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

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        check_subslice(source, result, [int(i) for i in self.offsets.get_values()])


@irdl_op_definition
class MemDescTransOp(LayoutOp):
    """The view with dimensions permuted."""

    name = "ttg.memdesc_trans"
    src = operand_def(MEMDESC)
    order = prop_def(I32_ARRAY)
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = VIEW
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        check_trans(source, result, [int(i) for i in self.order.get_values()])


@irdl_op_definition
class MemDescReshapeOp(LayoutOp):
    """The view in another shape."""

    name = "ttg.memdesc_reshape"
    src = operand_def(MEMDESC)
    result = result_def(MEMDESC)
    assembly_format = VIEW
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        check_reshape(source, result)


@irdl_op_definition
class MemDescReinterpretOp(LayoutOp):
    """The same bytes as another type and shape."""

    name = "ttg.memdesc_reinterpret"
    src = operand_def(MEMDESC)
    result = result_def(MEMDESC)
    assembly_format = VIEW
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        check_reinterpret(source, result)


@irdl_op_definition
class LocalLoadOp(LayoutOp):
    """Load from shared memory."""

    name = "ttg.local_load"
    src = operand_def(MEMDESC)
    token = opt_operand_def(AsyncTokenType())
    result = result_def(TENSOR)
    assembly_format = "$src (`token` $token^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        check_rank(self.result.type, self.src.type)
        check_extent(self.src.type, self.result.type)


@irdl_op_definition
class LocalStoreOp(LayoutOp):
    """Store to shared memory."""

    name = "ttg.local_store"
    src = operand_def(TENSOR)
    dst = operand_def(MEMDESC)
    assembly_format = "$src `,` $dst attr-dict `:` type($src) `->` type($dst)"
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_mutable(self.dst.type)
        check_rank(self.src.type, self.dst.type)
        check_extent(self.src.type, self.dst.type)


@irdl_op_definition
class LocalGatherOp(LayoutOp):
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

    def verify_(self) -> None:
        check_indexed(
            self.src.type, self.indices.type, self.result.type, self.axis.value.data, "result"
        )


@irdl_op_definition
class LocalScatterOp(LayoutOp):
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

    def verify_(self) -> None:
        check_indexed(
            self.dst.type, self.indices.type, self.values.type, self.axis.value.data, "values"
        )


@irdl_op_definition
class LocalAtomicScatterRMWOp(LayoutOp):
    """Atomic read-modify-write in shared memory at `indices` along `axis`; gives the old values."""

    name = "ttg.local_atomic_scatter_rmw"
    atomic_rmw_op = prop_def(enum_attr(RMWOp))
    dst = operand_def(MEMDESC)
    T: ClassVar = VarConstraint("T", TENSOR)
    values = operand_def(T)
    indices = operand_def(INT_TENSOR)
    mask = opt_operand_def(Derived("T", same_shape_i1, "mask type does not match values"))
    axis = prop_def(I32_ATTR)
    result = result_def(T)
    custom_directives = (keyword_directive(RMWOp),)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "custom<RMWOp>($atomic_rmw_op) `,` $dst `[` $indices `]` `,` $values (`,` $mask^)?"
        " attr-dict `:` functional-type(operands, results)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_mutable(self.dst.type)
        check(
            not is_ptr(element_type_of(self.values.type)),
            "values must have integer or floating element type",
        )
        check_rank(self.values.type, self.dst.type)
        check_indexed(
            self.dst.type, self.indices.type, self.values.type, self.axis.value.data, "values"
        )


@irdl_op_definition
class GlobalScratchAllocOp(LayoutOp):
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
class BarrierOp(LayoutOp):
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
