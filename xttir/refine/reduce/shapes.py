"""Smaller shapes: a dimension is changed in every type of the module at once, or tensors become
scalars where the program is elementwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute
from xdsl.rewriter import Rewriter

from xttir.dialects import arith, constants, tt
from xttir.refine.reduce.build import before, constant, erase
from xttir.refine.reduce.drop import Edit

Change = Callable[[Attribute], Attribute]

_MOVES = (
    "tt.splat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.trans",
    "tt.unsplat",
    "ttg.convert_layout",
)
"""Ops that give back what they get, once tensors are scalars."""


def smaller_dimensions(module: ModuleOp) -> Iterator[Edit]:
    """Every extent of a tensor, the largest first: made 1, then halved, everywhere."""
    extents = {
        n
        for op in module.walk()
        for ty in (
            *op.result_types,
            *(a.type for r in op.regions for b in r.blocks for a in b.args),
        )
        for n in _extents(ty)
        if n > 1
    }
    for extent in sorted(extents, reverse=True):
        for smaller in dict.fromkeys((1, 2, 4, 16, extent // 2)):
            if smaller < extent:
                yield _resized(extent, smaller)


def _blocks(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        yield from region.blocks


def _extents(ty: Attribute) -> tuple[int, ...]:
    if isinstance(ty, TensorType):
        return tuple(ty.get_shape())
    shape = getattr(ty, "get_shape", None)
    return tuple(shape()) if shape is not None and isinstance(ty, ParametrizedAttribute) else ()


def _resized(extent: int, smaller: int) -> Edit:
    def shape(ty: Attribute) -> Attribute:
        if isinstance(ty, TensorType) and extent in ty.get_shape():
            extents = [smaller if n == extent else n for n in ty.get_shape()]
            return TensorType(ty.element_type, extents, ty.encoding)
        if isinstance(ty, tt.TensorDescType) and extent in ty.get_shape():
            extents = [smaller if n == extent else n for n in ty.get_shape()]
            return tt.TensorDescType(extents, ty.element_type, ty.shared_layout)
        return _resized_memory(ty, extent, smaller)

    def edit(module: ModuleOp) -> bool:
        for op in list(module.walk()):
            _constants_cut(op, shape)
            _retyped(op, shape)
            if isinstance(op, tt.MakeRangeOp):
                count = op.result.type.get_shape()[0]  # type: ignore[union-attr]
                start = op.start.value.data
                op.properties["end"] = IntegerAttr(start + count, op.end.type)  # type: ignore[arg-type]
        return True

    return edit


def _resized_memory(ty: Attribute, extent: int, smaller: int) -> Attribute:
    """The same for memory descriptors, whose parameters are theirs."""
    if not isinstance(ty, ParametrizedAttribute) or extent not in _extents(ty):
        return ty
    parameters: list[Any] = []
    for parameter in ty.parameters:
        if isinstance(parameter, ArrayAttr):
            parameter = ArrayAttr(
                [
                    type(e)(smaller) if getattr(e, "data", None) == extent else e
                    for e in parameter.data
                ]
            )
        parameters.append(parameter)
    return type(ty).new(parameters)


def _constants_cut(op: Operation, change: Change) -> None:
    """Dense constants of a new shape keep their first elements."""
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, DenseIntOrFPElementsAttr):
        return
    old = op.value
    ty = change(old.type)
    if ty == old.type:
        return
    assert isinstance(ty, TensorType)
    if constants.is_splat(old):
        size = old.type.element_type.compile_time_size  # type: ignore[attr-defined]
        op.properties["value"] = constants.splat(ty, old.data.data[:size])
        return
    array = constants.constant_value(old)
    cut = array[tuple(slice(0, n) for n in ty.get_shape())]
    values = [v.item() for v in cut.reshape(-1)]
    op.properties["value"] = DenseIntOrFPElementsAttr.from_list(ty, values)  # type: ignore[arg-type]


def _retyped(op: Operation, change: Change) -> None:
    """Types of results, block arguments and attributes of `op` as `change` has them."""
    for result in list(op.results):
        ty = change(result.type)
        if ty != result.type:
            Rewriter.replace_value_with_new_type(result, ty)
    for region in op.regions:
        for block in region.blocks:
            for argument in list(block.args):
                ty = change(argument.type)
                if ty != argument.type:
                    Rewriter.replace_value_with_new_type(argument, ty)
    for held in (op.properties, op.attributes):
        for name, attribute in list(held.items()):
            if not isinstance(attribute, DenseIntOrFPElementsAttr):
                held[name] = _mapped(attribute, change)


def _mapped(attribute: Attribute, change: Change) -> Attribute:
    """`attribute` with `change` applied to the types in it."""
    new = change(attribute)
    if new is not attribute and new != attribute:
        return new
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([_mapped(a, change) for a in attribute.data])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr({k: _mapped(v, change) for k, v in attribute.data.items()})
    if isinstance(attribute, ParametrizedAttribute) and not isinstance(
        attribute, TensorType | IntegerAttr
    ):
        parameters = [_mapped(p, change) for p in attribute.parameters]
        if any(a is not b for a, b in zip(parameters, attribute.parameters, strict=True)):
            return type(attribute).new(parameters)
    return attribute


def scalars(module: ModuleOp) -> Iterator[Edit]:
    """Every tensor as one element: for programs that treat all elements alike."""
    if any(isinstance(ty, TensorType) for op in module.walk() for ty in op.result_types):
        yield _scalarised


def _element(ty: Attribute) -> Attribute:
    return ty.element_type if isinstance(ty, TensorType) else ty


def _scalarised(module: ModuleOp) -> bool:
    for op in list(module.walk()):
        if op.parent is None and op is not module:
            continue
        if isinstance(op, tt.MakeRangeOp):
            new = constant(_element(op.result.type))
            assert new is not None
            op.result.replace_all_uses_with(before(op, new))
            erase(op)
        elif op.name in _MOVES or (op.name == "tt.reduce" and len(op.operands) == 1):
            op.results[0].replace_all_uses_with(op.operands[0])
            erase(op)
        elif isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
            if not constants.is_splat(op.value):
                return False
            number = constants.constant_value(op.value).reshape(-1)[:1]
            new = _scalar_constant(_element(op.value.type), number[0])
            if new is None:
                return False
            op.results[0].replace_all_uses_with(before(op, new))
            erase(op)
        else:
            _retyped(op, _element)
    return True


def _scalar_constant(ty: Attribute, number: Any) -> Operation | None:
    from xdsl.dialects.builtin import AnyFloat, IntegerType

    if isinstance(ty, IntegerType):
        return constant(ty, int(number))
    if isinstance(ty, AnyFloat):
        return arith.ConstantOp(
            constants.float_attr_from_bits(constants.float_to_bits(float(number), ty), ty)
        )
    return None
