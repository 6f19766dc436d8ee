"""From the ops of the `ptx` dialect to instructions with slots: one kernel, its calls inlined.

A register is a slot: SSA values that carry the same register's name share it, so block arguments
need no moves. A call becomes the callee's blocks with registers and variables of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from xttir.analyses.events import Source
from xttir.diagnostics import InputError, Location, Unsupported
from xttir.dialects.locations import locations_of
from xttir.dialects.ptx import control
from xttir.dialects.ptx.function import DeclAttr, DirectiveOp, FuncOp, UndefOp, VariableOp
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
from xttir.interp.ptx.instruction import (
    Imm,
    Ins,
    Mem,
    Operand,
    Reg,
    Sink,
    Special,
    Symbol,
    Vec,
)
from xttir.interp.ptx.text import text_of
from xttir.interp.ptx.wellformed import misfit

MAX_INLINED = 200_000
"""Instructions after inlining; more is recursion or worse."""


@dataclass(slots=True)
class Ending:
    """How a block ends. `kind`: "goto", "branch" (first target if the guard holds, else the
    second), "index" (the target that `index` says) or "exit"."""

    kind: str
    targets: list[int] = field(default_factory=list)
    guard: Reg | None = None
    index: int = -1
    """Into `Trace.instructions`."""


@dataclass(slots=True)
class RawBlock:
    instructions: list[Ins] = field(default_factory=list)
    ending: Ending = field(default_factory=lambda: Ending("exit"))


@dataclass(slots=True)
class Body:
    blocks: list[RawBlock] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Variable:
    """`space`: shared, global, const, local or param (of the kernel). `size` 0: dynamic."""

    name: str
    space: str
    size: int
    align: int
    decl: DeclAttr
    init: Any = None


@dataclass(slots=True)
class Kernel:
    """An entry: `params` in order, `variables` by name."""

    name: str
    arch: int
    body: Body
    params: list[Variable]
    variables: dict[str, Variable]
    kinds: list[str]
    """The type of every slot."""
    sources: list[Source]
    function: FuncOp


def entries(module: ModuleOp) -> list[str]:
    """The names of the kernels in a module."""
    return [op.sym_name.data for op in module.ops if isinstance(op, FuncOp) and op.is_entry]


def read_kernel(module: ModuleOp, name: str) -> Kernel:
    """The kernel `name`. Raises InputError when there is none."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    function = functions.get(name)
    if function is None or not function.is_entry:
        known = ", ".join(entries(module)) or "none"
        raise InputError(f"no kernel `{name}`", hint=f"kernels of the module: {known}")
    return _Reader(module, functions).kernel(function)


class _Reader:
    def __init__(self, module: ModuleOp, functions: dict[str, FuncOp]):
        self.module = module
        self.functions = functions
        self.sources: list[Source] = []
        self.blocks: list[RawBlock] = []
        self.slots: dict[str, int] = {}
        self.kinds: list[str] = []
        self.variables: dict[str, Variable] = {}
        self.instances = 0

    def kernel(self, function: FuncOp) -> Kernel:
        for op in self.module.ops:
            if isinstance(op, VariableOp):
                self._variable(op, op.sym_name.data)
        params = []
        for decl in function.params:
            size = decl.bytes
            params.append(Variable(decl.symbol.data, "param", size, decl.alignment, decl))
        for param in params:
            self.variables[param.name] = param
        if not function.body.blocks:
            raise InputError(f"kernel `{function.sym_name.data}` has no body")
        self.blocks.append(RawBlock())
        self._function(function, "", {}, 0, None, ())
        return Kernel(
            function.sym_name.data,
            _arch(self.module),
            Body(self.blocks),
            params,
            self.variables,
            self.kinds,
            self.sources,
            function,
        )

    def _variable(self, op: VariableOp, name: str) -> None:
        decl = op.decl
        self.variables[name] = Variable(
            name, decl.space.data, decl.bytes, decl.alignment, decl, op.init
        )

    def _function(
        self,
        function: FuncOp,
        prefix: str,
        names: dict[str, str],
        start: int,
        after: int | None,
        callers: tuple[str, ...],
    ) -> None:
        """Append the blocks of `function`, the first as `start`; a return goes to `after`."""
        if function.sym_name.data in callers:
            raise Unsupported(f"recursive call of {function.sym_name.data}", _place(function))
        callers = (*callers, function.sym_name.data)
        names = dict(names)
        blocks = list(function.body.blocks)
        number = {blocks[0]: start}
        for block in blocks[1:]:
            number[block] = len(self.blocks)
            self.blocks.append(RawBlock())
        reader = _Scope(self, prefix, names)
        for block in blocks:
            at = self.blocks[number[block]]
            for op in block.ops:
                if isinstance(op, VariableOp):
                    local = prefix + op.sym_name.data
                    if prefix:
                        names[op.sym_name.data] = local
                    space = op.decl.space.data
                    self._variable(op, local)
                    if space == "param":
                        self._as_local(local)
                elif isinstance(op, control.Terminator):
                    at.ending = reader.ending(op, number, after)
                elif isinstance(op, control.CallOp):
                    at = self._call(op, reader, at, callers)
                elif not isinstance(op, UndefOp | DirectiveOp):
                    at.instructions.append(reader.instruction(op))

    def _as_local(self, name: str) -> None:
        v = self.variables[name]
        self.variables[name] = Variable(name, "local", v.size, v.align, v.decl)

    def _call(
        self, op: control.CallOp, scope: _Scope, at: RawBlock, callers: tuple[str, ...]
    ) -> RawBlock:
        """Inline a call; the block that goes on after it."""
        target = op.src.data[0]
        callee = self.functions.get(target.symbol.data) if isinstance(target, SymbolAttr) else None
        if callee is None or not callee.body.blocks or op.guard is not None:
            ins = scope.instruction(op)
            ins.name = "call"
            at.instructions.append(ins)
            return at
        if len(self.sources) > MAX_INLINED:
            raise Unsupported("a call tree this large", _place(op))
        given = op.src.data[1] if len(op.src.data) > 1 else None
        arguments = given.parts.data if isinstance(given, VecAttr) else ()
        self.instances += 1
        prefix = f"{callee.sym_name.data}.{self.instances}."
        names = {}
        for decls, values in (
            (callee.results_attr.data, op.dst.data),
            (callee.params.data, arguments),
        ):
            for decl, value in zip(decls, values, strict=False):
                names[decl.symbol.data] = self._argument(scope, decl, value, prefix, op)
        start = len(self.blocks)
        self.blocks.append(RawBlock())
        after = len(self.blocks)
        self.blocks.append(RawBlock())
        at.ending = Ending("goto", [start])
        self._function(callee, prefix, names, start, after, callers)
        # What followed the call goes on in the block after it, ending included.
        return self.blocks[after]

    def _argument(
        self, scope: _Scope, decl: DeclAttr, value: Attribute, prefix: str, op: Operation
    ) -> str:
        if isinstance(value, SymbolAttr):
            return scope.names.get(value.symbol.data, value.symbol.data)
        raise Unsupported(f"argument of {decl.symbol.data} that is not a .param", _place(op))


class _Scope:
    """Converts the ops of one (inlined) function."""

    def __init__(self, reader: _Reader, prefix: str, names: dict[str, str]):
        self.reader = reader
        self.prefix = prefix
        self.names = names
        self.regs: dict[tuple[Attribute, bool], Reg] = {}

    def reg(self, value: SSAValue, negated: bool = False) -> Reg:
        type_ = value.type
        assert isinstance(type_, RegType)
        found = self.regs.get((type_, negated))
        if found is None:
            name = self.prefix + type_.register.data
            slots = self.reader.slots
            kind = _KINDS.get(type_.kind.data, type_.kind.data)
            slot = slots.get(name)
            if slot is None:
                slot = slots[name] = len(slots)
                self.reader.kinds.append(kind)
            found = self.regs[type_, negated] = Reg(slot, kind, type_.register.data, negated)
        return found

    def operand(self, attr: Attribute, values: Sequence[SSAValue]) -> Operand:
        match attr:
            case RegAttr():
                if attr.part.data:
                    raise Unsupported(f"operand with the selector .{attr.part.data}")
                return self.reg(values[attr.index.data], bool(attr.negated.data))
            case ImmAttr():
                return Imm(attr.value, attr.text.data)
            case SpecialAttr():
                return Special(attr.register.data)
            case SymbolAttr():
                name = attr.symbol.data
                return Symbol(self.names.get(name, name), attr.offset.data)
            case VecAttr():
                return Vec(tuple(self.operand(p, values) for p in attr.parts))
            case MemAttr():
                base = self.operand(attr.base, values)
                assert isinstance(base, Reg | Symbol | Imm)
                more = tuple(self.operand(p, values) for p in attr.more)
                # Addresses wrap at 64 bits.
                offset = (attr.offset.data + (1 << 63)) % (1 << 64) - (1 << 63)
                return Mem(base, offset, more)
            case SinkAttr():
                return Sink()
        raise Unsupported(f"operand {attr}")

    def instruction(self, op: Operation) -> Ins:
        if not isinstance(op, Instruction):
            raise Unsupported(f"op {op.name}", _place(op))
        try:
            dst = tuple(self.operand(a, op.defs) for a in op.dst)
            src = tuple(self.operand(a, op.uses) for a in op.src)
        except Unsupported as error:
            raise Unsupported(error.what, _place(op), error.hint) from None
        wrong = misfit(op.family, op.modifiers, dst, src)
        if wrong:
            raise InputError(wrong, _place(op))
        guard = None if op.guard is None else self.reg(op.guard, op.negated is not None)
        ins = Ins(self.source(op), op.family, op.modifiers, dst, src, guard, op)
        if op.FAMILY.updates:
            ins.cache["updates"] = True
        return ins

    def source(self, op: Instruction) -> int:
        sources = self.reader.sources
        sources.append(Source(text_of(op), locations_of(op)))
        return len(sources) - 1

    def ending(self, op: control.Terminator, number: dict[Any, int], after: int | None) -> Ending:
        targets = [number[block] for block in op.successors]
        guard = None if op.guard is None else self.reg(op.guard, op.negated is not None)
        index = self.source(op)
        if isinstance(op, control.BraOp):
            return Ending("goto" if guard is None else "branch", targets, guard, index)
        if isinstance(op, control.FallthroughOp):
            return Ending("goto", targets, None, index)
        if isinstance(op, control.BrxIdxOp):
            if guard is not None:
                raise Unsupported("guarded brx.idx", _place(op))
            source = self.operand(op.src.data[0], op.uses)
            assert isinstance(source, Reg)
            return Ending("index", targets, source, index)
        leave = self._leave(op, after, index)
        if guard is None:
            if leave is None:
                return Ending("exit", [], None, index)
            return Ending("goto", [leave], None, index)
        if leave is None:
            leave = len(self.reader.blocks)
            self.reader.blocks.append(RawBlock(ending=Ending("exit", [], None, index)))
        return Ending("branch", [leave, *targets], guard, index)

    @staticmethod
    def _leave(op: control.Terminator, after: int | None, index: int) -> int | None:
        return None if isinstance(op, control.ExitOp) else after


_KINDS = {
    **{f"{k}{n}": f"b{n}" for k in "su" for n in (8, 16, 32, 64)},
    **{"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "f32": "b32", "f64": "b64"},
}
"""Registers hold raw bits: the type by width alone."""


def _place(op: Operation) -> Location | None:
    places = locations_of(op)
    return places[0] if places else None


def _arch(module: ModuleOp) -> int:
    """Compute capability times 10 of the module's target: 90 for sm_90a."""
    target = module.attributes.get("ptx.target")
    text = str(target)
    digits = "".join(c for c in text.split("sm_")[-1][:4] if c.isdigit())
    return int(digits) if digits else 0
