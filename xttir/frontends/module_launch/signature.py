"""The functions of a module and their parameters, as a launch sees them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    TensorType,
)
from xdsl.ir import Attribute

from xttir.diagnostics import InputError
from xttir.dialects import tt
from xttir.dialects.layouts.placement import integer_attribute
from xttir.dialects.locations import location_of
from xttir.frontends.launch_description import DTYPES, DType
from xttir.interp.types import numpy_dtype


@dataclass(frozen=True)
class Parameter:
    """One parameter of a `tt.func`. `divisibility`: what `tt.divisibility` says, 1 without it."""

    index: int
    name: str
    type: Attribute
    divisibility: int = 1
    attributes: dict[str, Attribute] = field(default_factory=dict)

    @property
    def pointee(self) -> Attribute | None:
        """The type a scalar pointer points to, or None."""
        return self.type.pointee_type if isinstance(self.type, tt.PointerType) else None


def functions(module: ModuleOp) -> list[tt.FuncOp]:
    """The functions of a module that have a body."""
    return [op for op in module.ops if isinstance(op, tt.FuncOp) and not op.is_declaration]


def find_function(module: ModuleOp, name: str = "") -> tt.FuncOp:
    """The function called `name`; without one, the only kernel (the only public function, or the
    only function). Raises `InputError` that lists what there is."""
    found = functions(module)
    known = {op.sym_name.data: op for op in found}
    if name:
        if name in known:
            return known[name]
        close = difflib.get_close_matches(name, known, 1)
        near = f", did you mean '{close[0]}'?" if close else ""
        raise InputError(
            f"the module has no function '{name}'{near}", location_of(module), _of(known)
        )
    if not found:
        raise _no_function(module)
    public = [op for op in found if _is_public(op)]
    for choice in (public, found):
        if len(choice) == 1:
            return choice[0]
    called = {op.callee.root_reference.data for op in module.walk() if isinstance(op, tt.CallOp)}
    outer = [op for op in public or found if op.sym_name.data not in called]
    if len(outer) == 1:
        return outer[0]
    raise InputError(
        f"the module has {len(outer or found)} functions that a launch could run: say which one "
        "(--entry)",
        location_of(module),
        _of({op.sym_name.data: op for op in outer or found}),
    )


def _no_function(module: ModuleOp) -> InputError:
    place = next((x for x in map(location_of, (module, *module.ops)) if x.file), None)
    others = dict.fromkeys(op.name for op in module.ops if not isinstance(op, tt.FuncOp))
    hint = f"it holds {', '.join(list(others)[:4])}: not Triton's IR" if others else ""
    if any(isinstance(op, tt.FuncOp) for op in module.ops):
        hint = "its functions are declarations"
    return InputError("the module has no function (tt.func) with a body", place, hint)


def _is_public(op: tt.FuncOp) -> bool:
    return op.sym_visibility is not None and op.sym_visibility.data == "public"


def _of(known: dict[str, tt.FuncOp]) -> str:
    return f"functions of the module: {', '.join(known) or 'none'}"


def parameters(function: tt.FuncOp) -> tuple[Parameter, ...]:
    """The parameters of a function, by the names of its source where the IR keeps them."""
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    out: list[Parameter] = []
    taken: set[str] = set()
    for n, argument in enumerate(function.args):
        held = attributes[n].data if n < len(attributes) else {}
        hint = argument.name_hint
        name = hint or f"arg{n}"
        if isinstance(argument.location, NameLoc) and (not hint or hint == f"arg{n}"):
            name = argument.location.desc.data
        if name in taken:
            name = f"arg{n}"
        taken.add(name)
        attributes_of = dict(held)
        out.append(Parameter(n, name, argument.type, _divisibility(attributes_of), attributes_of))
    return tuple(out)


def _divisibility(attributes: dict[str, Attribute]) -> int:
    value = attributes.get("tt.divisibility")
    return max(1, value.value.data) if isinstance(value, IntegerAttr) else 1


def element_dtype(ty: Attribute) -> DType:
    """How memory holds elements of a type: also pointers (u64). Types that launch descriptions have
    no name for are raw bits. Raises `Unsupported`."""
    if isinstance(ty, TensorType):
        ty = ty.element_type
    if isinstance(ty, tt.PointerType):
        return DTYPES["u64"]
    if isinstance(ty, IntegerType) and ty.width.data == 1:
        return DTYPES["bool"]
    return held_as(numpy_dtype(ty))


def held_as(dtype: np.dtype) -> DType:
    """The named type that numpy holds as `dtype`, or raw bits of its size."""
    for kind in DTYPES.values():
        if kind.numpy == dtype:
            return kind
    return DTYPES[f"b{8 * dtype.itemsize}"]


def warps_of(module: ModuleOp) -> int:
    """`ttg.num-warps` of the module, else 4."""
    held = integer_attribute(module, "ttg.num-warps")
    return 4 if held is None else held
