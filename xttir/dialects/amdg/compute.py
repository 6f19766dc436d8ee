"""Ops of `amdg` on values in registers: slices, scaled casts, transposes within a thread."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntegerType,
    TensorType,
    i1,
    i64,
)
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
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
from xdsl.traits import MemoryReadEffect, Pure

from xttir.dialects.amdg.layout_checks import (
    check_concat,
    check_extract,
    check_in_thread_transpose,
)
from xttir.dialects.ods import I32_ATTR, Check
from xttir.dialects.tt.traits import (
    Elementwise,
    SameEncoding,
    SameShape,
    check,
)
from xttir.dialects.tt.types import TENSOR, tensor_of
from xttir.dialects.ttg.types import MEMDESC, AsyncTokenType

ANY_TENSOR = Check("a ranked tensor", lambda a: isinstance(a, TensorType))


def _of(*types: type) -> Check[TensorType]:
    names = ", ".join(t.name for t in types)
    return Check(f"a tensor of {names}", tensor_of(lambda a: isinstance(a, types)))


def _i8(attr: object) -> bool:
    return isinstance(attr, IntegerType) and attr.width.data == 8


_HALF = _of(BFloat16Type, Float16Type)
_FP8 = _of(Float8E4M3FNType, Float8E5M2Type)
_FLOAT = _of(BFloat16Type, Float16Type, Float32Type)
_I8 = Check("a tensor of i8", tensor_of(_i8))
_SCALE = Check("a tensor of bf16 or i8", tensor_of(lambda a: isinstance(a, BFloat16Type) or _i8(a)))
_SCALED = "$input `scale` $scale attr-dict `:` type($input) `,` type($scale) `->` type($output)"


@irdl_custom_directive
class StaticOffsets(CustomDirective):
    """`custom<StaticOffsets>($offsets)`: the numbers of an i64 array in brackets."""

    offsets: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        values = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        self.offsets.set(state, DenseArrayBase.from_list(i64, values))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        values = self.offsets.get(op)
        assert isinstance(values, DenseArrayBase)
        state.print_whitespace(printer)
        printer.print_string(f"[{', '.join(map(str, values.get_values()))}]")


@irdl_op_definition
class ExtractSliceOp(IRDLOperation):
    """The part of `source` of the result's shape that begins at `static_offsets`."""

    name = "amdg.extract_slice"
    source = operand_def(ANY_TENSOR)
    static_offsets = prop_def(DenseArrayBase.constr(i64))
    result = result_def(ANY_TENSOR)
    custom_directives = (StaticOffsets,)
    assembly_format = (
        "$source custom<StaticOffsets>($static_offsets) attr-dict"
        " `:` type($source) `to` type($result)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, TensorType)
        assert isinstance(result, TensorType)
        offsets = self.static_offsets.get_values()
        check(source.element_type == result.element_type, "result element type must match source")
        ranks = len(source.get_shape()), len(result.get_shape()), len(offsets)
        check(len(set(ranks)) == 1, "result and offsets must have the rank of the source")
        for size, part, offset in zip(source.get_shape(), result.get_shape(), offsets, strict=True):
            check(part <= size, "result shape cannot exceed source shape")
            check(offset >= 0 and offset + part <= size, "offsets must lie inside the source")
        check_extract(source, [int(offset) for offset in offsets], result)


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Tensors of one type, put together in row-major order to a larger one."""

    name = "amdg.concat"
    sources = var_operand_def(TENSOR)
    result = result_def(ANY_TENSOR)
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        check(bool(self.sources), "needs a source")
        first, result = self.sources[0].type, self.result.type
        assert isinstance(first, TensorType)
        assert isinstance(result, TensorType)
        check(all(s.type == first for s in self.sources), "all sources must have the same type")
        check(first.element_type == result.element_type, "element types must match")
        check(
            len(first.get_shape()) == len(result.get_shape()), "sources and result differ in rank"
        )
        for part, size in zip(first.get_shape(), result.get_shape(), strict=True):
            check(size % part == 0, "result shape must be a multiple of the sources' shape")
        check(
            len(self.sources) * math.prod(first.get_shape()) == math.prod(result.get_shape()),
            "sources must hold as many elements as the result",
        )
        check_concat(first, result)


@irdl_op_definition
class CondBarrierOp(IRDLOperation):
    """A barrier for the threads whose `pred` is true."""

    name = "amdg.cond_barrier"
    pred = operand_def(i1)
    assembly_format = "$pred attr-dict"


@irdl_op_definition
class ScaledUpcastFp4Op(IRDLOperation):
    """Two fp4 values out of each i8 along `axis`, times a scale."""

    name = "amdg.scaled_upcast_fp4"
    input = operand_def(_I8)
    scale = operand_def(_SCALE)
    axis = prop_def(I32_ATTR)
    output = result_def(_HALF)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _SCALED
    traits = traits_def(Pure())


@irdl_op_definition
class ScaledUpcastFp8Op(IRDLOperation):
    """fp8 values times a scale."""

    name = "amdg.scaled_upcast_fp8"
    input = operand_def(_FP8)
    scale = operand_def(_SCALE)
    output = result_def(_HALF)
    assembly_format = _SCALED
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())


@irdl_op_definition
class ScaledDowncastFp4Op(IRDLOperation):
    """Values divided by a scale and rounded to fp4, two in each i8 along `axis`."""

    name = "amdg.scaled_downcast_fp4"
    input = operand_def(_FLOAT)
    scale = operand_def(_I8)
    axis = prop_def(I32_ATTR)
    output = result_def(_I8)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _SCALED
    traits = traits_def(Pure())


@irdl_op_definition
class ScaledDowncastFp8Op(IRDLOperation):
    """Values divided by a scale and rounded to fp8."""

    name = "amdg.scaled_downcast_fp8"
    input = operand_def(_FLOAT)
    scale = operand_def(_I8)
    axis = prop_def(I32_ATTR)
    output = result_def(_FP8)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _SCALED
    traits = traits_def(Pure())


@irdl_op_definition
class InThreadTransposeOp(IRDLOperation):
    """The same tensor in a layout that differs in the order of each thread's registers."""

    name = "amdg.in_thread_transpose"
    src = operand_def(TENSOR)
    result = result_def(TENSOR)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, TensorType)
        assert isinstance(result, TensorType)
        check_in_thread_transpose(source, result)


@irdl_op_definition
class LocalLoadPackedTransposedOp(IRDLOperation):
    """Load from shared memory what is packed along M or N as packed along K."""

    name = "amdg.local_load_packed_transposed"
    src = operand_def(MEMDESC)
    token = opt_operand_def(AsyncTokenType())
    result = result_def(TENSOR)
    assembly_format = "$src (`token` $token^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(MemoryReadEffect())
