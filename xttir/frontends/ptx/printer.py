"""The `ptx` dialect to PTX text.

Registers get back the names that their types carry, so no moves are needed; that no two values of
one register are alive at once is checked first. Braces are gone (inner names were made unique),
labels are numbered, and debug information is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xttir.dialects.ptx.control import IMPLICIT, BraOp, BrxIdxOp, CallOp
from xttir.dialects.ptx.function import DeclAttr, DirectiveOp, FuncOp, UndefOp, VariableOp
from xttir.dialects.ptx.instruction import Instruction
from xttir.dialects.ptx.operands import (
    ImmAttr,
    MemAttr,
    RegAttr,
    RegType,
    SpecialAttr,
    SymbolAttr,
    VecAttr,
)
from xttir.frontends.ptx.coherence import check_registers

CARRY = "CC.CF"
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,6})", re.ASCII)


def print_ptx(module: ModuleOp) -> str:
    """PTX text that assembles to the same machine code as the text that `module` was read from.

    Raises Unsupported if a transformation has left two values of one register alive at once.
    """
    lines = _header(module)
    for op in module.ops:
        if isinstance(op, VariableOp):
            lines.append(_variable(op))
        elif isinstance(op, DirectiveOp):
            lines.append(op.text.data)
        elif isinstance(op, FuncOp):
            if op.body.blocks:
                check_registers(op)
            lines += _FunctionPrinter(op).lines()
    return "\n".join(lines) + "\n"


def _header(module: ModuleOp) -> list[str]:
    attributes = module.attributes
    lines = [f".version {_text(attributes['ptx.version'])}"]
    target = attributes.get("ptx.target")
    if isinstance(target, ArrayAttr):
        lines.append(".target " + ", ".join(_text(word) for word in target))
    size = attributes.get("ptx.address_size")
    if size is not None:
        lines.append(f".address_size {size.value.data}")  # type: ignore
    return [*lines, ""]


def _text(attribute: Attribute) -> str:
    return attribute.data  # type: ignore


def _declaration(decl: DeclAttr) -> str:
    words = [f".{decl.space.data}"]
    if decl.align.data and not decl.pointer.data:
        words.append(f".align {decl.align.data}")
    if decl.vector.data > 1:
        words.append(f".v{decl.vector.data}")
    words.append(f".{decl.kind.data}")
    if decl.pointer.data:
        words.append(".ptr")
        words += (
            f".{word}" if not word.isdigit() else word
            for word in decl.pointer.data.split()
            if word != "."
        )
    name = decl.symbol.data
    name += "".join(f"[{length or ''}]" for length in decl.lengths)
    return " ".join([*words, name])


def _variable(op: VariableOp) -> str:
    text = _declaration(op.decl)
    if op.managed is not None:
        space, rest = text.split(" ", 1)
        text = f"{space} .attribute({op.managed.data}) {rest}"
    if op.linking.data:
        text = f".{op.linking.data} {text}"
    if op.init is not None:
        text += f" = {_initial(op.init)}"
    return text + ";"


def _initial(value: Attribute) -> str:
    if isinstance(value, ArrayAttr):
        return "{" + ", ".join(_initial(part) for part in value) + "}"
    if isinstance(value, SymbolAttr):
        text = value.symbol.data
        if value.offset.data:
            text += f"+{value.offset.data}"
        wrapper = value.wrapper.data
        if wrapper.startswith("mask"):
            return f"mask({wrapper.split()[1]})({text})"
        return f"{wrapper}({text})" if wrapper else text
    return _text(value.text)  # type: ignore


class _FunctionPrinter:
    def __init__(self, op: FuncOp):
        self.op = op
        self.labels: dict[Block, str] = {}
        self.tables = 0

    def lines(self) -> list[str]:
        op = self.op
        lines = [self._signature()]
        if not op.body.blocks:
            lines[-1] += ";"
            return lines
        self._name_labels()
        lines.append("{")
        lines += _registers(op)
        for block in op.body.blocks:
            if block in self.labels:
                lines.append(f"{self.labels[block]}:")
            for inner in block.ops:
                lines += (f"\t{line}" for line in self._op(inner))
        lines.append("}")
        return lines

    def _signature(self) -> str:
        op = self.op
        words = [f".{op.linking.data}"] if op.linking.data else []
        words.append(".entry" if op.is_entry else ".func")
        directives = dict(op.directives.data)
        attribute = directives.pop("attribute", None)
        if isinstance(attribute, ArrayAttr):
            words.append(f".attribute({_text(attribute.data[0])})")
        if op.results_attr.data:
            words.append(f"({_list(op.results_attr.data)})")
        words.append(f"{op.sym_name.data}({_list(op.params.data)})")
        lines = [" ".join(words)]
        for name, values in sorted(directives.items()):
            assert isinstance(values, ArrayAttr)
            if name == "pragma":
                lines += (f'.pragma "{_text(value)}";' for value in values)
            else:
                numbers = ", ".join(str(_text(value)) for value in values)
                lines.append(f".{name} {numbers}".rstrip())
        return "\n".join(lines)

    def _name_labels(self) -> None:
        targets: dict[Block, None] = {}
        for block in self.op.body.blocks:
            last = block.last_op
            if isinstance(last, BraOp | BrxIdxOp):
                count = len(last.successors) - (last.guard is not None)
                targets.update(dict.fromkeys(last.successors[:count]))
        prefix = "$L__"
        kept = "\n".join(op.text.data for op in self.op.walk() if isinstance(op, DirectiveOp))
        while prefix in kept:
            prefix += "_"
        for index, block in enumerate(self.op.body.blocks):
            if block in targets:
                self.labels[block] = f"{prefix}{index}"

    def _op(self, op: Operation) -> Iterable[str]:
        if isinstance(op, VariableOp):
            return [_variable(op)]
        if isinstance(op, DirectiveOp):
            return [op.text.data]
        if isinstance(op, (UndefOp, *IMPLICIT)):
            return []
        assert isinstance(op, Instruction)
        lines: list[str] = []
        operands = self._operands(op)
        if isinstance(op, BraOp):
            operands = self.labels[op.successors[0]]
        elif isinstance(op, BrxIdxOp):
            count = len(op.successors) - (op.guard is not None)
            names = ", ".join(self.labels[block] for block in op.successors[:count])
            table = f"$T__{self.tables}"
            self.tables += 1
            lines.append(f"{table}: .branchtargets {names};")
            operands += f", {table}"
        guard = f"@{'!' if op.negated else ''}{_name(op.guard)} " if op.guard is not None else ""
        lines.append(f"{guard}{op.mnemonic} {operands}".rstrip() + ";")
        return lines

    def _operands(self, op: Instruction) -> str:
        dst = [_operand(part, op.defs) for part in op.dst]
        src = [_operand(part, op.uses) for part in op.src]
        dst = [text for text in dst if text != CARRY]
        src = [text for text in src if text != CARRY]
        if isinstance(op, CallOp):
            return _call(dst, src)
        if op.FAMILY.pair and len(dst) == 2:
            dst = ["|".join(dst)]
        return ", ".join([*dst, *src])


def _call(dst: list[str], src: list[str]) -> str:
    parts = [f"({', '.join(dst)})"] if dst else []
    parts.append(src[0])
    if src[1] != "{}" or len(src) > 2 or dst:
        parts.append(f"({src[1][1:-1]})")
    return ", ".join([*parts, *src[2:]])


def _operand(operand: Attribute, values: Iterable[SSAValue]) -> str:
    values = tuple(values)
    if isinstance(operand, RegAttr):
        text = _name(values[operand.index.data])
        if operand.part.data:
            text += f".{operand.part.data}"
        return f"!{text}" if operand.negated.data else text
    if isinstance(operand, ImmAttr):
        return operand.text.data
    if isinstance(operand, SpecialAttr):
        return f"%{operand.register.data}"
    if isinstance(operand, SymbolAttr):
        offset = operand.offset.data
        return operand.symbol.data + (f"+{offset}" if offset else "")
    if isinstance(operand, VecAttr):
        return "{" + ", ".join(_operand(part, values) for part in operand.parts) + "}"
    if isinstance(operand, MemAttr):
        text = _operand(operand.base, values)
        if operand.offset.data:
            text += f"+{operand.offset.data}"
        return "[" + ", ".join([text, *(_operand(part, values) for part in operand.more)]) + "]"
    return "_"


def _list(decls: Iterable[DeclAttr]) -> str:
    return ", ".join(_declaration(decl) for decl in decls)


def _name(value: SSAValue) -> str:
    return value.type.register.data  # type: ignore


def _registers(op: FuncOp) -> list[str]:
    """`.reg` declarations of the registers of a function; `%r<n>` where all of that name agree."""
    parameters = {decl.symbol.data for decl in (*op.params, *op.results_attr)}
    kinds: dict[str, str] = {}
    for block in op.body.blocks:
        values = [*block.args, *(result for inner in block.ops for result in inner.results)]
        for value in values:
            if isinstance(value.type, RegType):
                kinds.setdefault(value.type.register.data, value.type.kind.data)
    ranges: dict[str, tuple[set[str], int]] = {}
    for name, kind in kinds.items():
        match = _NUMBERED.fullmatch(name)
        if match and match.group(1):
            found, most = ranges.get(match.group(1), (set(), 0))
            found.add(kind)
            ranges[match.group(1)] = (found, max(most, int(match.group(2)) + 1))
    lines: list[str] = []
    for prefix, (found, most) in ranges.items():
        if len(found) == 1 and most > 1:
            lines.append(f"\t.reg .{next(iter(found))} {prefix}<{most}>;")
    for name, kind in kinds.items():
        match = _NUMBERED.fullmatch(name)
        ranged = match and match.group(1) and ranges[match.group(1)]
        if ranged and len(ranged[0]) == 1 and ranged[1] > 1:
            continue
        if name != CARRY and name not in parameters:
            lines.append(f"\t.reg .{kind} {name};")
    return lines
