"""An instruction as a line of PTX, for reports."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction
from xttir.dialects.ptx.operands import (
    ImmAttr,
    MemAttr,
    RegAttr,
    RegType,
    SinkAttr,
    SpecialAttr,
    SymbolAttr,
    VecAttr,
)


def text_of(op: Instruction) -> str:
    """`@%p1 ld.global.u32 %r1, [%rd2+4]`."""
    guard = ""
    if op.guard is not None:
        guard = f"@{'!' if op.negated is not None else ''}{_name(op.guard)} "
    operands = [_operand(a, op.defs) for a in op.dst] + [_operand(a, op.uses) for a in op.src]
    return f"{guard}{op.mnemonic} {', '.join(operands)}".rstrip()


def _name(value: object) -> str:
    type_ = value.type  # type: ignore[attr-defined]
    return type_.register.data if isinstance(type_, RegType) else "?"


def _operand(attr: object, values: object) -> str:
    match attr:
        case RegAttr():
            sign = "!" if attr.negated.data else ""
            return sign + _name(values[attr.index.data])  # type: ignore[index]
        case ImmAttr():
            return attr.text.data
        case SpecialAttr():
            return f"%{attr.register.data}"
        case SymbolAttr():
            return attr.symbol.data + (f"+{attr.offset.data}" if attr.offset.data else "")
        case VecAttr():
            return "{" + ", ".join(_operand(p, values) for p in attr.parts) + "}"
        case MemAttr():
            base = _operand(attr.base, values)
            offset = attr.offset.data
            inner = base + (f"{offset:+d}" if offset else "")
            return "[" + ", ".join([inner, *(_operand(p, values) for p in attr.more)]) + "]"
        case SinkAttr():
            return "_"
    return str(attr)
