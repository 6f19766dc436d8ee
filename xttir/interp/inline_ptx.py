"""`tt.elementwise_inline_asm`: PTX text parsed once, then run on registers that are arrays.

A register holds one value for each run of `packed_element` elements; elements narrower than 32 bits
share registers as Triton packs them (ElementwiseInlineAsmOpConversion). The instructions are those
of `ptx_scalar` and `ptx_cvt`; anything else raises Unsupported with the instruction's name.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.layouts.placement import integer_attribute
from xttir.dialects.locations import location_of
from xttir.interp import ptx_cvt as ptx_cvt  # registers its instructions
from xttir.interp.attributes import integer
from xttir.interp.memory import Pointer
from xttir.interp.numerics import rearrange
from xttir.interp.numerics.floats import from_f64
from xttir.interp.ptx_scalar import Form, Instruction, decode, encode, find, width_of
from xttir.interp.types import numpy_dtype, shape_of

if TYPE_CHECKING:
    from xttir.interp.machine import Machine

Registers = dict[str, np.ndarray]
Special = Callable[[str], np.ndarray]
"""The value of a special register (`%ctaid.x`), or Unsupported."""

# Text to statements -------------------------------------------------------------------------------

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_GUARD = re.compile(r"@(!?)\s*([\w%$]+)\s+")
_DECLARED = re.compile(r"([\w%$]+)(?:<(\d+)>)?")
_LABEL = re.compile(r"^[\w$%]+\s*:(?!:)")
_CONSTRAINT_BITS = {"c": 8, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64, "q": 128, "b": 1}

# What has no effect on values: time passing and the order of memory accesses.
_NO_EFFECT = ("nanosleep", "membar", "fence", "griddepcontrol", "prefetch")


@dataclass(frozen=True)
class Vector:
    """{a, b, ..}: operands side by side, the lowest bits first."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Immediate:
    """A number: its bits for an integer, or as the float types would read it."""

    value: int | float
    bits: int | None = None


@dataclass(frozen=True)
class Register:
    """A register, special register (%..) or placeholder ($n); `negated` for a predicate !p."""

    name: str
    negated: bool = False


Operand = Register | Immediate | Vector


@dataclass(frozen=True)
class Step:
    """One instruction: where results go, where sources come from, and its guard."""

    entry: Instruction | None
    form: Form
    targets: tuple[Operand | None, ...]
    sources: tuple[Operand, ...]
    guard: Register | None


@dataclass(frozen=True)
class Program:
    """Parsed assembly: `widths` are the bits of declared registers and of placeholders $0, $1 ..

    The first `outputs` of the `operands` placeholders are results.
    """

    steps: tuple[Step, ...]
    widths: dict[str, int]
    outputs: int
    operands: int
    ties: tuple[tuple[int, int], ...]
    """(input placeholder, output placeholder) pairs that are one register."""


def _statements(text: str) -> Iterator[str]:
    """The statements of an assembly text, braces of blocks removed, those of vectors kept."""
    text = _COMMENT.sub(" ", text).replace("$$", "$")
    at = 0
    while at < len(text):
        if text[at].isspace() or text[at] in "{};":
            at += 1
            continue
        end = text.find(";", at)
        end = len(text) if end < 0 else end
        yield " ".join(text[at:end].split())
        at = end + 1


def _split_operands(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for ch in text:
        depth += (ch in "{[") - (ch in "}]")
        if ch == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += ch
    if current.strip():
        parts.append(current.strip())
    return parts


def _immediate(text: str) -> Immediate | None:
    """A PTX number, or None."""
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        raw = int(text[2:], 16)
        return Immediate(struct.unpack("<f", struct.pack("<I", raw))[0], raw)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        raw = int(text[2:], 16)
        return Immediate(struct.unpack("<d", struct.pack("<Q", raw))[0], raw)
    match = re.fullmatch(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?", text)
    if match:
        digits = match[2].lower()
        if re.fullmatch(r"0[0-7]+", digits):
            digits = "0o" + digits[1:]
        value = int(digits, 0)
        return Immediate(-value if match[1] else value)
    if re.fullmatch(r"-?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?", text):
        return Immediate(float(text))
    return None


def _operand(text: str, opcode: str) -> Operand:
    if text.startswith("{") and text.endswith("}"):
        return Vector(tuple(_operand(t, opcode) for t in _split_operands(text[1:-1])))
    if text.startswith("!"):
        return Register(text[1:].strip(), negated=True)
    number = _immediate(text)
    if number is not None:
        return number
    if not re.fullmatch(r"[\w%$.]+", text):
        raise Unsupported(f"operand {text} of PTX instruction {opcode}")
    return Register(text)


def _parse_step(statement: str) -> Step:
    guard = None
    match = _GUARD.match(statement)
    if match:
        guard = Register(match[2], negated=bool(match[1]))
        statement = statement[match.end() :]
    opcode, _, rest = statement.partition(" ")
    operands = _split_operands(rest)
    if opcode.split(".")[0] in _NO_EFFECT:
        return Step(None, Form(opcode, (), ()), (), (), guard)
    if opcode.startswith("mov."):
        form = Form(opcode, (), (opcode.split(".")[-1],))
        target, source = (_operand(t, opcode) for t in operands)
        return Step(None, form, (target,), (source,), guard)
    if ".cc" in opcode or opcode.startswith(("addc.", "subc.", "madc.")):
        # The table has them, with the flag as an operand; here the flag is nobody's operand.
        raise Unsupported(f"PTX instruction {opcode}", hint="the carry flag in inline assembly")
    entry, form = find(opcode)
    if not operands or not form.types:
        raise Unsupported(f"PTX instruction {opcode}")
    names = [t.strip() for t in operands[0].split("|")]
    targets = tuple(None if t == "_" else _operand(t, opcode) for t in names)
    sources = tuple(_operand(t, opcode) for t in operands[1:])
    return Step(entry, form, targets, sources, guard)


def _declare(statement: str, widths: dict[str, int]) -> None:
    """`.reg .b32 a<2>, b;`"""
    match = re.match(r"\.reg\s+(?:\.v\d\s+)?\.(\w+)\s+(.*)", statement)
    if match is None:
        raise Unsupported(f"PTX directive {statement.split()[0]}")
    width = width_of(match[1]) if match[1] != "b128" else 128
    for name, count in _DECLARED.findall(match[2]):
        names = [f"{name}{n}" for n in range(int(count))] if count else [name]
        widths.update(dict.fromkeys(names, width))


@lru_cache(maxsize=512)
def parse(text: str, constraints: str) -> Program:
    """Parse an assembly template and its LLVM constraints. Raises Unsupported."""
    widths: dict[str, int] = {}
    ties: list[tuple[int, int]] = []
    outputs = 0
    items = _operand_constraints(constraints)
    for n, item in enumerate(items):
        code = item.lstrip("=&+")
        outputs += item.startswith("=")
        if code.isdigit():
            ties.append((n, int(code)))
            widths[f"${n}"] = widths[f"${code}"]
        elif code in _CONSTRAINT_BITS:
            widths[f"${n}"] = _CONSTRAINT_BITS[code]
        elif code in ("n", "i"):
            widths[f"${n}"] = 64
        else:
            raise Unsupported(f"inline assembly constraint {item}")
    steps = []
    for statement in _statements(text):
        if statement.startswith("."):
            _declare(statement, widths)
        elif _LABEL.match(statement):
            raise Unsupported("labels and branches in inline assembly")
        else:
            steps.append(_parse_step(statement))
    return Program(tuple(steps), widths, outputs, len(items), tuple(ties))


def _operand_constraints(constraints: str) -> list[str]:
    items = [c.strip() for c in constraints.split(",")]
    return [c for c in items if c and not c.startswith("~")]


# Running ------------------------------------------------------------------------------------------


def _container(bits_: int) -> np.dtype:
    return np.dtype(bool) if bits_ == 1 else np.dtype(f"uint{max(bits_, 8)}")


def _fit(raw: np.ndarray, width: int, signed: bool) -> np.ndarray:
    """Register bits widened (by sign or zeros) or cut to a register of `width` bits."""
    container = _container(width)
    if raw.dtype == container:
        return raw
    if signed and raw.dtype.itemsize < container.itemsize:
        raw = raw.view(f"i{raw.dtype.itemsize}").astype(f"i{container.itemsize}")
        return raw.view(container)
    if container == np.dtype(bool):
        return (raw & 1).astype(bool)
    return raw.astype(container)


class _Run:
    """One execution of a program."""

    def __init__(self, program: Program, registers: Registers, special: Special):
        self.program = program
        self.registers = registers
        self.special = special

    def raw(self, operand: Operand, type_: str) -> np.ndarray:
        """The bits of an operand, at least as wide as `type_` reads."""
        if isinstance(operand, Immediate):
            return self._number(operand, type_)
        if isinstance(operand, Vector):
            part = f"b{width_of(type_) // len(operand.parts)}"
            parts = [_fit(self.raw(p, part), width_of(part), False) for p in operand.parts]
            return self._joined(parts)
        if operand.name.startswith("%") and operand.name not in self.program.widths:
            return self.special(operand.name)
        value = self.registers.get(operand.name)
        if value is None:  # never written: any value would do
            width = self.program.widths.get(operand.name)
            if width is None:
                raise Unsupported(f"register {operand.name} of inline assembly is not declared")
            value = np.zeros(1, _container(width))
        return ~value if operand.negated else value

    def value(self, operand: Operand, type_: str) -> np.ndarray:
        return decode(self.raw(operand, type_), type_)

    def _number(self, number: Immediate, type_: str) -> np.ndarray:
        width = max(width_of(type_), 8)
        if isinstance(number.value, float):
            if type_ in ("f32", "f64", "f16", "bf16", "tf32"):
                return encode(decode_float(number.value, type_), type_)
            if number.bits is None:
                raise Unsupported(f"float {number.value} as operand of type .{type_}")
            return np.array([number.bits & ((1 << width) - 1)], f"uint{width}")
        if type_ in ("f32", "f64"):
            return encode(decode_float(float(number.value), type_), type_)
        return np.array([number.value & ((1 << width) - 1)], f"uint{width}")

    @staticmethod
    def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
        arrays = [np.ascontiguousarray(p) for p in np.broadcast_arrays(*parts)]
        total = sum(a.dtype.itemsize for a in arrays)
        stacked = np.stack(arrays, axis=-1)
        return stacked.view(f"uint{8 * total}")[..., 0]

    def write(self, target: Operand, raw: np.ndarray, signed: bool, guard: Any) -> None:
        """Put register bits into a register, or spread them over a vector of registers."""
        if isinstance(target, Vector):
            self._spread(target, raw, guard)
            return
        if target == Register("_"):
            return
        if not isinstance(target, Register) or target.name not in self.program.widths:
            raise Unsupported(f"result operand {target} of inline assembly")
        value = _fit(raw, self.program.widths[target.name], signed)
        if guard is not None:
            old = self.registers.get(target.name, np.zeros(1, value.dtype))
            value = np.where(guard, value, old)
        self.registers[target.name] = value

    def _spread(self, target: Vector, raw: np.ndarray, guard: Any) -> None:
        width = 8 * raw.dtype.itemsize // len(target.parts)
        parts = np.ascontiguousarray(raw)[..., np.newaxis].view(f"uint{width}")
        for n, part in enumerate(target.parts):
            if part != Register("_"):
                self.write(part, parts[..., n], False, guard)

    def step(self, step: Step) -> None:
        guard = None if step.guard is None else self.value(step.guard, "pred")
        if step.entry is None:
            if step.targets:
                self._move(step, guard)
            return
        form, entry = step.form, step.entry
        types = list(entry.sources(form))
        types += types[-1:] * (len(step.sources) - len(types))
        values = [self.value(s, t) for s, t in zip(step.sources, types, strict=False)]
        results = entry.run(form, *values)
        if not isinstance(results, tuple):
            results = (results,)
        for target, value, type_ in zip(step.targets, results, entry.results(form), strict=False):
            if target is not None:
                self.write(target, encode(value, type_), type_.startswith("s"), guard)

    def _move(self, step: Step, guard: Any) -> None:
        (target,), (source,) = step.targets, step.sources
        if target is None:
            return
        raw = self.raw(source, step.form.type)
        if isinstance(target, Vector):
            raw = _fit(raw, width_of(step.form.type), False)
        self.write(target, raw, False, guard)


def decode_float(value: float, type_: str) -> np.ndarray:
    """A float constant in a type, rounded once."""
    return from_f64(np.array([value]), decode(np.zeros(1, np.uint64), type_).dtype)


def run(program: Program, inputs: Sequence[np.ndarray], special: Special) -> list[np.ndarray]:
    """The bits of the outputs. `inputs`: unsigned bits for the input placeholders, in order."""
    registers: Registers = {}
    for n, raw in enumerate(inputs, start=program.outputs):
        registers[f"${n}"] = _fit(raw, program.widths[f"${n}"], False)
    for inner, outer in program.ties:
        registers[f"${outer}"] = registers[f"${inner}"]
    execution = _Run(program, registers, special)
    for step in program.steps:
        execution.step(step)
    return [execution.raw(Register(f"${n}"), "b32") for n in range(program.outputs)]


# Elements and registers ---------------------------------------------------------------------------


def _element_bits(a: np.ndarray) -> np.ndarray:
    """Elements as unsigned integers of their width; i1 as uint8."""
    return a.astype(np.uint8) if a.dtype == bool else a.view(f"u{a.dtype.itemsize}")


def pack_elements(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The elements of a run as registers: narrow ones side by side in 32 bits, lowest first."""
    raw = [_element_bits(p) for p in parts]
    size = raw[0].dtype.itemsize
    each = min(max(4 // size, 1), len(raw))
    if each == 1:
        return raw
    groups = [raw[k : k + each] for k in range(0, len(raw), each)]
    return [np.stack(g, axis=-1).view(f"u{size * each}")[..., 0] for g in groups]


def unpack_elements(
    registers: Sequence[np.ndarray], dtype: np.dtype, pack: int
) -> list[np.ndarray]:
    """The inverse of `pack_elements` for a result of `pack` elements of `dtype`."""
    size = 1 if dtype == np.bool_ else dtype.itemsize
    each = min(max(4 // size, 1), pack)
    parts = []
    for register in registers:
        raw = register.astype(f"u{size * each}")
        lanes = np.ascontiguousarray(raw)[..., np.newaxis].view(f"u{size}")
        for k in range(each):
            lane = lanes[..., k]
            parts.append((lane & 1).astype(bool) if dtype == np.bool_ else lane.view(dtype))
    return parts


def registers_of(dtype: np.dtype, pack: int) -> int:
    """How many registers `pack` elements of `dtype` take."""
    size = 1 if dtype == np.bool_ else dtype.itemsize
    return math.ceil(pack / min(max(4 // size, 1), pack))


def apply(
    program: Program,
    args: Sequence[np.ndarray],
    results: Sequence[np.dtype],
    shape: tuple[int, ...],
    pack: int,
    special: Special,
) -> list[np.ndarray]:
    """Run the program on every run of `pack` elements of `args` (b, *shape), in memory order.

    Alone (pack 1) elements may keep size-1 dims; the results then have them too. `special` gives
    arrays (b,).
    """
    if pack == 1:
        groups, inner = [[a] for a in args], (1,) * len(shape)
    else:
        groups = [rearrange.packs(a, shape, pack) for a in args]
        inner = (math.ceil(math.prod(shape) / pack),)
    inputs = [r for g in groups for r in pack_elements(g)]
    needed = sum(registers_of(d, pack) for d in results)
    if (program.outputs, program.operands) != (needed, needed + len(inputs)):
        raise Unsupported("inline assembly whose constraints do not fit its operands")

    def per_program(name: str) -> np.ndarray:
        value = special(name)
        return value.reshape(value.shape + (1,) * len(inner))

    outputs = iter(run(program, inputs, per_program))
    found = []
    for dtype in results:
        registers = [next(outputs) for _ in range(registers_of(dtype, pack))]
        parts = [
            np.broadcast_to(p, np.broadcast_shapes(p.shape, (1, *inner)))
            for p in unpack_elements(registers, dtype, pack)
        ]
        found.append(parts[0] if pack == 1 else rearrange.unpack(parts[:pack], shape))
    return found


# The op -------------------------------------------------------------------------------------------

_clock = itertools.count(1)


def special_register(interp: Machine, name: str) -> np.ndarray:
    """Special registers that an element can read without knowing its thread.

    Clocks count the reads so far, and so never stand still; there is one multiprocessor, number 0.
    """
    base, _, axis = name.lstrip("%").partition(".")
    if base == "ctaid" and axis in ("x", "y", "z"):
        return interp.program_id("xyz".index(axis)).view(np.uint32)
    if base == "nctaid" and axis in ("x", "y", "z"):
        return np.array([interp.grid["xyz".index(axis)]], np.uint32)
    if base in ("clock", "clock64", "globaltimer", "globaltimer_lo"):
        return np.array([next(_clock)], np.uint64)
    if base in ("clock_hi", "globaltimer_hi", "smid"):
        return np.zeros(1, np.uint64)
    if base == "nsmid":
        return np.ones(1, np.uint32)
    if "cluster" in base and (integer_attribute(interp.module, "ttg.num-ctas") or 1) == 1:
        # A cluster of one block.
        if base in ("cluster_ctarank", "cluster_ctaid"):
            return np.zeros(1, np.uint32)
        if base in ("cluster_nctarank", "cluster_nctaid"):
            return np.ones(1, np.uint32)
        if base in ("clusterid", "nclusterid"):
            return special_register(interp, f"%{base.replace('cluster', 'cta')}.{axis}")
    raise Unsupported(f"special register {name} in inline assembly")


def _array(value: Any) -> np.ndarray:
    return value.addresses() if isinstance(value, Pointer) else value


@register_impls
class InlineAsmFunctions(InterpreterFunctions):
    """Implementation of `tt.elementwise_inline_asm`."""

    @impl(tt.ElementwiseInlineAsmOp)
    def run_inline_asm(
        self, interp: Any, op: tt.ElementwiseInlineAsmOp, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        typed = [*op.result, *op.args]
        shape = shape_of(typed[0].type) if typed else ()
        try:
            return tuple(
                apply(
                    parse(op.asm_string.data, op.constraints.data),
                    [_array(a) for a in args],
                    [numpy_dtype(r.type) for r in op.result],
                    shape,
                    integer(op.packed_element),
                    lambda name: special_register(interp, name),
                )
            )
        except Unsupported as error:
            raise Unsupported(error.what, location_of(op), error.hint) from None
