"""What is known of a launch when a module is traced, from words, descriptions and real launches.

The words are those of the contracts of every size, as far as they give values: `K == 512`,
`grid[0] == cdiv(M, 128)`, `idx == [0, 4, 9]` for the contents of an integer tensor. They are read
with `ast` and never run.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp

from xttir.diagnostics import InputError
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.frontends.launch_description import (
    LaunchDescription,
    PointerParam,
    ScalarParam,
    TensorSpec,
)
from xttir.frontends.module_launch.binding import of_module
from xttir.frontends.module_launch.signature import find_function, parameters
from xttir.interp.launch import Launch as RunLaunch
from xttir.interp.launch import ScalarArg, Storage, TensorArg
from xttir.interp.tracing import Launch
from xttir.interp.tracing.launch import Number
from xttir.interp.types import numpy_dtype

FORM = "NAME == value, grid[0] == value, or NAME == [values of an integer tensor]"
MOST_PROGRAMS = 1 << 16
MAX_KNOWN = 64 << 20
"""Bytes of integer data that are copied from a tensor, no more."""


def from_words(module: ModuleOp, words: str, function: str = "") -> Launch:
    """The launch of a function of `module` that `words` give. Raises `InputError`."""
    op = find_function(module, function)
    names = {p.name: p.index for p in parameters(op)}
    names |= {f"arg{p}": p for p in names.values() if f"arg{p}" not in names}
    reader = _Reader(op, names)
    for text in (s.strip() for s in re.split(r"[;\n]|,(?![^(\[]*[)\]])", words)):
        if text:
            reader.read(text)
    return Launch(op.sym_name.data, reader.shape(), reader.numbers, reader.tensors)


class _Reader:
    def __init__(self, function: tt.FuncOp, names: dict[str, int]):
        self.function = function
        self.names = names
        self.grid = [1, 1, 1]
        self.numbers: dict[int, Number] = {}
        self.tensors: dict[int, TensorArg] = {}
        self.values: dict[str, Number] = {}

    def shape(self) -> tuple[int, int, int]:
        x, y, z = self.grid
        if x * y * z > MOST_PROGRAMS:
            raise InputError(
                f"a grid of {x * y * z} programs",
                location_of(self.function),
                f"give one of at most {MOST_PROGRAMS}: programs that do the same are traced once",
            )
        return x, y, z

    def read(self, text: str) -> None:
        """Take in one statement."""
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise InputError(f"'{text}' is not {FORM}") from None
        if not (
            isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq)
        ):
            raise InputError(
                f"'{text}' gives no value", hint=f"a module after layouts are chosen takes {FORM}"
            )
        left, right = tree.left, tree.comparators[0]
        if isinstance(left, ast.Subscript) and _name(left.value) == "grid":
            axis = left.slice.value if isinstance(left.slice, ast.Constant) else None
            if axis not in (0, 1, 2):
                raise InputError(f"'{text}': the grid has axes 0, 1 and 2")
            value = self._number(right, text)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"'{text}': a grid has at least 1 program along each axis")
            self.grid[axis] = value
            return
        self._argument(_name(left), right, text)

    def _argument(self, name: str, right: ast.expr, text: str) -> None:
        index = self.names.get(name)
        if index is None:
            if not name:
                raise InputError(f"'{text}' is not {FORM}")
            close = difflib.get_close_matches(name, self.names, 1)
            near = f", did you mean '{close[0]}'?" if close else ""
            known = [p.name for p in parameters(self.function)]
            hint = f"parameters: {', '.join(known) or 'none'}"
            raise InputError(f"no parameter '{name}'{near}", hint=hint)
        ty = self.function.body.blocks[0].args[index].type
        if isinstance(right, ast.List):
            values = [self._number(x, text) for x in right.elts]
            if not isinstance(ty, tt.PointerType) or not isinstance(ty.pointee_type, IntegerType):
                raise InputError(f"'{text}': `{name}` is no pointer to integers")
            array = np.array(values).astype(numpy_dtype(ty.pointee_type))
            self.tensors[index] = tensor(name, index, array)
            return
        if not isinstance(ty, IntegerType | IndexType | AnyFloat):
            raise InputError(f"'{text}': `{name}` is no number")
        value = self._number(right, text)
        if isinstance(value, float) and not isinstance(ty, AnyFloat):
            raise InputError(f"'{text}': `{name}` is an integer")
        if isinstance(ty, IntegerType) and not _fits(int(value), ty.width.data):
            raise InputError(f"'{text}': {value} does not fit into {ty.width.data} bits")
        self.numbers[index] = self.values[name] = value

    def _number(self, node: ast.expr, text: str) -> Number:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._number(inner, text)
            case ast.Name(id=name) if name in self.values:
                return self.values[name]
            case ast.Subscript(value=ast.Name(id="grid"), slice=ast.Constant(value=int() as axis)):
                if axis in (0, 1, 2):
                    return self.grid[axis]
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return self._both(_BINARY[type(op)], a, b, text)
            case ast.Call(func=ast.Name(id=name), args=[a, b]) if name in _CALLS:
                return self._both(_CALLS[name], a, b, text)
        raise InputError(
            f"'{text}': no number is known for '{ast.unparse(node)}'",
            hint="a number, or a name that was given one before",
        )

    def _both(self, work: Callable[[Any, Any], Any], a: ast.expr, b: ast.expr, text: str) -> Number:
        try:
            return work(self._number(a, text), self._number(b, text))
        except ZeroDivisionError:
            raise InputError(f"'{text}' divides by 0") from None


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _fits(value: int, width: int) -> bool:
    return -(1 << (width - 1)) <= value < 1 << width


def tensor(name: str, index: int, values: np.ndarray) -> TensorArg:
    """An integer tensor with these contents, in memory of its own."""
    storage = Storage(np.ascontiguousarray(values).view(np.uint8), (index + 1) << 40)
    return TensorArg(name, storage, 0, values.shape, (1,), values.dtype)


def from_description(module: ModuleOp, description: LaunchDescription) -> Launch:
    """The launch of a description of the module, or of the PTX that the module is compiled to:
    that has two parameters more, for scratch memory. Raises `InputError`."""
    op = find_function(module, description.entry)
    wanted = len(op.args)
    description = of_module(description, wanted)
    if len(description.params) != wanted:
        given = len(description.params)
        raise InputError(
            f"the launch has {given} parameters, @{op.sym_name.data} has {wanted}", location_of(op)
        )
    numbers: dict[int, Number] = {}
    tensors: dict[int, TensorArg] = {}
    for index, param in enumerate(description.params):
        if isinstance(param, ScalarParam):
            numbers[index] = param.value
        elif isinstance(param, PointerParam) and param.tensor is not None and not param.offset:
            values = _contents(description.tensors[param.tensor])
            if values is not None:
                tensors[index] = tensor(param.tensor, index, values)
    return Launch(op.sym_name.data, description.grid, numbers, tensors)


def _contents(spec: TensorSpec) -> np.ndarray | None:
    """The integers of a dense tensor whose contents the description gives."""
    if spec.init is None or spec.dtype.numpy.kind not in "iub":
        return None
    if spec.strides != _dense(spec.shape):
        return None
    whole = np.broadcast_to(np.asarray(spec.init), spec.shape).astype(spec.dtype.numpy)
    return whole.reshape(-1)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for n in reversed(shape[1:]):
        steps.insert(0, steps[0] * n)
    return tuple(steps[: len(shape)])


def from_launch(launch: RunLaunch) -> Launch:
    """What is known of a launch that is about to run: scalars, and integer tensors as they are now.
    Its TTGIR has the parameters of its TTIR."""
    numbers: dict[int, Number] = {}
    tensors: dict[int, TensorArg] = {}
    copies: dict[int, Storage] = {}
    for index, argument in enumerate(launch.arguments):
        if isinstance(argument, ScalarArg):
            numbers[index] = argument.value
        elif isinstance(argument, TensorArg) and argument.dtype.kind in "iub":
            old = argument.storage
            if len(old.bytes) > MAX_KNOWN:
                continue
            new = copies.get(id(old))
            if new is None:
                valid = None if old.valid is None else old.valid.copy()
                new = copies[id(old)] = Storage(old.bytes.copy(), old.address, valid)
            tensors[index] = TensorArg(
                argument.name, new, argument.offset, argument.shape, argument.strides,
                argument.dtype, argument.device,
            )  # fmt: skip
    return Launch(launch.kernel, launch.grid, numbers, tensors)


def text_of(launch: Launch, module: ModuleOp) -> str:
    """Grid and scalars of a launch, for reports: `grid (4, 1, 1), K=512`."""
    op = find_function(module, launch.kernel)
    given = [
        f"{p.name}={launch.arguments[p.index]}"
        for p in parameters(op)
        if p.index in launch.arguments
    ]
    x, y, z = launch.grid
    return ", ".join([f"grid ({x}, {y}, {z})", *given])
