"""Constant expressions: PTX ISA 9.1, section 4.5. Integers are 64 bits wide, as in the text."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xttir.dialects.ptx.operands import number

_LEVELS: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63)},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": lambda a, b: _divide(a, b), "%": lambda a, b: a - b * _divide(a, b)},
)
_DEEPEST = 100


class BadExpression(Exception):
    """`position` is the index of the token at fault."""

    def __init__(self, what: str, position: int):
        super().__init__(what)
        self.position = position


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def wrap(value: int) -> int:
    """`value` as it lies in 64 bits, signed unless it only fits unsigned."""
    if -(2**63) <= value < 2**64:
        return value
    return (value + 2**63) % 2**64 - 2**63


def constant(texts: list[str], at: int) -> tuple[int | float, int]:
    """(value, index after it) of the expression that begins at token `at`.

    Raises BadExpression.
    """
    return _Reader(texts, at).read()


class _Reader:
    def __init__(self, texts: list[str], at: int):
        self.texts = texts
        self.at = at
        self.depth = 0

    def read(self) -> tuple[int | float, int]:
        try:
            value = self._ternary()
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise BadExpression(f"this has no value: {error}", self.at) from error
        return (wrap(value) if isinstance(value, int) else value), self.at

    def _ternary(self) -> Any:
        condition = self._binary(0)
        if self.texts[self.at] != "?":
            return condition
        self.at += 1
        yes = self._ternary()
        if self.texts[self.at] != ":":
            raise BadExpression("expected `:`", self.at)
        self.at += 1
        no = self._ternary()
        return yes if condition else no

    def _binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (operate := _LEVELS[level].get(self.texts[self.at])) is not None:
            self.at += 1
            left = operate(left, self._binary(level + 1))
            if isinstance(left, int):
                left = wrap(left)
        return left

    def _unary(self) -> Any:
        text = self.texts[self.at]
        self.depth += 1
        if self.depth > _DEEPEST:
            raise BadExpression("nested too deeply", self.at)
        self.at += 1
        if text == "-":
            value = -self._unary()
        elif text == "+":
            value = self._unary()
        elif text == "~":
            value = ~self._unary()
        elif text == "!":
            value = int(not self._unary())
        elif text == "(":
            value = self._bracketed()
        elif text == "WARP_SZ":
            value = 32
        elif text[0].isdigit():
            value = number(text)
        else:
            self.at -= 1
            raise BadExpression(f"expected a constant, found `{text[:40]}`", self.at)
        self.depth -= 1
        return value

    def _bracketed(self) -> Any:
        cast = self.texts[self.at] if self.texts[self.at] in (".s64", ".u64") else ""
        if cast:
            self.at += 1
        value = None if cast else self._ternary()
        if self.texts[self.at] != ")":
            raise BadExpression("expected `)`", self.at)
        self.at += 1
        if not cast:
            return value
        value = int(self._unary()) % 2**64
        return value - 2**64 if cast == ".s64" and value >= 2**63 else value
