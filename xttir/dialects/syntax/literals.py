"""Numbers and `dense<...>`, with the right bits for every way to write a float."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xttir.dialects import constants
from xttir.dialects.syntax.tokens import TokenParser

_BARE = MLIRTokenKind.BARE_IDENT
_STRING = MLIRTokenKind.STRING_LIT
_INTEGER = MLIRTokenKind.INTEGER_LIT


class LiteralParser(TokenParser):
    """A parser that reads numbers as MLIR does."""

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        token = self._parser_state.current_token
        if token.kind is _BARE and token.text not in ("true", "false"):
            return None
        negative = token.kind is MLIRTokenKind.MINUS
        if token.kind is not _INTEGER and not negative:
            return super().parse_optional_builtin_int_or_float_attr()
        start = self.pos
        value = self.parse_optional_number()
        if not isinstance(value, int) or self.token_kind is not MLIRTokenKind.COLON:
            self._jump(start)
            return super().parse_optional_builtin_int_or_float_attr()
        hexadecimal = self.text.startswith(("0x", "-0x"), start)
        self.advance()
        type_ = self.parse_type()
        if isinstance(type_, AnyFloat):
            bits = self._float_bits(value, hexadecimal, negative, type_, start)
            return constants.float_attr_from_bits(bits, type_)
        key = (value, type_)
        found = _INTEGERS.get(key)
        if found is None:
            self._jump(start)
            found = super().parse_optional_builtin_int_or_float_attr()
            if isinstance(found, IntegerAttr) and len(_INTEGERS) < 4096:
                _INTEGERS[key] = found
        return found

    def _float_bits(
        self, value: int, hexadecimal: bool, negative: bool, type_: AnyFloat, start: int
    ) -> int:
        """The bits that an integer literal gives a float, which only hexadecimals may."""
        if not hexadecimal:
            self.raise_error(
                f"unexpected decimal integer literal for a floating point value of type {type_}",
                start,
            )
        if negative:
            self.raise_error("hexadecimal float literal should not have a leading minus", start)
        if value.bit_length() > type_.bitwidth:
            self.raise_error("Hexadecimal float constant out of range for type", start)
        return value

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        if self.token_kind is MLIRTokenKind.GREATER:
            self._jump(start)
            return super().parse_dense_int_or_fp_elements_attr(type)
        if self.token_kind in (_STRING, MLIRTokenKind.BYTES_LIT):
            return self._dense_from_string(type)
        elements, shape = self._parse_tensor_literal()
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        if shape and list(type.get_shape()) != shape:
            self.raise_error(
                f"Shape mismatch in dense literal. Expected {list(type.get_shape())} "
                f"shape from the type, but got {shape} shape.",
                start,
            )
        data = self._pack(elements, type.element_type)
        if not shape:
            return constants.splat(type, data)
        return DenseIntOrFPElementsAttr(type, BytesAttr(data))

    def _parse_dense_literal_type(self) -> Any:
        # As xDSL's, but without building the constraint it checks with each time.
        start = self.pos
        type_ = self.expect(self.parse_optional_type, "Dense attribute must be typed!")
        if not isinstance(type_, TensorType | VectorType | MemRefType) or not isinstance(
            type_.element_type, IntegerType | IndexType | AnyFloat | ComplexType
        ):
            self.raise_error(
                "Expected memref, vector or tensor type of integer, index, float, or complex type",
                start,
            )
        if DYNAMIC_INDEX in type_.get_shape():
            self.raise_error("Dense literal attribute should have a static shape.", start)
        return type_

    def _pack(self, elements: Sequence[Any], element_type: Any) -> bytes:
        """The bytes of parsed literals in `element_type`."""
        if isinstance(element_type, AnyFloat):
            size = element_type.compile_time_size
            packed = bytearray()
            for element in elements:
                value = element.value
                if isinstance(value, bool | tuple):
                    self.raise_error("expected floating-point elements", element.span)
                if isinstance(value, int):
                    text = element.span.text
                    hexadecimal = text.lstrip("-").startswith("0x")
                    start = element.span.start
                    negative = text.startswith("-")
                    bits = self._float_bits(value, hexadecimal, negative, element_type, start)
                else:
                    bits = constants.float_to_bits(value, element_type)
                packed += bits.to_bytes(size, "little")
            return bytes(packed)
        values = [element.to_type(self, element_type) for element in elements]
        if isinstance(element_type, IntegerType):
            try:
                values = [element_type.get_normalized_value(int(value)) for value in values]
            except ValueError as error:
                self.raise_error(str(error), elements[0].span)
        return element_type.pack(values)

    def _dense_from_string(self, type_: Any) -> DenseIntOrFPElementsAttr:
        """`dense<"0x...">`: the elements' bytes, or one element's. Any byte but 0 is a true i1."""
        start = self.pos
        text = self.parse_optional_str_literal()
        if text is None or not text.startswith("0x"):
            self.raise_error("expected a string of hexadecimal digits that begins with 0x", start)
        try:
            data = bytes.fromhex(text[2:])
        except ValueError:
            self.raise_error("Hex string in denseAttr is invalid", start)
        self.parse_punctuation(">", " in dense attribute")
        if type_ is None:
            self.parse_punctuation(":", " in dense attribute")
            type_ = self._parse_dense_literal_type()
        count, element = math.prod(type_.get_shape()), type_.element_type
        if isinstance(element, IntegerType) and element.width.data == 1:
            true = element.pack((element.get_normalized_value(1),))
            data = b"".join(true if byte else b"\0" for byte in data)
        size = element.compile_time_size
        if len(data) == size:
            return constants.splat(type_, data)
        if len(data) != size * count:
            self.raise_error(f"expected {size * count} bytes, but got {len(data)}", start)
        return DenseIntOrFPElementsAttr(type_, BytesAttr(data))


_INTEGERS: dict[tuple[int, Attribute], IntegerAttr] = {}
"""Integer attributes by value and type: few are used, and often."""
