"""Where an op comes from in the user's source, out of its MLIR location.

Triton prints `"name"("file":l:c)` for a named value, `callsite(callee at caller)` for what was
inlined, and `fused[...]` for what a pass merged. Diagnostics want the innermost place first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
)
from xdsl.ir import (
    Attribute,
    BlockArgument,
    Operation,
    OpResult,
    ParametrizedAttribute,
    SSAValue,
)

from xttir.diagnostics import Location

_A = TypeVar("_A", bound=ParametrizedAttribute)


def unchecked(cls: type[_A], *parameters: Attribute) -> _A:
    """The attribute of `cls` with parameters that are known to be right."""
    made = cls.__new__(cls)
    for (name, _), value in zip(cls.get_irdl_definition().parameters, parameters, strict=True):
        object.__setattr__(made, name, value)
    return made


_int = lru_cache(maxsize=1 << 14)(IntAttr)


def file_location(file: StringAttr, line: int, column: int) -> FileLineColLoc:
    """`"file":line:column`, made without xDSL's checks: half of all attributes of a module."""
    return unchecked(FileLineColLoc, file, _int(line), _int(column))


CALLED_FROM = "called from"


RANGE = StringAttr("range")
"""Metadata that marks a FusedLoc of two places as a stretch of a file, from one to the other."""


def range_location(start: FileLineColLoc, end: FileLineColLoc) -> FusedLoc:
    """`"f":1:2 to 3:4`. xDSL has no such location and seals its own, so a fused one stands in."""
    return FusedLoc((start, end), RANGE)


def location_of(op: Operation | SSAValue) -> Location:
    """The innermost known place of `op` (or of a value); an empty file name if none is known."""
    places = locations_of(op)
    return places[0] if places else Location("")


def locations_of(op: Operation | SSAValue) -> tuple[Location, ...]:
    """All places of `op`: the innermost first, then its call sites outwards ("called from")."""
    attr: Attribute
    if isinstance(op, OpResult):
        attr = op.op.location
    elif isinstance(op, Operation | BlockArgument):
        attr = op.location
    else:
        return ()
    return places_of(attr)


def places_of(location: Attribute) -> tuple[Location, ...]:
    """The places that a location attribute names, innermost first; () for an unknown one."""
    if isinstance(location, FileLineColLoc):
        return (Location(location.filename.data, location.line.data, location.column.data),)
    if isinstance(location, NameLoc):
        return places_of(location.location)
    if isinstance(location, CallSiteLoc):
        inner, outer = places_of(location.callee), places_of(location.caller)
        if not inner:
            return outer
        return inner + tuple(at.with_role(CALLED_FROM) for at in outer)
    if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
        found: list[Location] = []
        parts = location.locations.data
        for part in parts[:1] if location.metadata == RANGE else parts:
            found += (place for place in places_of(part) if place not in found)
        return tuple(found)
    return ()
