"""xDSL's printer, with constants bit for bit and attribute dictionaries in MLIR's order.

What it prints, Triton's own parser accepts: floats print in decimal only if that reads back to the
same bits, and large constants as hexadecimal strings.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float64Type,
    FloatAttr,
    FusedLoc,
    IntegerType,
    ModuleOp,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.printer import Printer

from xttir.dialects import constants
from xttir.dialects.locations import RANGE

_LONG = 100
"""MLIR prints constants of more elements than this as one hexadecimal string."""


def float_text(bits: int, type_: AnyFloat) -> str:
    """How MLIR writes the float of `type_` with these bits."""
    value = constants.float_from_bits(bits, type_)
    if math.isfinite(value):
        head, _, exponent = f"{value:.5e}".partition("e")
        short = f"{head}0e{exponent}"
        if constants.float_to_bits(float(short), type_) == bits:
            return short
        # As many digits as tell all values of the type apart (LLVM's APFloat::toString).
        precision = 53 if isinstance(type_, Float64Type) else _precision(type_)
        text = f"{value:.{2 + precision * 59 // 196}g}"
        if "." in text and constants.float_to_bits(float(text), type_) == bits:
            return text
    return f"0x{bits:0{type_.bitwidth // 4}X}"


def _precision(type_: AnyFloat) -> int:
    form = constants.format_of(type_)
    return 53 if form is None else form.mantissa_bits + 1


def module_text(module: ModuleOp, *, locations: bool = False) -> str:
    """The module as Triton's parser takes it."""
    stream = io.StringIO()
    TTPrinter(stream=stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"


def short_text(module: ModuleOp) -> str:
    """The module as Triton prints it: layouts have names, which stand before it."""
    stream = io.StringIO()
    printer = _AliasPrinter(stream)
    printer.print_op(module)
    aliases = "".join(f"#{name} = {text}\n" for name, text in printer.known.values())
    return f"{aliases}{stream.getvalue()}\n"


_ALIASES = {
    "nvidia_mma": "mma",
    "tensor_memory_encoding": "tmem",
    "tensor_memory_scales_encoding": "tmem_scales",
}
"""What aliases are called where it is not by the last word of the attribute."""


class TTPrinter(Printer):
    """See the module's docstring."""

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        super().print_attr_dict(dict(sorted(attr_dict.items())))

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, FloatAttr):
            self.print_string(float_text(constants.float_attr_bits(attribute), attribute.type))
            self.print_string(" : ")
            super().print_attribute(attribute.type)
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_dense(attribute)
        elif isinstance(attribute, FusedLoc) and attribute.metadata == RANGE:
            self._print_range(attribute)
        else:
            super().print_attribute(attribute)

    def print_float(self, value: float, type: AnyFloat) -> None:
        self.print_string(float_text(constants.float_to_bits(value, type), type))

    def print_ssa_value(self, value: SSAValue) -> str:
        # xDSL gives `x_1` both to a second `x` and to a value whose hint is `x_1`.
        name = self._ssa_values.get(value)
        if name is None and value.name_hint:
            hint, names = value.name_hint, self.ssa_names
            count = names.get(hint, 0)
            name = f"{hint}_{count}" if count else hint
            while f"%{name}" in names:
                count += 1
                name = f"{hint}_{count}"
            names[hint] = count + 1
            names[f"%{name}"] = 1
            self._ssa_values[value] = name
        if name is None:
            return super().print_ssa_value(value)
        self.print_string(f"%{name}")
        return name

    def _print_range(self, location: FusedLoc) -> None:
        start, end = location.locations.data  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(start, FileLineColLoc)
        assert isinstance(end, FileLineColLoc)
        with self.in_location():
            self.print_attribute(start)
            line = "" if start.line == end.line else str(end.line.data)
            self.print_string(f" to {line}:{end.column.data}")

    def _print_dense(self, attr: DenseIntOrFPElementsAttr) -> None:
        element: Any = attr.type.element_type
        data, size, count = attr.data.data, element.compile_time_size, len(attr)
        if not isinstance(element, AnyFloat | IntegerType) and count:
            super().print_attribute(attr)
            return
        if count == 0:
            body = ""
        elif constants.is_splat(attr):
            body = self._element(data[:size], element)
        elif count > _LONG:
            body = f'"0x{self._raw(data, element).hex().upper()}"'
        else:
            parts = [self._element(data[i : i + size], element) for i in range(0, len(data), size)]
            body = _nested(parts, attr.get_shape())
        self.print_string(f"dense<{body}> : ")
        self.print_attribute(attr.type)

    @staticmethod
    def _element(raw: bytes, element: Any) -> str:
        if isinstance(element, AnyFloat):
            return float_text(int.from_bytes(raw, "little"), element)
        if element.width.data == 1:
            return "true" if raw[0] & 1 else "false"
        return str(element.unpack(raw, 1)[0])

    @staticmethod
    def _raw(data: bytes, element: Any) -> bytes:
        """The bytes that MLIR prints: an i1 is a byte of 0 or 1 (xDSL holds true as -1)."""
        if isinstance(element, IntegerType) and element.width.data == 1:
            return bytes(byte & 1 for byte in data)
        return data


def _nested(parts: list[str], shape: tuple[int, ...]) -> str:
    """`parts` in brackets, one pair per dimension."""
    if len(shape) <= 1:
        return f"[{', '.join(parts)}]"
    step = len(parts) // shape[0]
    rows = (_nested(parts[i : i + step], shape[1:]) for i in range(0, len(parts), step))
    return f"[{', '.join(rows)}]"


class _AliasPrinter(TTPrinter):
    """Prints the name of a layout in its place, and keeps what it stands for."""

    def __init__(self, stream: io.StringIO):
        super().__init__(stream=stream)
        self.known: dict[Attribute, tuple[str, str]] = {}
        """(name, text) by attribute, in the order in which they can be read."""

    def print_attribute(self, attribute: Attribute) -> None:
        dialect, _, word = attribute.name.partition(".")
        layout = dialect in ("ttg", "ttng") and not isinstance(attribute, TypeAttribute)
        if not (layout and isinstance(attribute, ParametrizedAttribute) and attribute.parameters):
            super().print_attribute(attribute)
            return
        if attribute not in self.known:
            outer, self.stream = self.stream, io.StringIO()
            super().print_attribute(attribute)
            text = self.stream.getvalue()
            self.stream = outer
            name = _ALIASES.get(word, "shared" if "shared" in word else word)
            count = sum(used.rstrip("0123456789") == name for used, _ in self.known.values())
            self.known[attribute] = (f"{name}{count or ''}", text)
        self.print_string(f"#{self.known[attribute][0]}")
