"""Ops of `nvws` on asynchronous references: buffers that partitions put to and get from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, TensorType, i32
from xdsl.dialects.scf import ForOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xttir.dialects.layouts.encodings import TensorMemoryScalesEncodingAttr
from xttir.dialects.nvws.types import AREF, ASYNC_OPS, ArefType
from xttir.dialects.ods import bare_type
from xttir.dialects.tt.traits import check
from xttir.dialects.ttg.memory import LocalDeallocOp
from xttir.dialects.ttg.types import MEMDESC, AsyncTokenType, MemDescType

_BARE = (bare_type(ArefType),)
_AREF = "custom<BareArefType>(type($aref))"


@irdl_op_definition
class ArefCreateOp(IRDLOperation):
    """An aref over `buffers`, whose leading dimension is the stage."""

    name = "nvws.aref.create"
    buffers = var_operand_def(MEMDESC)
    result = result_def(AREF)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ArefCreateOp:
        # The types of the operands come from that of the result.
        start = parser.pos
        names = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_optional_type() or ArefType.new(ArefType.parse_parameters(parser))
        if not isinstance(type_, ArefType):
            parser.raise_error("expected an aref type", start)
        return cls.create(
            operands=parser.resolve_operands(names, type_.base_type.data, start),
            result_types=[type_],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.buffers, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        assert isinstance(self.result.type, ArefType)
        self.result.type.print_parameters(printer)

    def verify_(self) -> None:
        assert isinstance(self.result.type, ArefType)
        types = [buffer.type for buffer in self.buffers]
        check(
            types == list(self.result.type.base_type),
            "input types do not match the output type",
        )
        for buffer in self.buffers:
            for use in buffer.uses:
                check(
                    isinstance(use.operation, ArefCreateOp | LocalDeallocOp),
                    "a buffer of the aref is used elsewhere, so async safety is not guaranteed",
                )
        stages = {type_.get_shape()[0] for type_ in types if isinstance(type_, MemDescType)}
        check(len(stages) <= 1, "leading dimensions of the buffers do not match")


@irdl_op_definition
class ArefPhiOp(IRDLOperation):
    """The operand of the partition that runs the op."""

    name = "nvws.aref.phi"
    T: ClassVar = VarConstraint("T", AnyAttr())
    local = operand_def(T)
    remote = operand_def(T)
    result = result_def(T)
    assembly_format = "$local `,` $remote attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        own = _partitions_of(self)
        check(bool(own), "requires a non-empty ttg.partition annotation")
        local, remote = _owners(self.local), _owners(self.remote)
        check(bool(local), "local operand must have partition ownership")
        check(bool(remote), "remote operand must have partition ownership")
        both = sorted(local & remote)
        check(not both, f"partition {both[:1]} is owned by both phi operands")
        check(
            local | remote == own,
            f"partitions of the operands, {sorted(local | remote)}, must be those of the phi, "
            f"{sorted(own)}",
        )


def _numbers(attr: Attribute | None) -> frozenset[int]:
    return (
        frozenset(map(int, attr.get_values())) if isinstance(attr, DenseArrayBase) else frozenset()
    )


def _partitions_of(op: Operation) -> frozenset[int]:
    return _numbers(op.attributes.get("ttg.partition"))


def _owners(value: SSAValue) -> frozenset[int]:
    """The partitions that own `value`; none where that is not said."""
    index = value.index if isinstance(value, OpResult | BlockArgument) else 0
    if isinstance(value, OpResult):
        op = value.op
        if "ttg.partition.outputs" not in op.attributes:
            return _partitions_of(op)
    else:
        owner = value.owner
        parent = owner if isinstance(owner, Operation) else owner.parent_op()
        if not isinstance(parent, ForOp) or index == 0:
            return frozenset()
        op, index = parent, index - 1
    outputs = op.attributes.get("ttg.partition.outputs")
    if not _partitions_of(op) or not isinstance(outputs, ArrayAttr) or index >= len(outputs):
        return frozenset()
    return _numbers(outputs.data[index])


@irdl_op_definition
class ArefBufferOp(IRDLOperation):
    """The buffers of the stage that was entered."""

    name = "nvws.aref.buffer"
    aref = operand_def(AREF)
    token = operand_def(AsyncTokenType())
    stage = opt_operand_def(i32)
    buffers = var_result_def(MEMDESC)
    assembly_format = (
        f"$aref (`[` $stage^ `]`)? `,` $token attr-dict `:` {_AREF} `,` type($token)"
        " `->` type(results)"
    )
    custom_directives = _BARE


def _check_enter(aref: Attribute, buffers: Sequence[SSAValue]) -> None:
    """Buffers that come out of an aref are one stage of those that it holds."""
    assert isinstance(aref, ArefType)
    check(
        len(aref.base_type) == len(buffers),
        f"aref holds {len(aref.base_type)} buffers, but {len(buffers)} are entered",
    )
    for whole, value in zip(aref.base_type, buffers, strict=True):
        part = value.type
        if not isinstance(whole, TensorType | MemDescType):
            check(False, f"{whole} cannot be sliced")
            continue
        check(type(whole) is type(part), f"{part} is not a slice of {whole}")
        assert isinstance(part, TensorType | MemDescType)
        scales = isinstance(whole.encoding, TensorMemoryScalesEncodingAttr)
        want = tuple(whole.get_shape()) if scales else tuple(whole.get_shape()[1:])
        got = tuple(part.get_shape())
        check(
            whole.element_type == part.element_type and len(want) == len(got),
            f"ranks don't match: {part} is not a slice of {whole}",
        )
        check(want == got, f"dimensions don't match: {part} is not a slice of {whole}")


class _ArefEnterOp(IRDLOperation):
    aref = operand_def(AREF)
    stage = opt_operand_def(i32)
    phase = opt_operand_def(i32)
    buffers = var_result_def(MEMDESC)
    token = result_def(AsyncTokenType())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        f"$aref (`[` $stage^ `,` $phase `]`)? attr-dict `:` {_AREF} `->` type(results)"
    )
    custom_directives = _BARE

    def verify_(self) -> None:
        _check_enter(self.aref.type, self.buffers)


class _ArefExitOp(IRDLOperation):
    aref = operand_def(AREF)
    token = operand_def(AsyncTokenType())
    stage = opt_operand_def(i32)
    async_ops = prop_def(ASYNC_OPS)
    assembly_format = (
        f"$aref (`[` $stage^ `]`)? `,` $token $async_ops attr-dict `:` {_AREF} `,` type($token)"
    )
    custom_directives = _BARE


@irdl_op_definition
class ArefGetEnterOp(_ArefEnterOp):
    """Wait for the buffers to be filled; they may be read from here on."""

    name = "nvws.aref.get.enter"


@irdl_op_definition
class ArefGetExitOp(_ArefExitOp):
    """Give the buffers back once `async_ops` have read them."""

    name = "nvws.aref.get.exit"


@irdl_op_definition
class ArefPutEnterOp(_ArefEnterOp):
    """Wait for the buffers to be free; they may be written from here on."""

    name = "nvws.aref.put.enter"


@irdl_op_definition
class ArefPutExitOp(_ArefExitOp):
    """Hand the buffers on once `async_ops` have filled them."""

    name = "nvws.aref.put.exit"
