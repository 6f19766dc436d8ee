"""What Triton's op traits require of the types of an op (Traits.h, Traits.cpp, MLIR's OpTrait).

Layouts are compared for equality only; whether one layout may follow from another is the business
of the `ttg` dialect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts.placement import ValidLayouts
from xttir.dialects.layouts.rules import check as check
from xttir.dialects.ods import element_type_of

MAX_ELEMENTS = 1 << 20
"""`maxTensorNumElements` of Triton."""


def types_of(op: Operation) -> Iterator[Attribute]:
    """Types of operands, then of results."""
    for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
        yield operand.type
    for result in op.results:
        yield result.type


def shape_of(type_: Attribute) -> tuple[int, ...] | None:
    """The shape of a tensor; None for a scalar."""
    return type_.get_shape() if isinstance(type_, TensorType) else None


def shape_text(shape: tuple[int, ...] | None) -> str:
    return "a scalar" if shape is None else "x".join(map(str, shape)) or "rank 0"


@dataclass(frozen=True)
class TensorSize(OpTrait):
    """`TensorSizeTrait`: tensors have a power of two of elements, and no more than 2^20."""

    def verify(self, op: Operation) -> None:
        for type_ in types_of(op):
            if isinstance(type_, TensorType):
                count = math.prod(type_.get_shape())
                if count > MAX_ELEMENTS:
                    raise VerifyException(f"{type_} has more than {MAX_ELEMENTS} elements")
                if count & (count - 1) or count < 0:
                    raise VerifyException(
                        f"number of elements must be a power of two, but {type_} has {count}"
                    )


@dataclass(frozen=True)
class SameShape(OpTrait):
    """`SameOperandsAndResultShape`: all tensors of one shape, or all scalars."""

    def verify(self, op: Operation) -> None:
        shapes = [shape_of(type_) for type_ in types_of(op)]
        for shape in shapes[1:]:
            if shape != shapes[0]:
                raise VerifyException(
                    "requires the same shape for all operands and results, but has "
                    f"{shape_text(shapes[0])} and {shape_text(shape)}"
                )


@dataclass(frozen=True)
class SameOperandsShape(OpTrait):
    """`SameOperandsShape`."""

    def verify(self, op: Operation) -> None:
        shapes = [shape_of(operand.type) for operand in op.operands]
        for shape in shapes[1:]:
            if shape != shapes[0]:
                raise VerifyException(
                    "requires the same shape for all operands, but has "
                    f"{shape_text(shapes[0])} and {shape_text(shape)}"
                )


def _encoding(type_: Attribute) -> Attribute | None:
    if isinstance(type_, TensorType) and not isinstance(type_.encoding, NoneAttr):
        return type_.encoding
    return None


def has_encoding(type_: Attribute) -> bool:
    """Whether a type is a tensor with a layout."""
    return _encoding(type_) is not None


@dataclass(frozen=True)
class SameEncoding(OpTrait):
    """`SameOperandsAndResultEncoding`: tensors that have a layout have the same one."""

    def verify(self, op: Operation) -> None:
        first: Attribute | None = None
        for type_ in types_of(op):
            encoding = _encoding(type_)
            if encoding is None:
                continue
            if first is None:
                first = encoding
            elif encoding != first:
                raise VerifyException("requires the same encoding for all operands and results")


@dataclass(frozen=True)
class SameElementType(OpTrait):
    """`SameOperandsAndResultElementType`."""

    def verify(self, op: Operation) -> None:
        elements = [element_type_of(type_) for type_ in types_of(op)]
        for element in elements[1:]:
            if element != elements[0]:
                raise VerifyException(
                    "requires the same element type for all operands and results, but has "
                    f"{elements[0]} and {element}"
                )


@dataclass(frozen=True)
class Elementwise(OpTrait):
    """MLIR's `Elementwise`: tensors of one shape; tensor results exactly where tensors come in."""

    def verify(self, op: Operation) -> None:
        operands = {s for v in op.operands if (s := shape_of(v.type)) is not None}
        results = {shape_of(r.type) for r in op.results}
        if not operands:
            if results - {None}:
                raise VerifyException("a tensor result needs a tensor operand")
            return
        if None in results:
            raise VerifyException("a tensor operand needs tensor results")
        if len(operands | results) > 1:
            shapes = ", ".join(sorted(map(shape_text, operands | results)))
            raise VerifyException(f"tensors of an elementwise op differ in shape: {shapes}")


class TTOp(IRDLOperation):
    """Base of the ops of `tt` (`TT_Op`)."""

    traits = traits_def(TensorSize(), ValidLayouts())


class LayoutOp(IRDLOperation):
    """Base of the ops of `ttg` and `ttng` (`TTG_Op`, `TTNG_Op`)."""

    traits = traits_def(ValidLayouts())
