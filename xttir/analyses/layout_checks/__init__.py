"""Static checks of layouts: what each op's types promise against what its lowering does.

Once per signature of an op (its name, types and parameters). See `registers` and `memory` for the
rules. An op whose layouts have no meaning here (`gluon.auto_encoding`) is counted as not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, NoneAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from xttir.analyses.layout_checks import memory, registers
from xttir.analyses.layout_checks.finding import Finding
from xttir.analyses.passes import Refuted
from xttir.diagnostics import Fault, Kind, Unsupported
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.locations import locations_of
from xttir.dialects.tt.traits import Elementwise, SameEncoding
from xttir.dialects.ttg.types import MemDescType

Check = Callable[[Operation], "Finding | None"]

USED = ("order", "axis", "offsets", "allow_reorder")
"""Names of the attributes that judgements hang on."""


@dataclass
class LayoutReport:
    """What was found, and how many ops were not judged, by the reason."""

    faults: list[Fault] = field(default_factory=list)
    judged: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)


def check_layouts(module: ModuleOp) -> LayoutReport:
    """Judge every op of `module` that has a layout in its types."""
    report = LayoutReport()
    kernel = ""
    for op in module.walk():
        if op.name == "tt.func":
            kernel = op.properties["sym_name"].data  # pyright: ignore
        found = _known(op)
        if found is NO_LAYOUT:
            continue
        if isinstance(found, Unsupported):
            report.unjudged[found.what] += 1
            continue
        report.judged += 1
        if isinstance(found, Finding):
            report.faults.append(
                Fault(
                    Kind.MISMATCH,
                    found.message,
                    kernel=kernel,
                    locations=locations_of(op),
                    notes=found.notes,
                    hint=found.hint,
                    witness={"op": op.name},
                )
            )
    return report


NO_LAYOUT = "no layout"
_Judgement = Finding | Unsupported | str | None
_seen: dict[tuple[Any, ...], tuple[list[Attribute], _Judgement]] = {}
"""Judgements by the identity of what they hang on, which is kept so that it stays its own: modules
share their types, and telling equal ones apart costs more than a look at most ops."""
_MANY = 1 << 14


def _known(op: Operation) -> _Judgement:
    """What is to be said of one op: see `check_op`."""
    used = [
        (n, a) for given in (op.attributes, op.properties) for n, a in given.items() if n in USED
    ]
    parts = [*_types(op), *(attribute for _, attribute in used)]
    key = (op.name, len(op.results), *(name for name, _ in used), *map(id, parts))
    known = _seen.get(key)
    if known is None:
        if len(_seen) >= _MANY:
            _seen.clear()
        known = _seen[key] = parts, _judgement(op)
    return known[1]


def _judgement(op: Operation) -> _Judgement:
    if not any(_has_layout(type_) for type_ in _types(op)):
        return NO_LAYOUT
    try:
        return check_op(op)
    except Unsupported as error:
        return error


def check_op(op: Operation) -> Finding | None:
    """What is wrong with the layouts of one op. Unsupported if some layout has no meaning here."""
    return _judge(Signature.of(op))


@dataclass(frozen=True)
class Signature:
    """What the layouts of an op depend on."""

    name: str
    operands: tuple[Attribute, ...]
    results: tuple[Attribute, ...]
    lanewise: bool
    """Each lane works on what it holds."""
    parameters: tuple[tuple[str, Attribute], ...] = ()

    @staticmethod
    def of(op: Operation) -> Signature:
        given = {**op.attributes, **op.properties}
        parameters = tuple((name, given[name]) for name in USED if name in given)
        return Signature(
            op.name,
            tuple(operand.type for operand in op.operands),
            tuple(result.type for result in op.results),
            op.name in LANEWISE or op.name.startswith(("arith.", "math.")) or _has_trait(op),
            parameters,
        )

    def number(self, name: str) -> int:
        value = dict(self.parameters)[name]
        assert isinstance(value, IntegerAttr)
        return value.value.data

    def numbers(self, name: str) -> tuple[int, ...]:
        value = dict(self.parameters)[name]
        assert isinstance(value, DenseArrayBase)
        return tuple(int(v) for v in value.get_values())


def _has_trait(op: Operation) -> bool:
    return op.has_trait(Elementwise()) or op.has_trait(SameEncoding())


LANEWISE = frozenset(
    (
        "tt.load",
        "tt.store",
        "tt.atomic_rmw",
        "tt.atomic_cas",
        "tt.atomic_load",
        "tt.atomic_store",
        "tt.scan",
        "tt.map_elementwise",
        "ttg.async_copy_global_to_local",
        "ttng.packed_arith",
    )
)
"""Ops besides elementwise ones whose tensors of one shape are taken lane by lane."""


def _types(op: Operation) -> Sequence[Attribute]:
    return [v.type for v in (*op.operands, *op.results)]


def _has_layout(type_: Attribute) -> bool:
    if isinstance(type_, TensorType):
        return not isinstance(type_.encoding, NoneAttr)
    return isinstance(type_, MemDescType)


@lru_cache(maxsize=1 << 14)
def _judge(op: Signature) -> Finding | None:
    try:
        for type_ in (*op.operands, *op.results):
            found = _covered(type_)
            if found is not None:
                return found
        rule = RULES.get(op.name)
        if rule is not None:
            return rule(op)
        if op.lanewise:
            tensors = [
                type_
                for type_ in (*op.operands, *op.results)
                if isinstance(type_, TensorType) and _has_layout(type_)
            ]
            return registers.same_lanes(tensors, op.name) if tensors else None
    except LayoutError as error:
        return Finding(f"{op.name}: {error.what}")
    return None


@lru_cache(maxsize=1 << 14)
def _covered(type_: Attribute) -> Finding | None:
    if isinstance(type_, TensorType) and _has_layout(type_):
        try:
            return registers.covers(type_)
        except LayoutError as error:
            return Finding(f"the layout of {type_} does not exist: {error.what}")
    return memory.covers(type_) if isinstance(type_, MemDescType) else None


def _tensors(rule: Callable[..., Finding | None], *names: str) -> Callable[[Signature], Any]:
    """A rule on the first operand and the first result, tensors that have layouts."""

    def judge(op: Signature) -> Finding | None:
        source, result = op.operands[0], op.results[0]
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            return None
        if not _has_layout(source) or not _has_layout(result):
            return None
        return rule(source, *(_parameter(op, name) for name in names), result)

    return judge


def _memories(rule: Callable[..., Finding | None], *names: str) -> Callable[[Signature], Any]:
    """A rule on the first operand and the first result, both memory descriptors."""

    def judge(op: Signature) -> Finding | None:
        source, result = op.operands[0], op.results[0]
        assert isinstance(source, MemDescType)
        assert isinstance(result, MemDescType)
        return rule(source, *(_parameter(op, name) for name in names), result)

    return judge


def _parameter(op: Signature, name: str) -> int | tuple[int, ...]:
    return op.number(name) if name == "axis" else op.numbers(name)


def _reshape(op: Signature) -> Finding | None:
    reorder = any(name == "allow_reorder" for name, _ in op.parameters)
    return _tensors(lambda source, result: registers.reshape(source, result, reorder))(op)


def _access(
    rule: Callable[[MemDescType, TensorType, str], Finding | None],
) -> Callable[[Signature], Finding | None]:
    """A rule on the one memory and the one tensor of an op, if it has both."""

    def judge(op: Signature) -> Finding | None:
        types = (*op.operands, *op.results)
        memories = [t for t in types if isinstance(t, MemDescType)]
        tensors = [t for t in types if isinstance(t, TensorType)]
        if not memories or not tensors:
            return None
        return rule(memories[0], tensors[0], op.name)

    return judge


def _tma(op: Signature) -> Finding | None:
    memories = [t for t in op.operands if isinstance(t, MemDescType)]
    # The last is the memory; one before it is a barrier.
    return memory.copy_by_tma(op.operands[0], memories[-1], op.name)


def _mma(op: Signature) -> Finding | None:
    for operand in op.operands[:2]:
        if isinstance(operand, MemDescType):
            found = memory.element_width(operand, op.name)
            if found is not None:
                return found
    return None


RULES: dict[str, Callable[[Signature], Finding | None]] = {
    "tt.trans": _tensors(registers.trans, "order"),
    "tt.reshape": _reshape,
    "tt.expand_dims": _tensors(registers.expand_dims),
    "tt.broadcast": _tensors(registers.broadcast),
    "tt.join": _tensors(registers.join),
    "tt.split": _tensors(registers.split),
    "tt.reduce": _tensors(registers.reduce, "axis"),
    "ttg.fp4_to_fp": _tensors(registers.fp4_to_fp, "axis"),
    "ttg.memdesc_trans": _memories(memory.trans, "order"),
    "ttg.memdesc_reshape": _memories(memory.reshape),
    "ttg.memdesc_index": _memories(memory.index),
    "ttg.memdesc_subslice": _memories(memory.subslice, "offsets"),
    "ttg.memdesc_reinterpret": _memories(memory.reinterpret),
    "ttg.local_alloc": _access(memory.access),
    "ttg.local_load": _access(memory.access),
    "ttg.local_store": _access(memory.access),
    "ttng.async_shared_store": _access(memory.access),
    "ttng.tmem_alloc": _access(memory.tensor_memory_access),
    "ttng.tmem_load": _access(memory.tensor_memory_access),
    "ttng.tmem_store": _access(memory.tensor_memory_access),
    "ttng.async_tma_copy_global_to_local": _tma,
    "ttng.async_tma_copy_local_to_global": _tma,
    "ttng.async_tma_reduce": _tma,
    "ttng.async_tma_gather": _tma,
    "ttng.async_tma_scatter": _tma,
    "ttng.warp_group_dot": _mma,
    "ttng.tc_gen5_mma": _mma,
    "ttng.tc_gen5_mma_scaled": _mma,
}


@dataclass(frozen=True)
class CheckLayoutsPass(ModulePass):
    """Layouts hold every element, follow through ops that move no data, and fit memory."""

    name = "check-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = check_layouts(op)
        if report.faults:
            raise Refuted(self.name, report.faults)
        if report.unjudged:
            what, count = report.unjudged.most_common(1)[0]
            raise Unsupported(f"check-layouts of {count} ops: {what}")
