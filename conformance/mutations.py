"""Small changes to a module of Triton's dialects, each of one op: what a wrong pass might leave.

`changes(op)` gives every change that can be made to an op where it stands, in a fixed order: the
n-th change of the n-th op of a module is the same in each of its clones. Most change what a kernel
does; some happen not to, and who judges them is to find out; those whose kind begins with "right"
do not. A change may give a module that does not verify.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from xttir.dialects import arith, scf

ORDERING = frozenset(
    f"ttg.{n}" for n in ("barrier", "async_wait", "async_commit_group")
) | frozenset(
    f"ttng.{n}"
    for n in (
        "wait_barrier", "arrive_barrier", "barrier_expect", "fence_async_shared", "init_barrier",
        "inval_barrier", "async_tma_store_wait", "warp_group_dot_wait", "tc_gen5_commit",
        "cluster_barrier", "cluster_arrive", "cluster_wait", "async_copy_mbarrier_arrive",
        "fence_mbarrier_init_release_cluster", "tmem_wait",
    )
)  # fmt: skip
"""Ops that order others."""

STORING = frozenset(
    (
        "tt.store", "tt.descriptor_store", "tt.atomic_rmw", "ttg.local_store", "ttng.tmem_store",
        "ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local", "tt.assert",
        "ttng.async_tma_copy_local_to_global", "ttng.tc_gen5_mma", "tt.descriptor_reduce",
        "ttng.async_tma_reduce", "ttng.tmem_copy", "ttg.local_dealloc", "scf.if",
    )
)  # fmt: skip
"""Ops with an effect, which can be left out."""

TWICE = frozenset(
    (
        "tt.store", "tt.descriptor_store", "ttg.local_store", "ttg.async_wait",
        "ttng.async_tma_store_wait", "ttng.warp_group_dot_wait", "ttng.fence_async_shared",
        "ttg.barrier", "ttng.tmem_wait", "ttng.fence_mbarrier_init_release_cluster",
        "ttng.wait_barrier", "ttg.async_commit_group", "ttg.local_dealloc",
    )
)  # fmt: skip
"""Ops that may be done twice: the second time changes nothing, or makes waits wait longer."""

NOT_COMMUTATIVE = frozenset(
    f"arith.{n}"
    for n in (
        "subi", "subf", "divf", "divsi", "divui", "remsi", "remui", "remf", "shli", "shrsi",
        "shrui", "cmpi", "cmpf", "ceildivsi", "floordivsi",
    )
) | {"tt.precise_divf", "math.powf"}  # fmt: skip

OTHERS = {
    "arith.addi": ("arith.subi", "arith.ori"),
    "arith.subi": ("arith.addi",),
    "arith.muli": ("arith.addi",),
    "arith.addf": ("arith.subf", "arith.maxnumf"),
    "arith.subf": ("arith.addf",),
    "arith.mulf": ("arith.addf", "arith.divf"),
    "arith.divf": ("arith.mulf",),
    "arith.maxnumf": ("arith.minnumf", "arith.maximumf", "arith.addf"),
    "arith.minnumf": ("arith.maxnumf",),
    "arith.maximumf": ("arith.minimumf", "arith.maxnumf"),
    "arith.andi": ("arith.ori",),
    "arith.ori": ("arith.andi", "arith.xori"),
    "arith.xori": ("arith.ori",),
    "arith.maxsi": ("arith.minsi",),
    "arith.minsi": ("arith.maxsi",),
    "math.exp": ("math.exp2",),
    "math.exp2": ("math.exp",),
    "math.log": ("math.log2",),
    "math.log2": ("math.log",),
    "math.sqrt": ("math.rsqrt",),
    "math.rsqrt": ("math.sqrt",),
    "math.sin": ("math.cos",),
    "math.cos": ("math.sin",),
}
UNSIGNED = {
    f"arith.{a}": f"arith.{b}"
    for a, b in (
        ("divsi", "divui"), ("remsi", "remui"), ("shrsi", "shrui"), ("maxsi", "maxui"),
        ("minsi", "minui"), ("extsi", "extui"), ("sitofp", "uitofp"), ("fptosi", "fptoui"),
    )
}  # fmt: skip
SIGNS = UNSIGNED | {b: a for a, b in UNSIGNED.items()}
"""Ops that differ from another in taking integers as signed."""

_SIGNED_PREDICATE = {2: 6, 3: 7, 4: 8, 5: 9, 6: 2, 7: 3, 8: 4, 9: 5}


@dataclass(frozen=True)
class Change:
    """A change to one op. `kind`: a word for the table. `apply` makes it, on the op it was made
    for; False if it cannot be made there after all. `everywhere`: a text to put in the place of
    another one all over the printed module."""

    kind: str
    what: str
    apply: Callable[[], bool]
    everywhere: tuple[str, str] = ("", "")


def changes(op: Operation) -> Iterator[Change]:
    """Every change to `op`, which stands in a module."""
    for make in _MAKERS:
        yield from make(op)


def _is_token(value: SSAValue) -> bool:
    """Whether a value only says what an op comes after."""
    return "token" in value.type.name


def _is_true_or_false(value: SSAValue) -> bool:
    ty = value.type
    return _scalar(ty) == i1


def _scalar(ty: Attribute) -> Attribute:
    return getattr(ty, "element_type", ty)


def _constant(ty: Attribute, number: int, before: Operation) -> SSAValue:
    """A constant of an integer type, all of whose elements are `number`."""
    if isinstance(ty, TensorType):
        value: Any = DenseIntOrFPElementsAttr.from_list(ty, [number])  # pyright: ignore
    else:
        value = IntegerAttr(number, ty)  # pyright: ignore
    op = ConstantOp(value, ty)
    block = before.parent
    assert block is not None
    block.insert_op_before(op, before)
    return op.result


def _insert(op: Operation, before: Operation) -> SSAValue:
    assert before.parent is not None
    before.parent.insert_op_before(op, before)
    return op.results[0]


def _binary(name: str, a: SSAValue, b: SSAValue, before: Operation) -> SSAValue:
    kinds: dict[str, Any] = {
        "add": arith.AddiOp, "xor": arith.XOrIOp, "rem": arith.RemUIOp, "sub": arith.SubiOp,
    }  # fmt: skip
    return _insert(kinds[name](a, b), before)


def _set(op: Operation, index: int, value: SSAValue) -> bool:
    op.operands[index] = value
    return True


def _named(op: Operation) -> dict[str, int]:
    """Positions of the single operands of `op`, by the name of their definition."""
    found: dict[str, int] = {}
    position = {id(v): n for n, v in reversed(list(enumerate(op.operands)))}
    for name, _ in getattr(type(op), "get_irdl_definition", lambda: _Nothing)().operands:
        value = getattr(op, name, None)
        if isinstance(value, SSAValue) and id(value) in position:
            found[name] = position[id(value)]
    return found


class _Nothing:
    operands: tuple[Any, ...] = ()


def _operands(op: Operation) -> Iterator[Change]:
    """Operands of one type in another order."""
    a = op.operands
    if op.name in NOT_COMMUTATIVE or (op.name == "tt.dot" and a[0].type == a[1].type):
        yield Change("operands swapped", op.name, lambda: _swap(op, 0, 1))
    elif op.name == "arith.select" and not _is_token(a[1]):
        yield Change("operands swapped", op.name, lambda: _swap(op, 1, 2))
    elif op.name in ("scf.yield", "scf.for", "ttg.warp_specialize", "ttg.warp_yield"):
        first = 3 if op.name == "scf.for" else 0
        pairs = itertools.combinations(range(first, len(a)), 2)
        alike = (p for p in pairs if a[p[0]].type == a[p[1]].type and not _is_token(a[p[0]]))
        for i, j in itertools.islice(alike, 4):
            kind = "yield swapped" if op.name == "scf.yield" else "initial values swapped"
            yield Change(kind, f"{i} and {j}", lambda i=i, j=j: _swap(op, i, j))
    elif "descriptor" in op.name or "tma" in op.name:
        ints = [n for n, v in enumerate(a) if v.type == i32]
        for i, j in itertools.pairwise(ints):
            yield Change(
                "coordinates swapped", f"{op.name} {i}, {j}", lambda i=i, j=j: _swap(op, i, j)
            )


def _swap(op: Operation, i: int, j: int) -> bool:
    a, b = op.operands[i], op.operands[j]
    if a is b:
        return False
    op.operands[i], op.operands[j] = b, a
    return True


def _predicates(op: Operation) -> Iterator[Change]:
    if op.name not in ("arith.cmpi", "arith.cmpf"):
        return
    held = op.properties["predicate"]
    assert isinstance(held, IntegerAttr)
    number = held.value.data
    near = (
        {0: 1, 1: 0, 2: 3, 3: 2, 4: 5, 5: 4, 6: 7, 7: 6, 8: 9, 9: 8}
        if op.name == "arith.cmpi"
        else {1: 3, 3: 1, 2: 3, 4: 5, 5: 4, 6: 13, 13: 6, 11: 4, 9: 2}
    )
    if number in near:
        yield Change(
            "predicate", f"{number} to {near[number]}", lambda: _to(op, "predicate", near[number])
        )
    if op.name == "arith.cmpi" and number in _SIGNED_PREDICATE:
        other = _SIGNED_PREDICATE[number]
        yield Change("signedness", f"cmpi {number} to {other}", lambda: _to(op, "predicate", other))


def _to(op: Operation, name: str, number: int) -> bool:
    held = op.properties[name]
    assert isinstance(held, IntegerAttr)
    op.properties[name] = IntegerAttr(number, held.type)
    return True


def _constants(op: Operation) -> Iterator[Change]:
    if op.name != "arith.constant":
        return
    value = op.properties["value"]
    if isinstance(value, IntegerAttr):
        number = value.value.data
        if value.type == i1:
            other = int(not number)
            yield Change("flag", f"{number} to {other}", lambda: _valued(op, other))
            return
        for other in (number + 1, number - 1, number * 2 or 2):
            yield Change("constant", f"{number} to {other}", lambda other=other: _valued(op, other))
    elif isinstance(value, FloatAttr):
        number = value.value.data
        yield Change("constant", f"{number} doubled", lambda: _valued(op, number * 2 or 1.0))
    elif isinstance(value, DenseIntOrFPElementsAttr) and value.is_splat():
        first = next(iter(value.get_values()))
        if _scalar(value.type) == i1:
            yield Change("flag", "dense", lambda: _valued(op, int(not first)))
        elif isinstance(first, int):
            for other in (first + 1, first - 1, first * 2 or 2):
                yield Change(
                    "constant", f"{first} to {other}", lambda other=other: _valued(op, other)
                )
        else:
            other = -first or 1.0
            yield Change("constant", f"{first} to {other}", lambda: _valued(op, other))


def _valued(op: Operation, number: float) -> bool:
    """Give a constant another value."""
    ty = op.results[0].type
    width = _scalar(ty).width.data if isinstance(_scalar(ty), IntegerType) else 64  # pyright: ignore
    if isinstance(number, int) and not -(1 << (width - 1)) <= number < 1 << max(width - 1, 1):
        return False
    if isinstance(ty, TensorType):
        op.properties["value"] = DenseIntOrFPElementsAttr.from_list(ty, [number])  # pyright: ignore
    elif isinstance(_scalar(ty), IntegerType):
        op.properties["value"] = IntegerAttr(int(number), ty)  # pyright: ignore
    else:
        op.properties["value"] = FloatAttr(number, ty)  # pyright: ignore
    return True


def _masks(op: Operation) -> Iterator[Change]:
    """Masks, predicates, flags: true, false, or the opposite."""
    for name, index in _named(op).items():
        if not _is_true_or_false(op.operands[index]):
            continue
        if not (op.name.startswith(("tt.", "ttg.", "ttng.")) or op.name == "scf.if"):
            continue
        if op.name == "tt.assert" or op.name in ("tt.reshape", "tt.expand_dims", "tt.broadcast"):
            continue
        if op.name in ("tt.splat", "tt.trans", "ttg.convert_layout", "ttg.local_alloc"):
            continue
        kind = {"mask": "mask", "use_d": "accumulator flag", "use_c": "accumulator flag"}.get(
            name, "predicate of an op"
        )
        ty = op.operands[index].type
        for word, number in (("true", 1), ("false", 0)):
            yield Change(
                f"{kind} {word}" if kind == "mask" else kind,
                f"{op.name} {name} {word}",
                lambda index=index, number=number, ty=ty: _set(
                    op, index, _constant(ty, number, op)
                ),
            )
        yield Change(
            f"{kind} flipped" if kind == "mask" else kind,
            f"{op.name} {name} flipped",
            lambda index=index, ty=ty: _set(
                op, index, _binary("xor", op.operands[index], _constant(ty, 1, op), op)
            ),
        )


def _left_out(op: Operation) -> Iterator[Change]:
    """Ops left out, done twice, moved."""
    if op.has_trait(IsTerminator):
        return
    if op.name in ORDERING:
        name = op.name
        yield Change("ordering op dropped", name, lambda: _drop(op))
        kind = "right: done twice" if name in TWICE else "ordering op twice"
        yield Change(kind, name, lambda: _twice(op))
        yield Change("ordering op moved", f"{name} down", lambda: _move(op, 1))
        yield Change("ordering op moved", f"{name} up", lambda: _move(op, -1))
        yield Change("ordering op moved", f"{name} to the end", lambda: _move(op, 1000))
    elif op.name in STORING:
        yield Change("op dropped", op.name, lambda: _drop(op))
        if op.name != "scf.if":
            kind = "right: done twice" if op.name in TWICE else "op twice"
            yield Change(kind, op.name, lambda: _twice(op))
            yield Change("op moved", f"{op.name} down", lambda: _move(op, 3))
            yield Change("op moved", f"{op.name} up", lambda: _move(op, -3))
    elif op.name in ("tt.load", "ttg.local_load", "tt.descriptor_load", "ttng.tmem_load"):
        yield Change("op moved", f"{op.name} down", lambda: _move(op, 3))
        yield Change("op moved", f"{op.name} up", lambda: _move(op, -3))
    elif len(op.operands) == 1 and len(op.results) == 1 and not op.regions:
        if op.operands[0].type == op.results[0].type:
            yield Change("op dropped", op.name, lambda: _drop(op))
    elif op.name.startswith("arith.") and len(op.operands) == 2 and len(op.results) == 1:
        for n in (0, 1):
            if op.operands[n].type == op.results[0].type:
                yield Change("op dropped", f"{op.name} is operand {n}", lambda n=n: _drop(op, n))


def _drop(op: Operation, operand: int = 0) -> bool:
    """Take an op out; what it passes on is what it is given."""
    given = list(op.operands[operand:])
    for n, result in enumerate(op.results):
        if result.first_use is None:
            continue
        same = [v for v in given[n:] if v.type == result.type] or [
            v for v in given if v.type == result.type
        ]
        if not same:
            return False
        result.replace_all_uses_with(same[0])
    op.detach()
    op.erase()
    return True


def _twice(op: Operation) -> bool:
    assert op.parent is not None
    op.parent.insert_op_after(op.clone(), op)
    return True


def _move(op: Operation, steps: int) -> bool:
    """Move an op past at most so many ops (up, if negative), as far as its uses and operands
    allow."""
    block = op.parent
    assert block is not None
    place, moved = op, 0
    while moved < abs(steps):
        near = place.next_op if steps > 0 else place.prev_op
        if near is None or near.has_trait(IsTerminator):
            break
        first, second = (op, near) if steps > 0 else (near, op)
        if any(_uses(second, r) for r in first.results):
            break
        # Values that nothing sees move along for free.
        moved += not _is_free(near)
        place = near
    if not moved:
        return False
    op.detach()
    (block.insert_op_after if steps > 0 else block.insert_op_before)(op, place)
    return True


def _is_free(op: Operation) -> bool:
    return op.name.startswith(("arith.", "ttg.memdesc")) and not op.regions


def _uses(op: Operation, value: SSAValue) -> bool:
    return any(value in inner.operands for inner in op.walk())


def _numbers(op: Operation) -> Iterator[Change]:
    """Numbers that ops carry."""
    for name, kind in (("pendings", "pending"), ("num", "pending"), ("count", "count"),
                       ("size", "count"), ("axis", "axis")):  # fmt: skip
        held = op.properties.get(name)
        if not isinstance(held, IntegerAttr):
            continue
        number = held.value.data
        for other in (number + 1, number - 1):
            if other >= 0:
                yield Change(
                    kind,
                    f"{op.name} {number} to {other}",
                    lambda name=name, other=other: _to(op, name, other),
                )


def _phases(op: Operation) -> Iterator[Change]:
    for name, index in _named(op).items():
        if name == "phase":
            yield Change(
                "parity",
                op.name,
                lambda index=index: _set(
                    op, index, _binary("xor", op.operands[index], _constant(i32, 1, op), op)
                ),
            )
    if op.name == "ttg.memdesc_index":
        slots = op.operands[0].type.shape.data[0].data  # pyright: ignore
        if slots > 1:
            yield Change("ring index", f"of {slots}", lambda: _next_slot(op, slots))


def _next_slot(op: Operation, slots: int) -> bool:
    one, all_ = _constant(i32, 1, op), _constant(i32, slots, op)
    after = _binary("add", op.operands[1], one, op)
    return _set(op, 1, _binary("rem", after, all_, op))


def _offsets(op: Operation) -> Iterator[Change]:
    """Offsets and orders of views."""
    if op.name == "ttg.memdesc_subslice":
        held = op.properties["offsets"]
        assert isinstance(held, DenseArrayBase)
        offsets = [int(n) for n in held.get_values()]
        shape = [n.data for n in op.results[0].type.shape.data]  # pyright: ignore
        whole = [n.data for n in op.operands[0].type.shape.data]  # pyright: ignore
        for k, size in enumerate(shape):
            other = [*offsets]
            other[k] = (offsets[k] + size) % whole[k]
            if other != offsets:
                yield Change(
                    "offset of a view", f"{offsets} to {other}",
                    lambda other=other: _listed(op, "offsets", other),
                )  # fmt: skip
    for name in ("order",):
        held = op.properties.get(name)
        if isinstance(held, DenseArrayBase) and len(held) > 1:
            order = [int(n) for n in held.get_values()]
            other = order[::-1] if len(order) == 2 else [order[1], order[0], *order[2:]]
            yield Change(
                "order of axes", f"{op.name} {order} to {other}",
                lambda other=other: _listed(op, "order", other),
            )  # fmt: skip


def _listed(op: Operation, name: str, numbers: list[int]) -> bool:
    held = op.properties[name]
    assert isinstance(held, DenseArrayBase)
    op.properties[name] = DenseArrayBase.from_list(held.elt_type, numbers)  # pyright: ignore
    return True


def _loops(op: Operation) -> Iterator[Change]:
    if op.name != "scf.for":
        return
    for index, name in enumerate(("lower bound", "upper bound", "step")):
        for word, verb in (("+1", "add"), ("-1", "sub")):
            if name == "step" and verb == "sub":
                continue
            yield Change(
                "loop bound" if index < 2 else "loop step",
                f"{name} {word}",
                lambda index=index, verb=verb: _set(
                    op,
                    index,
                    _binary(
                        verb, op.operands[index], _constant(op.operands[index].type, 1, op), op
                    ),
                ),
            )
    for index, verb, what in ((1, "sub", "one iteration less"), (0, "add", "first left out")):
        yield Change(
            "loop bound",
            what,
            lambda index=index, verb=verb: _set(
                op, index, _binary(verb, op.operands[index], op.operands[2], op)
            ),
        )


def _yields(op: Operation) -> Iterator[Change]:
    """What a loop carried in is carried on."""
    parent = op.parent_op()
    if op.name != "scf.yield" or not isinstance(parent, scf.ForOp):
        return
    arguments = parent.body.block.args[1:]
    for n, (value, argument) in enumerate(zip(op.operands, arguments, strict=True)):
        if value is not argument and value.type == argument.type and not _is_token(value):
            yield Change("yield stale", f"value {n}", lambda n=n, a=argument: _set(op, n, a))


def _renamed(op: Operation) -> Iterator[Change]:
    """Another op on the same operands."""
    inside = op.parent_op()
    combines = inside is not None and inside.name in ("tt.reduce", "tt.scan")
    for other in OTHERS.get(op.name, ()):
        kind = "combiner" if combines else "another op"
        yield Change(kind, f"{op.name} to {other}", lambda other=other: _as(op, other))
    if op.name in SIGNS:
        other = SIGNS[op.name]
        yield Change("signedness", f"{op.name} to {other}", lambda: _as(op, other))


def _as(op: Operation, name: str) -> bool:
    from xdsl.dialects import arith as upstream

    from xttir.dialects import math

    found = None
    for module in (arith, upstream, math):
        for value in vars(module).values():
            if isinstance(value, type) and getattr(value, "name", "") == name:
                found = found or value
    if found is None or not issubclass(found, Operation):
        return False
    allowed = set(found.get_irdl_definition().properties)  # pyright: ignore
    properties = {k: v for k, v in op.properties.items() if k in allowed}
    made = found.create(
        operands=list(op.operands), result_types=[r.type for r in op.results],
        properties=properties, attributes=dict(op.attributes),
    )  # fmt: skip
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    return True


def _rest(op: Operation) -> Iterator[Change]:
    """Rounding, precision, atomics."""
    rounding = op.properties.get("rounding")
    if op.name == "tt.fp_to_fp" and rounding is not None:
        other = 1 - rounding.value.data  # pyright: ignore
        yield Change("rounding", op.name, lambda: _to_enum(op, "rounding", other))
    if op.name == "arith.truncf":
        yield Change("rounding", "truncf toward zero", lambda: _toward_zero(op))
    for name, kind in (("atomic_rmw_op", "atomic"), ("sem", "atomic"), ("scope", "atomic"),
                       ("inputPrecision", "precision"), ("kind", "atomic")):  # fmt: skip
        held = op.properties.get(name)
        number = getattr(getattr(held, "value", None), "data", None)
        if not isinstance(number, int):
            continue
        if name == "inputPrecision" and _scalar(op.operands[0].type) != f32:
            continue
        for other in (number - 1, number + 1):
            if other >= (1 if name in ("atomic_rmw_op", "sem", "scope", "kind") else 0):
                yield Change(
                    kind, f"{name} {number} to {other}",
                    lambda name=name, other=other: _to_enum(op, name, other),
                )  # fmt: skip


def _to_enum(op: Operation, name: str, number: int) -> bool:
    held: Any = op.properties[name]
    if isinstance(held, IntegerAttr):
        op.properties[name] = IntegerAttr(number, held.type)
        return True
    try:
        op.properties[name] = type(held)(number)
    except Exception:
        return False
    return True


def _toward_zero(op: Operation) -> bool:
    from xttir.frontends.mlir import parse_module

    text = "tt.func @f(%x: f32) {\n%y = arith.truncf %x toward_zero : f32 to f16\ntt.return\n}\n"
    for other in parse_module(text, "rounding.mlir").walk():
        if other.name == "arith.truncf":
            op.properties |= {k: v for k, v in other.properties.items() if "round" in k}
            return True
    return False


def _scopes(op: Operation) -> Iterator[Change]:
    """Ops taken out of the branch or loop they stand in."""
    parent = op.parent_op()
    if op.name not in ("tt.load", "ttg.local_load", "tt.store", "tt.atomic_rmw"):
        return
    if parent is None or parent.name not in ("scf.if", "scf.for"):
        return
    yield Change("hoisted", f"{op.name} out of {parent.name}", lambda: _hoist(op, parent))


def _hoist(op: Operation, parent: Operation) -> bool:
    """Move an op, with what it needs, to before the op around it. A loop's values are those it
    begins with."""
    needed: list[Operation] = []

    def need(inner: Operation) -> bool:
        for value in inner.operands:
            owner = value.owner
            if isinstance(owner, Block):
                if owner.parent_op() is parent:
                    return False
                continue
            if owner.parent is op.parent and owner not in needed and not need(owner):
                return False
        if inner.regions or (inner is not op and not inner.name.startswith(("arith.", "tt."))):
            return False
        needed.append(inner)
        return True

    if isinstance(parent, scf.ForOp):
        for n, argument in enumerate(parent.body.block.args):
            start = parent.operands[0] if n == 0 else parent.operands[2 + n]
            for use in list(argument.uses):
                if use.operation is op:
                    use.operation.operands[use.index] = start
    if not need(op):
        return False
    assert parent.parent is not None
    for inner in needed:
        inner.detach()
        parent.parent.insert_op_before(inner, parent)
    return True


def _wrong_values(op: Operation) -> Iterator[Change]:
    """Another value of the same type, defined earlier in the block."""
    if op.name in ("scf.yield", "arith.constant") or op.regions:
        return
    for n, value in enumerate(op.operands):
        if isinstance(value, BlockArgument) or _is_token(value):
            continue
        other = _earlier(op, value)
        if other is not None:
            yield Change(
                "another operand", f"{op.name} operand {n}", lambda n=n, v=other: _set(op, n, v)
            )


def _earlier(op: Operation, value: SSAValue) -> SSAValue | None:
    at = op.prev_op
    while at is not None:
        for result in at.results:
            if result.type == value.type and result is not value and result not in op.operands:
                return result
        at = at.prev_op
    return None


def _encodings(op: Operation) -> Iterator[Change]:
    """Another encoding of one result, or of all types of the module that have it."""
    if len(op.results) != 1 or op.name == "arith.constant":
        return
    encoding: Any = getattr(op.results[0].type, "encoding", None)
    if encoding is None:
        return
    text = str(encoding)
    kind = "swizzle" if "shared" in text.split("<")[0] else "layout"
    for other in _other_encodings(text):
        one = "right: swizzle of one buffer" if kind == "swizzle" else "layout of one op"
        yield Change(one, f"{op.name}: {other}", lambda other=other: _typed(op, other))
        yield Change(f"right: {kind} everywhere", f"{text} to {other}", lambda: True, (text, other))


_NUMBERS = {
    "#ttg.swizzled_shared": ("vec", "perPhase", "maxPhase"),
    "#ttg.nvmma_shared": ("swizzlingByteWidth",),
}


def _other_encodings(text: str) -> list[str]:
    """Encodings like the one that `text` is."""
    made: list[str] = []
    for name in _NUMBERS.get(text.split("<")[0], ()):
        found = re.search(rf"\b{name} = (\d+)", text)
        if found is not None:
            number = int(found[1])
            for other in (number * 2, number // 2):
                if other:
                    made.append(re.sub(rf"\b{name} = \d+", f"{name} = {other}", text))
    if text.startswith("#ttg.nvmma_shared"):
        made.append(text.replace("transposed = false", "transposed = true"))
        made.append(text.replace("transposed = true", "transposed = false"))
    if text.startswith(("#ttg.blocked", "#ttg.swizzled_shared")):
        made.append(re.sub(r"order = \[(\d), (\d)\]", r"order = [\2, \1]", text))
    if text.startswith("#ttg.blocked"):
        for name in ("threadsPerWarp", "sizePerThread", "warpsPerCTA"):
            made.append(re.sub(rf"{name} = \[(\d+), (\d+)\]", rf"{name} = [\2, \1]", text))
        made.append(re.sub(r"sizePerThread = \[(\d+)\]", "sizePerThread = [8]", text))
    return [other for other in dict.fromkeys(made) if other != text]


def _typed(op: Operation, text: str) -> bool:
    """Give the result of an op the encoding `text`."""
    from xttir.diagnostics import XttirError
    from xttir.frontends.mlir import parse_module

    module = f"module attributes {{xttir.x = {text}}} {{\n}}\n"
    try:
        encoding = parse_module(module, "encoding.mlir", verify=False).attributes["xttir.x"]
    except XttirError:
        return False
    ty: Any = op.results[0].type
    parameters = [encoding if p == ty.encoding else p for p in ty.parameters]
    try:
        made = type(ty).new(parameters)
    except VerifyException:
        return False
    Rewriter.replace_value_with_new_type(op.results[0], made)
    return True


_MAKERS: tuple[Callable[[Operation], Iterator[Change]], ...] = (
    _operands, _predicates, _constants, _masks, _left_out, _numbers, _phases, _offsets, _loops,
    _yields, _renamed, _rest, _scopes, _wrong_values, _encodings,
)  # fmt: skip
