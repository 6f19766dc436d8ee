"""The statements of a PTX function: PTX ISA 9.1, sections 4.3, 5.4, 6 and 7.

Braces are flattened: registers, variables and labels of an inner scope get names of their own. A
branch is bound to its label when the scope that declares the label ends.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute

from xttir.dialects.ptx.function import WIDTHS, VariableOp
from xttir.dialects.ptx.instruction import Mnemonic, UnknownMnemonic, take_apart
from xttir.dialects.ptx.operands import (
    SINK,
    ImmAttr,
    MemAttr,
    RegAttr,
    SpecialAttr,
    SymbolAttr,
    VecAttr,
)
from xttir.frontends.ptx.ast import (
    Body,
    Label,
    Memory,
    Not,
    Operand,
    Part,
    Register,
    Statement,
    Text,
    Vector,
)
from xttir.frontends.ptx.scopes import Names
from xttir.frontends.ptx.specials import SPECIALS

if TYPE_CHECKING:
    from xttir.frontends.ptx.parser import Parser

_VARIABLES = frozenset([".shared", ".local", ".param", ".global", ".const", ".shared::cta"])
_SELECTOR = re.compile(r"[bh][0-7]{1,4}")
_BRANCHES = frozenset(["bra", "brx.idx"])
CARRY = "CC.CF"
_NO_STRING = StringAttr("")
_EMPTY = ArrayAttr([])


class Operands:
    """Operands as attributes, each distinct structure made once."""

    def __init__(self) -> None:
        self._arrays: dict[object, ArrayAttr] = {}
        self._ints: dict[int, IntAttr] = {}
        self._registers: dict[tuple[int, bool, str], RegAttr] = {}
        self._immediates: dict[str, ImmAttr] = {}
        self._kept: dict[str, Attribute] = {}

    def array(self, operands: Sequence[Operand], registers: list[Register]) -> ArrayAttr:
        """`operands` with their registers counted; these are appended to `registers`."""
        if not operands:
            return _EMPTY
        key = tuple([self._key(operand, registers) for operand in operands])
        found = self._arrays.get(key)
        if found is None:
            counter = [len(registers) - _count(operands)]
            found = ArrayAttr([self._attribute(operand, counter) for operand in operands])
            self._arrays[key] = found
        return found

    def _key(self, operand: Operand, registers: list[Register]) -> object:
        if isinstance(operand, Register):
            registers.append(operand)
            return 0
        if isinstance(operand, Attribute):
            return id(operand)
        if isinstance(operand, Vector):
            return tuple([self._key(part, registers) for part in operand.parts])
        if isinstance(operand, Memory):
            base = self._key(operand.base, registers)
            more = [self._key(part, registers) for part in operand.more]
            return ("[", base, operand.offset, *more)
        registers.append(operand.register)
        return "!" if isinstance(operand, Not) else operand.part

    def _attribute(self, operand: Operand, counter: list[int]) -> Attribute:
        if isinstance(operand, Attribute):
            return operand
        if isinstance(operand, Vector):
            return VecAttr(ArrayAttr([self._attribute(part, counter) for part in operand.parts]))
        if isinstance(operand, Memory):
            base = self._attribute(operand.base, counter)
            assert isinstance(base, RegAttr | SymbolAttr | ImmAttr)
            more = ArrayAttr([self._attribute(part, counter) for part in operand.more])
            return MemAttr(base, self.integer(operand.offset), more)
        key = (counter[0], isinstance(operand, Not), getattr(operand, "part", ""))
        counter[0] += 1
        found = self._registers.get(key)
        if found is None:
            found = RegAttr(self.integer(key[0]), self.integer(int(key[1])), StringAttr(key[2]))
            self._registers[key] = found
        return found

    def integer(self, value: int) -> IntAttr:
        found = self._ints.get(value)
        if found is None:
            found = self._ints[value] = IntAttr(value)
        return found

    def immediate(self, text: str) -> ImmAttr:
        found = self._immediates.get(text)
        if found is None:
            found = self._immediates[text] = ImmAttr(StringAttr(text))
        return found

    def symbol(self, name: str, offset: int) -> Attribute:
        key = f"{name}+{offset}"
        found = self._kept.get(key)
        if found is None:
            found = SymbolAttr(StringAttr(name), self.integer(offset), _NO_STRING)
            self._kept[key] = found
        return found

    def special(self, name: str) -> Attribute:
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = SpecialAttr(StringAttr(name[1:]))
        return found


def _count(operands: Sequence[Operand]) -> int:
    total = 0
    for operand in operands:
        if isinstance(operand, Vector):
            total += _count(operand.parts)
        elif isinstance(operand, Memory):
            total += _count([operand.base, *operand.more])
        elif not isinstance(operand, Attribute):
            total += 1
    return total


class BodyParser:
    """Reads one function body into `body`, from behind its opening brace."""

    def __init__(self, parser: Parser, names: Names, body: Body):
        self.parser = parser
        self.stream = parser.stream
        self.places = parser.places
        self.names = names
        self.body = body
        self.operands = parser.operands
        self.mnemonics = parser.mnemonics
        self.variables: list[VariableOp] = []
        self.carry: Register | None = None

    def read(self) -> list[VariableOp]:
        """Fill the body; returns the variables of all its scopes."""
        stream, names = self.stream, self.names
        depth = len(names.scopes) - 1
        while True:
            word = stream.peek()
            first = word[0]
            if first == "." and word not in ("._",):
                self._directive(word)
            elif first == "}":
                stream.take()
                self._leave()
                if len(names.scopes) == depth:
                    break
            elif first == "{":
                stream.take()
                names.enter()
                if len(names.scopes) > 200:
                    raise stream.error("nested too deeply", back=1)
            elif first == ";":
                stream.take()
            elif stream.texts[stream.index + 1] == ":":
                self._label()
            else:
                self._instruction()
        self.body.registers = names.used
        self.places.leave_function()
        return self.variables

    # Directives and labels ------------------------------------------------------------------------

    def _directive(self, word: str) -> None:
        stream = self.stream
        if word == ".loc" or word == ".file":
            self.places.directive(stream)
        elif word == ".reg":
            self._registers()
        elif word in _VARIABLES:
            made = self.parser.variables(self.names)
            self.variables += made
        elif word == ".pragma":
            offset = stream.offsets[stream.index]
            self.body.items.append(Text(stream.statement_text(), self.places.at(offset)))
        else:
            known = [*_VARIABLES, ".reg", ".pragma", ".loc"]
            near = difflib.get_close_matches(word, known, 1)
            hint = f"near: {near[0]}" if near else ""
            raise stream.error(f"expected a statement, found `{word[:60]}`", hint)

    def _registers(self) -> None:
        stream = self.stream
        stream.take()
        elements, kind = 1, ""
        while stream.peek().startswith("."):
            word = stream.take()[1:]
            if word in ("v2", "v4", "v8"):
                elements = int(word[1:])
            elif word in WIDTHS and not kind:
                kind = word
            else:
                near = difflib.get_close_matches(word, WIDTHS, 1)
                hint = f"near: .{near[0]}" if near else ""
                raise stream.error(f"`.{word[:60]}` is no type of a register", hint, back=1)
        scope = self.names.scopes[-1]
        while True:
            name = stream.word("a register")
            if stream.accept("<"):
                count = stream.texts[stream.index]
                if not count.isdecimal() or len(count) > 9:
                    raise stream.error("expected how many registers")
                stream.take()
                stream.expect(">")
                self.names.declare_range(name, int(count), kind, elements)
            elif name in scope.registers:
                raise stream.error(f"`{name[:60]}` is declared twice", back=1)
            else:
                self.names.declare(name, kind, elements)
            if not stream.accept(","):
                break
        if not kind:
            raise stream.error("expected a type such as .b32")
        stream.expect(";")

    def _label(self) -> None:
        stream = self.stream
        offset = stream.offsets[stream.index]
        name = stream.word("a label")
        stream.take()
        scope = self.names.scopes[-1]
        if name in scope.labels or name in scope.jump_tables:
            raise stream.error(f"label `{name[:60]}` is declared twice", back=2)
        following = stream.peek()
        if following == ".branchtargets":
            stream.take()
            targets: list[tuple[str, int]] = []
            while True:
                at = stream.offsets[stream.index]
                targets.append((stream.word("a label"), at))
                if not stream.accept(","):
                    break
            stream.expect(";")
            scope.jump_tables[name] = targets
        elif following in (".callprototype", ".calltargets"):
            text = f"{name}: {stream.statement_text()}"
            self.body.items.append(Text(text, self.places.at(offset)))
            self.names.declare_variable(name, self.parser.code_symbol(name))
        else:
            label = Label(self.names.unique(name), offset)
            scope.labels[name] = label
            self.body.items.append(label)

    def _leave(self) -> None:
        """The end of a scope: bind the branches to its labels, pass the others outwards."""
        scope = self.names.leave()
        outer = self.names.scopes[-1]
        last = len(self.names.scopes) == 1
        for statement, wanted in scope.pending:
            first = wanted[0][0]
            if len(wanted) == 1 and statement.mnemonic.op.family == "brx.idx":
                if first in scope.jump_tables:
                    wanted = scope.jump_tables[first]
                elif not last:
                    outer.pending.append((statement, wanted))
                    continue
            if not last and not all(name in scope.labels for name, _ in wanted):
                outer.pending.append((statement, wanted))
                continue
            for name, offset in wanted:
                label = scope.labels.get(name)
                if label is None:
                    near = difflib.get_close_matches(name, scope.labels, 1)
                    hint = f"near: {near[0]}" if near else ""
                    raise self.parser.source.error(f"no label `{name[:60]}`", offset, hint)
                label.target = True
                statement.labels.append(label)

    # Instructions ---------------------------------------------------------------------------------

    def _instruction(self) -> None:
        stream = self.stream
        texts = stream.texts
        start = stream.index
        guard, negated = None, False
        if texts[start] == "@":
            guard, negated = self._guard()
        at = stream.index
        mnemonic = self._mnemonic()
        family = mnemonic.op.family
        wanted: list[tuple[str, int]] = []
        pair = False
        if family == "call":
            dst, src = self._call()
        elif family == "bra":
            dst, src = [], []
            wanted.append((stream.word("a label"), stream.offsets[stream.index - 1]))
        else:
            operands: list[Operand] = []
            if texts[stream.index] != ";":
                while True:
                    if family == "brx.idx" and operands:
                        wanted.append((stream.word("a label"), stream.offsets[stream.index - 1]))
                    else:
                        operands.append(self.operand())
                    separator = texts[stream.index]
                    if separator == ",":
                        stream.index += 1
                    elif separator == "|" and len(operands) == 1 and mnemonic.op.FAMILY.pair:
                        stream.index += 1
                        pair = True
                    else:
                        break
            count = mnemonic.op.FAMILY.defines + pair
            if count and operands and isinstance(operands[0], Memory):
                count = 0
            dst, src = operands[:count], operands[count:]
        stream.expect(";")
        self._carry(mnemonic, dst, src)
        defs: list[Register] = []
        uses: list[Register] = []
        statement = Statement(
            mnemonic,
            guard,
            negated,
            self.operands.array(dst, defs),
            self.operands.array(src, uses),
            defs,
            uses,
            self.places.at(stream.offsets[start]),
        )
        if defs and (
            guard is not None
            or mnemonic.op.FAMILY.updates
            or any(isinstance(operand, Part) for operand in dst)
        ):
            statement.keeps_old = True
        self._check(statement, dst, at)
        if wanted:
            self.names.scopes[-1].pending.append((statement, wanted))
        self.body.items.append(statement)

    def _guard(self) -> tuple[Register, bool]:
        stream = self.stream
        stream.take()
        negated = stream.accept("!")
        operand = self.operand()
        if not isinstance(operand, Register) or operand.kind != "pred":
            raise stream.error("a guard must be a predicate register", back=1)
        return operand, negated

    def _mnemonic(self) -> Mnemonic:
        stream = self.stream
        at = stream.index
        text = stream.texts[at]
        if stream.at_end:
            raise stream.error("unexpected end of file")
        stream.index += 1
        while stream.texts[stream.index][0] == "." and not stream.at_end:
            text += stream.take()
        found = self.mnemonics.get(text)
        if found is None:
            if not text[0].isalpha():
                raise stream.error(f"expected an instruction, found `{text[:60]}`", at=at)
            try:
                found = self.mnemonics[text] = take_apart(text)
            except UnknownMnemonic as error:
                raise stream.error(error.what, error.hint, at=at) from None
        return found

    def _carry(self, mnemonic: Mnemonic, dst: list[Operand], src: list[Operand]) -> None:
        """The carry flag as an operand."""
        writes = "cc" in mnemonic.modifiers
        reads = mnemonic.op.FAMILY.reads_carry
        if not (writes or reads):
            return
        if self.carry is None:
            self.carry = self.names.new_register(CARRY, "pred")
        if writes:
            dst.append(self.carry)
        if reads:
            src.append(self.carry)

    def _check(self, statement: Statement, dst: list[Operand], at: int) -> None:
        """What is defined must be registers."""
        for operand in dst:
            if isinstance(operand, Register | Part) or operand is SINK:
                continue
            if isinstance(operand, Vector) and all(
                isinstance(part, Register) or part is SINK for part in operand.parts
            ):
                continue
            if statement.mnemonic.op.family == "call" and isinstance(operand, SymbolAttr):
                continue
            what = f"{statement.mnemonic.op.family} needs a register to write to"
            raise self.stream.error(what, at=at)

    def _call(self) -> tuple[list[Operand], list[Operand]]:
        stream = self.stream
        results = self._arguments() if stream.peek() == "(" else []
        if results:
            stream.expect(",")
        src: list[Operand] = [self.operand()]
        if stream.accept(","):
            if stream.peek() == "(":
                src.append(Vector(self._arguments()))
                if stream.accept(","):
                    src.append(self.operand())
            else:
                src += [Vector([]), self.operand()]
        else:
            src.append(Vector([]))
        return results, src

    def _arguments(self) -> list[Operand]:
        stream = self.stream
        stream.expect("(")
        found: list[Operand] = []
        while not stream.accept(")"):
            found.append(self.operand())
            if not stream.accept(","):
                stream.expect(")")
                break
        return found

    # Operands -------------------------------------------------------------------------------------

    def operand(self) -> Operand:
        """One operand."""
        stream = self.stream
        text = stream.texts[stream.index]
        first = text[0]
        if first.isalpha() or first in "%_$":
            return self._name(text)
        if first == "[":
            return self._memory()
        if first == "{":
            return self._vector()
        if first == "!":
            stream.index += 1
            operand = self.operand()
            if not isinstance(operand, Register) or operand.kind != "pred":
                raise stream.error("expected a predicate register after `!`", back=1)
            return Not(operand)
        if first.isdigit() or first in "-+~(":
            return self.operands.immediate(stream.constant())
        raise stream.error(f"expected an operand, found `{text[:60]}`")

    def _name(self, text: str) -> Operand:
        stream, names = self.stream, self.names
        found = names.register(text)
        if found is not None:
            stream.index += 1
            return found if isinstance(found, Register) else Vector(list(found))
        if text == "_":
            stream.index += 1
            return SINK
        if text[0] == "%" and text[1:] in SPECIALS:
            stream.index += 1
            return self.operands.special(text)
        decl = names.variable(text)
        if decl is not None:
            stream.index += 1
            offset = 0
            if stream.texts[stream.index] in ("+", "-"):
                sign = 1 if stream.take() == "+" else -1
                offset = sign * stream.integer()
            return self.operands.symbol(decl.symbol.data, offset)
        if text == "WARP_SZ":
            return self.operands.immediate(stream.constant())
        if "." in text:
            return self._part(text)
        if stream.at_end:
            raise stream.error("unexpected end of file")
        near = difflib.get_close_matches(text[:60], names.known()[:5000], 1, 0.7)
        hint = f"near: {near[0]}" if near else ""
        raise stream.error(f"`{text[:60]}` is not declared", hint)

    def _part(self, text: str) -> Operand:
        """`%v.x` or `%r.b0`."""
        stream = self.stream
        component = self.names.component(text)
        if component is None:
            head, _, tail = text.rpartition(".")
            register = self.names.register(head) if _SELECTOR.fullmatch(tail) else None
            if not isinstance(register, Register):
                raise stream.error(f"`{text[:60]}` is not declared")
            stream.index += 1
            return Part(register, tail)
        stream.index += 1
        return component

    def _vector(self) -> Vector:
        stream = self.stream
        stream.index += 1
        parts: list[Operand] = []
        while not stream.accept("}"):
            if stream.peek() in "{[":
                raise stream.error(f"`{stream.peek()}` inside of a vector")
            parts.append(self.operand())
            if not stream.accept(","):
                stream.expect("}")
                break
        return Vector(parts)

    def _memory(self) -> Memory:
        stream = self.stream
        stream.index += 1
        if stream.peek() == "[":
            raise stream.error("`[` inside of an address")
        base = self.operand()
        offset = 0
        if isinstance(base, SymbolAttr):
            offset = base.offset.data
            base = self.operands.symbol(base.symbol.data, 0)
        elif not isinstance(base, Register | ImmAttr):
            raise stream.error("expected a register or a variable as the address", back=1)
        separator = stream.texts[stream.index]
        if separator == "+" or separator == "-":
            if separator == "+":
                stream.index += 1
            text = stream.peek()
            if (text[0] in "%_$" or text[0].isalpha()) and text != "WARP_SZ":
                raise stream.error("an address is a base and a constant")
            offset += stream.integer()
        more: list[Operand] = []
        while stream.accept(","):
            more.append(self.operand())
        stream.expect("]")
        return Memory(base, offset, more)
