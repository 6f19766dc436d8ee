"""What all PTX instructions have in common, and how a mnemonic is taken apart.

One op class is one family: the leading words of the mnemonic that say which operation it is. The
other words are its modifiers, kept in source order. A guarded instruction that defines registers,
or one that also reads what it defines, takes their old values as `old` operands, one per result.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ptx.operands import MemAttr, RegAttr, RegType, VecAttr
from xttir.dialects.ptx.syntax import parse_instruction, print_instruction
from xttir.dialects.ptx.words import words as word_set


@dataclass(frozen=True, slots=True)
class Family:
    """What the parser, the printer and the verifier know of an instruction family."""

    name: str
    """The leading words of the mnemonic."""
    words: frozenset[str]
    """Every modifier that it has."""
    shapes: re.Pattern[str] | None = None
    """Modifiers that follow a pattern, such as m64n128k16."""
    defines: int = 1
    """How many leading operands it defines; none where it begins with a memory operand."""
    pair: bool = False
    """The first operand may be `a|b`, two definitions."""
    updates: bool = False
    """It also reads the registers that it defines."""
    reads_carry: bool = False
    """It reads the carry flag (what has `.cc` writes it): the register `CC.CF`, last operand."""

    def unknown(self, modifiers: Sequence[str]) -> str:
        """The first modifier that the family does not have; empty: it has them all."""
        for word in modifiers:
            if word not in self.words and not (self.shapes and self.shapes.fullmatch(word)):
                return word
        return ""


class Instruction(IRDLOperation):
    """A PTX instruction."""

    if TYPE_CHECKING:
        FAMILY: ClassVar[Family]
        family: ClassVar[str]

    uses = var_operand_def(RegType)
    old = var_operand_def(RegType)
    guard = opt_operand_def(RegType)
    targets = var_operand_def(RegType)
    """Values for the arguments of the successor blocks, one block after the other."""
    defs = var_result_def(RegType)

    modifiers_attr = prop_def(ArrayAttr[StringAttr], prop_name="modifiers")
    dst = prop_def(ArrayAttr)
    src = prop_def(ArrayAttr)
    negated = opt_prop_def(UnitAttr)
    """The guard is `@!p`."""
    spelled = opt_prop_def(StringAttr)
    """The mnemonic, where it is not `family.modifiers`."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __post_init__(self) -> None:
        """Nothing has a default: skip looking for what is missing (kernels have many of these)."""

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The words after the family, in source order."""
        return _strings(self.modifiers_attr)

    @property
    def mnemonic(self) -> str:
        """As in the source: `ld.global.v4.u32`."""
        if self.spelled is not None:
            return self.spelled.data
        return ".".join((self.family, *self.modifiers))

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def print(self, printer: Printer) -> None:
        print_instruction(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return parse_instruction(cls, parser)

    def verify_(self) -> None:
        word = self.FAMILY.unknown(self.modifiers)
        if word:
            raise VerifyException(f"{self.family} has no modifier `.{word}`")
        _check_indices(self.dst.data, len(self.defs), "result")
        _check_indices(self.src.data, len(self.uses), "use")
        if self.old:
            if [value.type for value in self.old] != [value.type for value in self.defs]:
                raise VerifyException("old values must be of the registers that are defined")
        elif self.defs and (self.guard is not None or self.FAMILY.updates):
            raise VerifyException("needs the old values of the registers that it defines")
        check_targets(self)


def check_targets(op: Instruction) -> None:
    """Values for block arguments must be there, and be of the argument's register."""
    wanted = [arg.type for block in op.successors for arg in block.args]
    if [value.type for value in op.targets] != wanted:
        raise VerifyException("operands for the successors do not fit their arguments")


def target_values(op: Instruction, successor: int) -> tuple[SSAValue, ...]:
    """What `op` passes to the arguments of its successor with this index."""
    start = sum(len(block.args) for block in op.successors[:successor])
    return tuple(op.targets[start : start + len(op.successors[successor].args)])


def registers_of(operand: Attribute) -> Iterator[RegAttr]:
    """The registers in one operand, in source order."""
    if isinstance(operand, RegAttr):
        yield operand
    elif isinstance(operand, VecAttr):
        for part in operand.parts:
            yield from registers_of(part)
    elif isinstance(operand, MemAttr):
        yield from registers_of(operand.base)
        for part in operand.more:
            yield from registers_of(part)


def _check_indices(operands: Sequence[Attribute], count: int, what: str) -> None:
    for operand in operands:
        for register in registers_of(operand):
            if not 0 <= register.index.data < count:
                raise VerifyException(f"there is no {what} {register.index.data}")


_STRINGS: dict[int, tuple[ArrayAttr, tuple[str, ...]]] = {}


def _strings(array: ArrayAttr) -> tuple[str, ...]:
    found = _STRINGS.get(id(array))
    if found is None:
        found = _STRINGS[id(array)] = (
            array,
            tuple(item.data for item in array if isinstance(item, StringAttr)),
        )
    return found[1]


# Families -----------------------------------------------------------------------------------------

FAMILIES: dict[str, type[Instruction]] = {}
"""The op class of a family, by its leading words; aliases included."""
_ALIASES: dict[str, tuple[str, ...]] = {}
InstructionT = TypeVar("InstructionT", bound=type[Instruction])


def instruction(
    *words: str | frozenset[str],
    family: str = "",
    aliases: Mapping[str, str] | None = None,
    **facts: Any,
) -> Callable[[InstructionT], InstructionT]:
    """Class decorator: an op definition whose mnemonics the parser knows.

    `words` are its modifiers, `facts` the fields of `Family`. `aliases` maps other leading words to
    the modifiers that they imply.
    """

    def define(cls: InstructionT) -> InstructionT:
        cls = irdl_op_definition(cls)
        cls.family = family or cls.name.removeprefix("ptx.")
        cls.FAMILY = Family(cls.family, word_set(*words), **facts)
        FAMILIES[cls.family] = cls
        for other, implied in (aliases or {}).items():
            FAMILIES[other] = cls
            _ALIASES[other] = tuple(implied.split())
        return cls

    return define


@dataclass(frozen=True, slots=True)
class Mnemonic:
    """A mnemonic taken apart."""

    op: type[Instruction]
    modifiers: tuple[str, ...]
    spelled: str | None
    """The source text where family and modifiers do not give it back."""


class UnknownMnemonic(Exception):
    """`what` is wrong with it, `hint` what may have been meant."""

    def __init__(self, what: str, hint: str = ""):
        super().__init__(what)
        self.what = what
        self.hint = hint


def take_apart(text: str) -> Mnemonic:
    """The family and modifiers of a mnemonic. Raises UnknownMnemonic."""
    words = text.split(".")
    for count in range(min(len(words), 6), 0, -1):
        head = ".".join(words[:count])
        cls = FAMILIES.get(head)
        if cls is None:
            continue
        implied = _ALIASES.get(head)
        modifiers = (*words[count:], *(implied or ()))
        word = cls.FAMILY.unknown(modifiers)
        if word:
            near = difflib.get_close_matches(word[:60], cls.FAMILY.words, 1, 0.5)
            what = f"`{head}` has no modifier `.{_short(word)}`"
            raise UnknownMnemonic(what, f"near: .{near[0]}" if near else "")
        return Mnemonic(cls, modifiers, None if implied is None else text)
    near: list[str] = []
    for count in range(min(len(words), 4), 0, -1):
        near = near or difflib.get_close_matches(".".join(words[:count])[:60], FAMILIES, 1, 0.75)
    raise UnknownMnemonic(
        f"unknown instruction `{_short(text)}`", f"near: {near[0]}" if near else ""
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
