"""Triton's own conversion of encodings to linear layouts, as the judge of ours.

The wheel's Python bindings offer it for Gluon's layouts only; the C++ functions behind them take
any encoding as text, and are exported: `parseAttribute`, `toLinearLayout`, `toString`.
"""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import pytest

from xttir.dialects.layouts.linear_layout import LinearLayout

_PARSE_ATTRIBUTE = "_ZN4mlir14parseAttributeEN4llvm9StringRefEPNS_11MLIRContextENS_4TypeEPmb"
_PARSE_TYPE = "_ZN4mlir9parseTypeEN4llvm9StringRefEPNS_11MLIRContextEPmb"
_TO_LINEAR = "_ZN4mlir6triton3gpu14toLinearLayoutEN4llvm8ArrayRefIlEENS_9AttributeE"
_TO_LINEAR_IGNORING_PADDING = (
    "_ZN4mlir6triton3gpu29toLinearLayoutIgnoringPaddingEN4llvm8ArrayRefIlEENS_9AttributeE"
)
_TO_LINEAR_TENSOR_OR_MEMDESC = "_ZN4mlir6triton3gpu14toLinearLayoutENS1_11MemDescTypeE"
_TO_STRING = "_ZNK4mlir6triton12LinearLayout8toStringB5cxx11Ev"

_SPACE = 4096
"""More bytes than a LinearLayout has; it is returned through memory that the caller gives."""


class LayoutOracle:
    """Calls the functions of the installed wheel. An encoding that is not valid is None.

    A valid encoding on a shape that it cannot hold may abort the process, as it does in Triton.
    """

    def __init__(self) -> None:
        libtriton: Any = pytest.importorskip(
            "triton._C.libtriton", reason="Triton is not installed"
        )
        self._library = ctypes.CDLL(libtriton.__file__)
        for name in (_PARSE_ATTRIBUTE, _PARSE_TYPE, _TO_LINEAR, _TO_STRING):
            if not hasattr(self._library, name):
                pytest.skip("this wheel of Triton does not export what the oracle needs")
        for name in (_PARSE_ATTRIBUTE, _PARSE_TYPE):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._context = libtriton.ir.context()
        libtriton.ir.load_dialects(self._context)
        libtriton.nvidia.load_dialects(self._context)
        self._address = _address_of(self._context)
        self.release = _release()

    def layout(self, encoding: str, shape: tuple[int, ...]) -> LinearLayout | None:
        """The layout of an encoding, given as text, on a shape; without padding."""
        attribute = self._parse(_PARSE_ATTRIBUTE, encoding)
        if attribute is None:
            return None
        name = _TO_LINEAR
        if "padded_shared" in encoding:
            name = _TO_LINEAR_IGNORING_PADDING
            if not hasattr(self._library, name):
                pytest.skip("this release of Triton gives no layout of padded memory")
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        return self._call(name, sizes, ctypes.c_size_t(len(shape)), ctypes.c_void_p(attribute))

    def memdesc_layout(self, type_: str) -> LinearLayout | None:
        """The layout of a memory descriptor, given as text."""
        parsed = self._parse(_PARSE_TYPE, type_)
        if parsed is None:
            return None
        return self._call(_TO_LINEAR_TENSOR_OR_MEMDESC, ctypes.c_void_p(parsed))

    def _parse(self, function: str, text: str) -> int | None:
        data = text.encode()
        arguments: list[Any] = [ctypes.c_char_p(data), ctypes.c_size_t(len(data))]
        arguments.append(ctypes.c_void_p(self._address))
        if function == _PARSE_ATTRIBUTE:
            arguments.append(ctypes.c_void_p(0))
        return getattr(self._library, function)(
            *arguments, ctypes.c_void_p(0), ctypes.c_bool(False)
        )

    def _call(self, function: str, *arguments: Any) -> LinearLayout:
        layout = ctypes.create_string_buffer(_SPACE)
        getattr(self._library, function)(layout, *arguments)
        text = ctypes.create_string_buffer(64)
        getattr(self._library, _TO_STRING)(text, layout)
        pointer, length = struct.unpack_from("QQ", text.raw)
        return read_layout(ctypes.string_at(pointer, length).decode())


def _address_of(context: Any) -> int:
    """The C++ object in a Python object of nanobind (Triton 3.9) or pybind11 (before)."""
    offset = 24 if _release() >= (3, 9) else 16
    return ctypes.c_uint64.from_address(id(context) + offset).value


def _release() -> tuple[int, ...]:
    import triton

    return tuple(map(int, triton.__version__.split(".")[:2]))


def read_layout(text: str) -> LinearLayout:
    """What `LinearLayout::toString` prints."""
    sizes = re.findall(r"(\w+) \(size (\d+)\)", text.split("where out dims are")[-1])
    bases: dict[str, list[tuple[int, ...]]] = {}
    for line in text.splitlines():
        if match := re.search(r"- (\w+) is a size 1 dimension", line):
            bases[match[1]] = []
        elif match := re.search(r"(\w+)=\d+ -> \(([\d, ]*)\)", line):
            bases.setdefault(match[1], []).append(tuple(map(int, match[2].split(","))))
    return LinearLayout.of(bases, {name: int(size) for name, size in sizes})
