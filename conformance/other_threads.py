"""Modules in which other threads load and store: every access to shared memory gets a layout of its
own, so that no thread finds what it has written itself.

Barrier insertion does not look at which thread holds what; a test whose threads only meet their own
elements needs no barrier for that reason alone.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from xttir.dialects.layouts.encodings import LinearEncodingAttr
from xttir.dialects.layouts.to_linear import layout_of
from xttir.dialects.ttg import MemDescType

LOADS = ("ttg.local_load",)
STORES = {"ttg.local_store": 0, "ttg.local_alloc": 0, "ttg.async_copy_global_to_local": 0}
"""The operand whose layout says who stores what."""


def permute(module: ModuleOp) -> None:
    """Give the n-th access of the module its layout with the bits of threads rotated by n + 1."""
    number = 0
    for op in list(module.walk()):
        if op.name in LOADS:
            number += 1
            result = op.results[0]
            Rewriter.replace_value_with_new_type(result, rotated(result.type, number))
        elif op.name in STORES and op.operands:
            number += 1
            _through_cast(op, STORES[op.name], number)


def _through_cast(op: Operation, index: int, by: int) -> None:
    value = op.operands[index]
    if isinstance(value.type, MemDescType):
        return
    block = op.parent_block()
    assert block is not None
    cast = UnrealizedConversionCastOp.get([value], [rotated(value.type, by)])
    block.insert_op_before(cast, op)
    op.operands[index] = cast.results[0]


def rotated(ty: Attribute, by: int) -> Attribute:
    """The tensor type with the bases of its lanes and warps rotated; others as they are."""
    if not isinstance(ty, TensorType) or isinstance(ty.encoding, NoneAttr):
        return ty
    layout = layout_of(ty)
    lanes, warps = layout.bases("lane"), layout.bases("warp")
    threads = (*lanes, *warps)
    by %= max(len(threads), 1)
    threads = (*threads[by:], *threads[:by])
    bases = {
        "register": layout.bases("register"),
        "lane": threads[: len(lanes)],
        "warp": threads[len(lanes) :],
        "block": layout.bases("block"),
    }
    made = {
        name: ArrayAttr([ArrayAttr([IntegerAttr(x, 32) for x in basis]) for basis in rows])
        for name, rows in bases.items()
    }
    encoding = LinearEncodingAttr(DictionaryAttr(made))
    return TensorType(ty.element_type, ty.get_shape(), encoding)
