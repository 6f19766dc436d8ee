"""From a signature and words like `n=5`, `x=random:f32[64,64]` to a launch description.

A parameter that nothing is said of gets a random number of its type, or a buffer with random
contents whose size is found later (`sizes`). What a descriptor is followed by (shape and strides,
as Triton passes them) is filled in from the descriptor.
"""

from __future__ import annotations

import difflib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType

from xttir.diagnostics import InputError
from xttir.dialects import tt
from xttir.dialects.layouts.placement import capability_at
from xttir.frontends.launch_description import (
    DType,
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorMapParam,
    TensorSpec,
    ValueParam,
    dtype,
)
from xttir.frontends.module_launch.signature import (
    Parameter,
    element_dtype,
    find_function,
    held_as,
    parameters,
)
from xttir.interp.types import is_float_type, numpy_dtype, shape_of

FORMS = (
    "a number, null, random, zeros, ones, arange, empty (nobody has written it) or a number in "
    "front of ':', each with a type and shape like :f32[64,64] or :[1000]; or a file x.npy, x.npz:y"
)

_SHAPED = re.compile(
    r"(?:(?P<fill>[^:\[\]]*):)?(?P<type>[A-Za-z]\w*)?"
    r"(?:\[(?P<shape>[\d,\s]*)\](?:\s*@\s*\[(?P<strides>[\d,\s]*)\])?)?"
)
_FILLS = ("random", "zeros", "ones", "arange", "empty")
_RANDOM = re.compile(r"random(?:\((?P<low>[^,()]+),(?P<high>[^,()]+)\))?")

SMALL = 128
"""Random integers that nothing is said of are at most this (or the first multiple beyond that
`tt.divisibility` asks for)."""


@dataclass
class Described:
    """A launch description, and the tensors whose size is still to be found."""

    description: LaunchDescription
    open: set[str] = field(default_factory=set)


def split_argument(word: str) -> tuple[str, str]:
    """`n=5` as ("n", "5"). Raises `InputError`."""
    name, equals, value = word.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InputError(f"'{word}' is not NAME=VALUE")
    return name.strip(), value.strip()


def describe(
    module: Any,
    given: Mapping[str, str] | None = None,
    *,
    function: str = "",
    grid: tuple[int, int, int] = (1, 1, 1),
    seed: int = 0,
) -> Described:
    """The launch of a function of `module` with the arguments `given` by name (or by position, or
    as `argN`). Raises `InputError` that names the argument."""
    op = find_function(module, function)
    maker = _Maker(parameters(op), dict(given or {}), seed)
    params = maker.params()
    capability = capability_at(module)
    return Described(
        LaunchDescription(
            entry=op.sym_name.data,
            arch=f"sm_{capability}" if capability else "",
            grid=grid,
            block=(1, 1, 1),
            tensors=maker.tensors,
            params=params,
        ),
        maker.open,
    )


class _Maker:
    def __init__(self, signature: tuple[Parameter, ...], given: dict[str, str], seed: int):
        self.signature = signature
        self.seed = seed
        self.given = self._by_position(given)
        self.tensors: dict[str, TensorSpec] = {}
        self.open: set[str] = set()

    def _by_position(self, given: dict[str, str]) -> dict[int, str]:
        names = {p.name: p.index for p in self.signature}
        names |= {f"arg{p.index}": p.index for p in self.signature if f"arg{p.index}" not in names}
        names |= {str(p.index): p.index for p in self.signature}
        out: dict[int, str] = {}
        for name, value in given.items():
            index = names.get(name.removeprefix("%"))
            if index is None:
                known = [p.name for p in self.signature]
                close = difflib.get_close_matches(name, known, 1)
                near = f", did you mean '{close[0]}'?" if close else ""
                hint = f"parameters: {', '.join(known) or 'none'}"
                raise InputError(f"no parameter '{name}'{near}", hint=hint)
            out[index] = value
        return out

    def params(self) -> tuple[Param, ...]:
        out: list[Param] = []
        queue = list(self.signature)
        while queue:
            parameter = queue.pop(0)
            out.append(self._param(parameter))
            if isinstance(parameter.type, tt.TensorDescType):
                numbers = self._descriptor_numbers(out[-1], queue)
                out += numbers
                del queue[: len(numbers)]
        return tuple(out)

    def _param(self, parameter: Parameter) -> Param:
        text = self.given.get(parameter.index)
        try:
            return self._made(parameter, text)
        except InputError as error:
            what = f"argument `{parameter.name}` ({parameter.type}): {error.what}"
            raise InputError(what, error.location, error.hint) from error

    def _made(self, parameter: Parameter, text: str | None) -> Param:
        ty = parameter.type
        if isinstance(ty, tt.PointerType):
            return self._pointer(parameter, text)
        if isinstance(ty, tt.TensorDescType):
            return self._descriptor(parameter, ty, text)
        if isinstance(ty, TensorType):
            element = ty.element_type
            pointers = isinstance(element, tt.PointerType)
            element = element.pointee_type if pointers else element
            spec = self._tensor(parameter.name, text, element_dtype(element), shape_of(ty))
            if spec.shape != shape_of(ty):
                raise InputError(f"has shape {list(spec.shape)}, not {list(shape_of(ty))}")
            self.tensors[spec.name] = spec
            return PointersParam(spec.name) if pointers else ValueParam(spec.name)
        return self._scalar(parameter, text)

    # Scalars

    def _scalar(self, parameter: Parameter, text: str | None) -> Param:
        ty = parameter.type
        kind = element_dtype(ty)
        if text in (None, "random"):
            return ScalarParam(kind, self._drawn(parameter))
        assert text is not None
        if text.lower() in ("true", "false") and isinstance(ty, IntegerType):
            return ScalarParam(kind, int(text.lower() == "true"))
        try:
            value = float(text) if is_float_type(ty) else int(text, 0)
        except ValueError:
            raise InputError(f"'{text}' is not a number of this type") from None
        if not isinstance(value, float) and isinstance(ty, IntegerType):
            bits = ty.width.data
            if not -(1 << (bits - 1)) <= value < (1 << bits):
                raise InputError(f"{value} does not fit in {bits} bits")
        return ScalarParam(kind, value)

    def _drawn(self, parameter: Parameter) -> int | float:
        random = np.random.default_rng([self.seed, zlib.crc32(parameter.name.encode())])
        if is_float_type(parameter.type):
            return float(random.integers(-8, 9) * 0.25)
        if numpy_dtype(parameter.type) == np.dtype(bool):
            return int(random.integers(0, 2))
        number = int(random.integers(1, SMALL, endpoint=True))
        return -(-number // parameter.divisibility) * parameter.divisibility

    # Tensors

    def _pointer(self, parameter: Parameter, text: str | None) -> Param:
        assert parameter.pointee is not None
        if text in ("null", "none", "None", "0"):
            return PointerParam(None)
        spec = self._tensor(parameter.name, text, element_dtype(parameter.pointee), None)
        self.tensors[spec.name] = spec
        return PointerParam(spec.name)

    def _descriptor(self, parameter: Parameter, ty: tt.TensorDescType, text: str | None) -> Param:
        block = ty.get_shape()
        kind = element_dtype(ty.element_type)
        spec = self._tensor(parameter.name, text, kind, tuple(2 * n for n in block))
        if len(spec.shape) != len(block):
            raise InputError(f"has {len(spec.shape)} dimensions, the block {len(block)}")
        if spec.strides and spec.strides[-1] != 1:
            raise InputError("the last stride of a descriptor is 1")
        self.tensors[spec.name] = spec
        return TensorMapParam(
            spec.name,
            box=tuple(reversed(block)),
            dims=tuple(reversed(spec.shape)),
            strides_bytes=tuple(s * kind.size for s in reversed(spec.strides[:-1])),
            elem_strides=(1,) * len(block),
            dtype=kind,
        )

    def _descriptor_numbers(self, param: Param, queue: list[Parameter]) -> list[Param]:
        """Shape (i32) and strides (i64) that follow a descriptor, where nothing else is given."""
        assert isinstance(param, TensorMapParam)
        rank = param.rank
        following = queue[: 2 * rank]
        widths = [p.type.width.data if isinstance(p.type, IntegerType) else 0 for p in following]
        if widths != [32] * rank + [64] * rank or any(p.index in self.given for p in following):
            return []
        size = param.dtype.size
        strides = [*(s // size for s in reversed(param.strides_bytes)), 1]
        numbers = [*reversed(param.dims), *strides]
        return [
            ScalarParam(element_dtype(p.type), n) for p, n in zip(following, numbers, strict=True)
        ]

    def _tensor(
        self, name: str, text: str | None, kind: DType, shape: tuple[int, ...] | None
    ) -> TensorSpec:
        """The tensor that `text` describes. `shape`: what it has when the text has none; None: its
        size is to be found."""
        name = _identifier(name, self.tensors)
        text = text or ""
        file = re.fullmatch(r"(?P<path>.*\.np[yz])(?::(?P<key>\w+))?", text)
        if file:
            return _of_array(name, _loaded(file["path"], file["key"]), kind)
        match = _SHAPED.fullmatch(text)
        fill, word, extents, steps = match.groups() if match else (None, None, None, None)
        if match and fill is None and word in (*_FILLS, "full"):
            fill, word = word, None
        if not match or (word and dtype(word) is None) or (fill and not _fill_known(fill)):
            raise InputError(f"'{text}' is no description of a tensor", hint=f"one of: {FORMS}")
        if word:
            named = dtype(word)
            assert named is not None
            if named.size != kind.size:
                raise InputError(f"'{word}' has {named.size} bytes an element, not {kind.size}")
            kind = named
        if extents is not None:
            shape = _numbers(extents)
        found = shape if shape is not None else (0,)
        strides = _numbers(steps) if steps is not None else TensorSpec.contiguous(found)
        if len(strides) != len(found):
            raise InputError(f"{len(found)} dimensions but {len(strides)} strides")
        spec = TensorSpec(
            name, kind, found, strides, "inout", storage=max(1, TensorSpec.span(found, strides))
        )
        if shape is None:
            self.open.add(name)
        if fill is None and not kind.is_float and kind.kind != "bool":
            # Numbers that may well be indices into another argument.
            return replace(spec, range=(0, 8))
        return _filled(spec, fill or "random")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",") if n.strip())


def _fill_known(fill: str) -> bool:
    if fill in _FILLS or _RANDOM.fullmatch(fill):
        return True
    try:
        float(fill)
    except ValueError:
        return False
    return True


def _filled(spec: TensorSpec, fill: str) -> TensorSpec:
    """`spec` with the contents that a word asks for."""
    if fill == "empty":
        return replace(spec, role="scratch")
    if fill == "arange":
        return replace(spec, init=np.arange(int(np.prod(spec.shape))).reshape(spec.shape))
    drawn = _RANDOM.fullmatch(fill)
    if drawn:
        if drawn["low"] is None:
            return spec
        number = float if spec.dtype.is_float else int
        try:
            low, high = number(drawn["low"]), number(drawn["high"])
        except ValueError:
            raise InputError(f"'{fill}' is not random(LOW,HIGH)") from None
        if low > high:
            raise InputError(f"in '{fill}' the least value is greater than the greatest")
        return replace(spec, range=(low, high))
    value = {"zeros": 0.0, "ones": 1.0}.get(fill)
    value = float(fill) if value is None else value
    return replace(spec, init=value if spec.dtype.is_float else int(value))


def _loaded(path: str, key: str | None) -> np.ndarray:
    try:
        data = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read '{path}' as numpy data: {error}") from error
    if isinstance(data, np.ndarray):
        return data
    names = list(data.files)
    if key is None and len(names) != 1:
        raise InputError(f"'{path}' holds {', '.join(names) or 'nothing'}: say '{path}:NAME'")
    if key is not None and key not in names:
        raise InputError(f"'{path}' has no '{key}', only {', '.join(names) or 'nothing'}")
    return data[key or names[0]]


def _of_array(name: str, array: np.ndarray, kind: DType) -> TensorSpec:
    """A tensor with the contents of `array`, as elements of `kind`."""
    if array.dtype != kind.numpy:
        bits = array.dtype.kind == "u" and array.dtype.itemsize == kind.size
        if not bits and (
            held_as(array.dtype).is_float != kind.is_float or array.itemsize != kind.size
        ):
            raise InputError(f"the file has {array.dtype}, not {kind.name}")
        array = np.ascontiguousarray(array).view(kind.numpy).reshape(array.shape)
    return TensorSpec(
        name,
        kind,
        array.shape,
        TensorSpec.contiguous(array.shape),
        "inout",
        init=array,
        storage=max(1, array.size),
    )


def _identifier(name: str, taken: Mapping[str, Any]) -> str:
    word = re.sub(r"\W", "_", name) or "arg"
    word = f"_{word}" if word[0].isdigit() else word
    result, n = word, 1
    while result in taken:
        n += 1
        result = f"{word}_{n}"
    return result
