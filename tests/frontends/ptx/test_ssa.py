"""SSA against the plain meaning of the text: registers in a dictionary, statement by statement."""

from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.ir import Block, SSAValue

from tests.frontends.ptx.conftest import function
from xttir.dialects.ptx import control
from xttir.dialects.ptx.function import DirectiveOp, FuncOp, UndefOp
from xttir.dialects.ptx.instruction import Instruction, target_values
from xttir.dialects.ptx.operands import ImmAttr, RegAttr
from xttir.frontends.ptx import parse_ptx, print_ptx

REGISTERS, STEPS, MASK = 6, 120, 2**32 - 1


class Random:
    """A program of numbered statements; `text` is its PTX."""

    def __init__(self, seed: int):
        self.rng = rng = random.Random(seed)
        self.length = rng.randint(3, 25)
        self.statements: list[tuple[Any, ...]] = []
        for _ in range(self.length):
            guard = rng.choice([None, None, (rng.randrange(3), rng.random() < 0.5)])
            kind = rng.random()
            a, b, c = (rng.randrange(REGISTERS) for _ in range(3))
            if kind < 0.4:
                self.statements.append(("add", guard, a, b, c))
            elif kind < 0.55:
                self.statements.append(("mov", guard, a, rng.randrange(5)))
            elif kind < 0.7:
                self.statements.append(("setp", guard, rng.randrange(3), a, b))
            elif kind < 0.8:
                self.statements.append(("st", guard, a, None))
            elif kind < 0.97:
                self.statements.append(("bra", guard, rng.randrange(self.length + 1), None))
            else:
                self.statements.append(("ret", guard, None, None))

    @property
    def text(self) -> str:
        lines = [".version 8.7", ".target sm_90", ".address_size 64", ".visible .entry k() {"]
        lines += [f".reg .b32 r<{REGISTERS}>; .reg .pred p<3>;"]
        lines += [f"mov.u32 r{i}, {i};" for i in range(3)] + ["setp.lt.u32 p0, r0, r1;"]
        for i, statement in enumerate(self.statements):
            lines.append(f"L{i}: {self._line(statement)}")
        return "\n".join([*lines, f"L{self.length}: ret;", "}"])

    @staticmethod
    def _line(statement: tuple[Any, ...]) -> str:
        op, guard, *rest = statement
        prefix = "" if guard is None else f"@{'!' if guard[1] else ''}p{guard[0]} "
        body = {
            "add": "add.u32 r{0}, r{1}, r{2};",
            "mov": "mov.u32 r{0}, {1};",
            "setp": "setp.lt.u32 p{0}, r{1}, r{2};",
            "st": "st.global.u32 [r{0}], r{0};",
            "bra": "bra L{0};",
            "ret": "ret;",
        }[op]
        return prefix + body.format(*rest)

    def run(self) -> list[int]:
        """The values stored, by the plain meaning; registers begin as 0."""
        regs = {f"r{i}": i if i < 3 else 0 for i in range(REGISTERS)}
        preds = {0: True, 1: False, 2: False}
        stored: list[int] = []
        at = 0
        for _ in range(STEPS):
            if at >= self.length:
                break
            op, guard, *rest = self.statements[at]
            at += 1
            if guard is not None and preds[guard[0]] == guard[1]:
                continue
            if op == "add":
                regs[f"r{rest[0]}"] = (regs[f"r{rest[1]}"] + regs[f"r{rest[2]}"]) & MASK
            elif op == "mov":
                regs[f"r{rest[0]}"] = rest[1]
            elif op == "setp":
                preds[rest[0]] = regs[f"r{rest[1]}"] < regs[f"r{rest[2]}"]
            elif op == "st":
                stored.append(regs[f"r{rest[0]}"])
            elif op == "bra":
                at = rest[0]
            else:
                break
        return stored


def run_ssa(func: FuncOp, steps: int) -> list[int]:
    """The values stored, by SSA values alone; no register's name is looked at."""
    env: dict[SSAValue, int] = {}
    stored: list[int] = []
    block: Block | None = func.body.blocks[0]
    done = -4
    while block is not None:
        following: Block | None = None
        for op in block.ops:
            if isinstance(op, UndefOp):
                env[op.results[0]] = 0
                continue
            if isinstance(op, DirectiveOp):
                continue
            assert isinstance(op, Instruction)
            if not isinstance(op, control.IMPLICIT):
                done += 1
                if done > steps:
                    return stored
            on = op.guard is None or bool(env[op.guard]) != (op.negated is not None)
            if isinstance(op, control.Terminator):
                following = _follow(op, on, env)
            elif not on:
                for result, old in zip(op.defs, op.old, strict=True):
                    env[result] = env[old]
            elif op.family == "st":
                stored.append(env[op.uses[0]])
            else:
                a, b = [*(_value(x, op, env) for x in op.src), 0][:2]
                results = {"mov": a, "add": (a + b) & MASK, "setp": int(a < b)}
                env[op.defs[0]] = results[op.family]
        block = following
    return stored


def _value(operand: Any, op: Instruction, env: dict[SSAValue, int]) -> int:
    if isinstance(operand, ImmAttr):
        return int(operand.value)
    assert isinstance(operand, RegAttr)
    return env[op.uses[operand.index.data]]


def _follow(op: control.Terminator, on: bool, env: dict[SSAValue, int]) -> Block | None:
    if isinstance(op, control.RetOp | control.EndOp):
        taken = 0 if not on else -1
    else:
        taken = 0 if on else 1
    if taken < 0:
        return None
    target = op.successors[taken]
    values = [env[value] for value in target_values(op, taken)]
    env.update(zip(target.args, values, strict=True))
    return target


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_values_are_those_of_the_registers(start: int) -> None:
    for seed in range(start, start + 40):
        program = Random(seed)
        module = parse_ptx(program.text)
        module.verify()
        expected = program.run()
        assert run_ssa(function(module), STEPS) == expected, program.text
        printed = print_ptx(module)
        assert run_ssa(function(parse_ptx(printed)), STEPS) == expected, printed


def test_many_blocks_cost_no_more_than_their_number() -> None:
    """A chain of diamonds that all use early values: arguments only where values meet."""
    lines = [".version 8.7", ".target sm_90", ".visible .entry k() {", ".reg .pred p<2>;"]
    lines += [".reg .b32 r<9>;", "mov.u32 r0, 1;", "mov.u32 r1, 2;", "setp.eq.u32 p0, r0, r1;"]
    for i in range(2000):
        lines += [f"@p0 bra A{i};", "add.u32 r0, r0, r1;", f"A{i}: add.u32 r2, r0, r1;"]
    module = parse_ptx("\n".join([*lines, "ret;", "}"]))
    assert sum(len(block.args) for block in function(module).body.blocks) == 2000
