"""A PTX function as the parser reads it, before it is made SSA."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute

from xttir.dialects.ptx.instruction import Mnemonic
from xttir.dialects.ptx.operands import RegType


class Register:
    """A declared register. `name` is unique in the function, `index` counts the registers used."""

    __slots__ = ("index", "kind", "name", "type")

    def __init__(self, name: str, kind: str, index: int):
        self.name = name
        self.kind = kind
        self.index = index
        self.type = RegType(StringAttr(kind), StringAttr(name))


@dataclass(slots=True)
class Not:
    """`!p`."""

    register: Register


@dataclass(slots=True)
class Part:
    """`r.b0`."""

    register: Register
    part: str


@dataclass(slots=True)
class Vector:
    parts: list[Operand]


@dataclass(slots=True)
class Memory:
    base: Operand
    offset: int
    more: list[Operand]


Operand = Register | Not | Part | Vector | Memory | Attribute


class Label:
    """`target` says whether a branch names it: only then does a block begin there."""

    __slots__ = ("block", "name", "offset", "target")

    def __init__(self, name: str, offset: int):
        self.name = name
        self.offset = offset
        self.target = False
        self.block = -1


@dataclass(slots=True)
class Statement:
    """An instruction. `dst` and `src` refer to `defs` and `uses` by index."""

    mnemonic: Mnemonic
    guard: Register | None
    negated: bool
    dst: ArrayAttr
    src: ArrayAttr
    defs: list[Register]
    uses: list[Register]
    location: LocationAttr
    keeps_old: bool = False
    """The old values of what it defines matter."""
    labels: list[Label] = field(default_factory=list)
    """Where a branch goes."""


@dataclass(slots=True)
class Text:
    """A directive that is kept as it is."""

    text: str
    location: LocationAttr


@dataclass(slots=True)
class Body:
    """The statements of a function, with a Label where one stands."""

    items: list[Statement | Label | Text] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    parameters: list[Register] = field(default_factory=list)
    """Registers that are parameters of the function: defined at its entry."""
    results: list[Register] = field(default_factory=list)
    """Registers that it returns: read by `ret`."""
