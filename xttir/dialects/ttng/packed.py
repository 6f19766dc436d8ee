"""Which packed arithmetic there is (`ttng.packed_arith`): instructions by the types they take.

The table is that of Triton's verifier (`lib/Dialect/TritonNvidiaGPU/IR/Ops.cpp`), which is that of
the PTX ISA: packs of two in f32, f16 and bf16 (in mixtures too), packs of four in fp8, fp4, ue8m0.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.inference import check_fp4, same_layout
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.parameters import DISTRIBUTED
from xttir.dialects.layouts.to_linear import layout_of
from xttir.dialects.tt.traits import check
from xttir.dialects.ttng.types import PackedArithOpKind

_WORDS: dict[type[Attribute], tuple[str, int]] = {
    Float32Type: ("f32", 2),
    Float16Type: ("f16", 2),
    BFloat16Type: ("bf16", 2),
    Float8E5M2Type: ("e5m2", 4),
    Float8E4M3FNType: ("e4m3", 4),
    IntegerType: ("e2m1", 4),
    Float8E8M0FNUType: ("ue8m0", 4),
}
"""Per element type, its name in an instruction and how many of them one takes."""

_HALF = frozenset(("f16", "bf16"))
_PAIRS = _HALF | {"f32"}
_FP8 = frozenset(("e5m2", "e4m3"))
_FOURS = _FP8 | {"e2m1", "ue8m0"}


def _exists(kind: str, result: str, operands: Sequence[str]) -> bool:
    """Whether there is an instruction of this kind on these types."""
    same = all(word == result for word in operands)
    first, rest = operands[0], operands[1:]
    match kind:
        case "min" | "max":
            return result in _HALF and same
        case "add" | "sub":
            return (
                (result in _PAIRS and same)
                or (result == "f32" and first in _HALF and rest[0] == "f32")
                or (result in _HALF and set(operands) == {"f32"})
                or (result in _FP8 and first in _FOURS and rest[0] == result)
            )
        case "mul":
            return (
                (result in _PAIRS and same)
                or (result in _HALF and set(operands) == {"f32"})
                or (result in _HALF and first == result and rest[0] in _HALF - {result})
                or (result in _FP8 and set(operands) <= _FOURS)
            )
        case _:
            return (
                (result in _PAIRS and same)
                or (result == "f32" and first in _HALF and set(rest) == {"f32"})
                or (result in _FP8 and set(operands[:2]) <= _FOURS and operands[2] == result)
            )


def _halved_axis(operand: Sequence[int], result: Sequence[int]) -> int | None:
    """The one dimension along which `operand` has half as many elements (bytes of two fp4)."""
    if len(operand) != len(result):
        return None
    differ = [i for i, (a, b) in enumerate(zip(operand, result, strict=True)) if a != b]
    return differ[0] if len(differ) == 1 and 2 * operand[differ[0]] == result[differ[0]] else None


def check_packed(
    kind: PackedArithOpKind, operands: Sequence[TensorType], result: TensorType
) -> None:
    """Raise a VerifyException where there is no such instruction, or layouts do not fit."""
    wanted = 3 if kind == PackedArithOpKind.FMA else 2
    check(
        len(operands) == wanted,
        f"{kind.keyword} expects {wanted} operands but got {len(operands)}",
    )
    check(isinstance(result.encoding, DISTRIBUTED), "requires a distributed tensor layout")
    name, lanes = _WORDS[type(result.element_type)]
    words = [_WORDS[type(operand.element_type)][0] for operand in operands]
    check(
        _exists(kind.keyword, name, words),
        f"unsupported {kind.keyword} signature {name} <- ({', '.join(words)})",
    )
    shape = tuple(result.get_shape())
    axes = {
        _halved_axis(operand.get_shape(), shape)
        for operand, word in zip(operands, words, strict=True)
        if word == "e2m1"
    }
    check(
        len(axes) <= 1 and None not in axes,
        "requires every fp4 operand to have the result shape with the same single dimension halved",
    )
    try:
        registers = layout_of(result).without_zero_bases("register").in_size("register")
        check(
            registers >= lanes,
            f"result layout must provide a multiple of {lanes} unique elements per thread",
        )
        for i, (operand, word) in enumerate(zip(operands, words, strict=True)):
            check(not isinstance(operand.encoding, NoneAttr), f"operand {i} must have a layout")
            if word == "e2m1":
                (axis,) = axes
                assert axis is not None
                check_fp4(operand, axis, result)
                continue
            check(tuple(operand.get_shape()) == shape, f"operand {i} must have the result shape")
            check(
                same_layout(shape, operand.encoding, result.encoding),
                f"operand {i} must have a layout equivalent to the result",
            )
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return
