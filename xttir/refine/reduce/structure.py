"""Single steps on structure: loops and branches unwrapped, loop-carried values, results, arguments,
optional operands, functions and attributes taken away, constants and trip counts made smaller.

Each generator looks at a module and gives edits for it, which apply to any clone of that module.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    i32,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.traits import IsTerminator

from xttir.dialects import arith, scf, tt
from xttir.refine.reduce.build import (
    before,
    bodies,
    called,
    constant,
    erase,
    inline_before,
    inner_ops,
    remove_argument,
    set_argument_attributes,
)
from xttir.refine.reduce.drop import Edit

_SEGMENTS = "operandSegmentSizes"


def functions(module: ModuleOp) -> Iterator[Edit]:
    """Functions that nobody calls, one by one."""
    ops = list(module.ops)
    used = called(module)
    for n, op in enumerate(ops):
        if isinstance(op, tt.FuncOp) and op.sym_name.data not in used and len(ops) > 1:

            def edit(m: ModuleOp, n: int = n) -> bool:
                erase(list(m.ops)[n])
                return True

            yield edit


def unused_arguments(module: ModuleOp) -> Iterator[Edit]:
    """All parameters without uses at once, then one by one."""
    free = [
        (f, a.index)
        for f, function in enumerate(bodies(module))
        if function.sym_name.data not in called(module)
        for a in reversed(function.args)
        if a.first_use is None
    ]

    def remove(some: list[tuple[int, int]]) -> Edit:
        def edit(m: ModuleOp) -> bool:
            held = list(bodies(m))
            for f, index in some:
                remove_argument(held[f], index)
            return True

        return edit

    if free:
        yield remove(free)
    if len(free) > 1:
        yield from (remove([one]) for one in free)


def constant_arguments(module: ModuleOp) -> Iterator[Edit]:
    """Parameters that are numbers, as constants."""
    for f, function in enumerate(bodies(module)):
        if function.sym_name.data in called(module):
            continue
        for argument in function.args:
            for number in (1, 0, 2):
                if constant(argument.type, number) is None:
                    break

                def edit(
                    m: ModuleOp, f: int = f, n: int = argument.index, number: int = number
                ) -> bool:
                    held = list(bodies(m))[f]
                    first = held.body.blocks[0].first_op
                    new = constant(held.args[n].type, number)
                    if first is None or new is None:
                        return False
                    held.args[n].replace_all_uses_with(before(first, new))
                    remove_argument(held, n)
                    return True

                yield edit


# Loops and branches -------------------------------------------------------------------------------


def unwrap(module: ModuleOp) -> Iterator[Edit]:
    """Loops replaced by one iteration, branches by one arm."""
    for n, op in enumerate(inner_ops(module)):
        for k, region in enumerate(op.regions):
            if len(region.blocks) == 1 and _unwraps(op, k):

                def edit(m: ModuleOp, n: int = n, k: int = k) -> bool:
                    return _unwrapped(inner_ops(m)[n], k)

                yield edit


def _unwraps(op: Operation, k: int) -> bool:
    if isinstance(op, scf.ForOp):
        return True
    if isinstance(op, scf.WhileOp):
        return k == 0
    block = op.regions[k].block
    end = block.last_op
    return (
        not block.args
        and end is not None
        and end.has_trait(IsTerminator)
        and len(end.operands) == len(op.results)
    )


def _unwrapped(op: Operation, k: int) -> bool:
    block = op.regions[k].block
    if isinstance(op, scf.ForOp):
        given = inline_before(block, op, [op.lb, *op.iter_args])
    elif isinstance(op, scf.WhileOp):
        given = inline_before(block, op, list(op.operands))[1:]
    else:
        given = inline_before(block, op, [])
    for result, value in zip(op.results, given, strict=True):
        result.replace_all_uses_with(value)
    erase(op)
    return True


def trip_counts(module: ModuleOp) -> Iterator[Edit]:
    """Loops from 0, to 1 or 2, by 1."""
    for n, op in enumerate(inner_ops(module)):
        if not isinstance(op, scf.ForOp):
            continue
        for position, numbers in ((1, (1, 2, 4)), (0, (0,)), (2, (1,))):
            for number in numbers:
                if _value_of(op.operands[position]) == number:
                    break

                def edit(m: ModuleOp, n: int = n, at: int = position, number: int = number) -> bool:
                    loop = inner_ops(m)[n]
                    new = constant(loop.operands[at].type, number)
                    if new is None:
                        return False
                    loop.operands[at] = before(loop, new)
                    return True

                yield edit


def _value_of(value: SSAValue) -> int | None:
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


def carried_values(module: ModuleOp) -> Iterator[Edit]:
    """Values carried by loops, results of branches and of loops, one by one."""
    for n, op in enumerate(inner_ops(module)):
        if not isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            continue
        for k in range(len(op.results)):

            def edit(m: ModuleOp, n: int = n, k: int = k) -> bool:
                op = inner_ops(m)[n]
                if isinstance(op, scf.ForOp):
                    return _without_carried(op, k)
                if isinstance(op, scf.IfOp):
                    return _without_result(op, k)
                return isinstance(op, scf.WhileOp) and _without_passed(op, k)

            yield edit
        if isinstance(op, scf.WhileOp):
            for k in range(len(op.operands)):

                def shorter(m: ModuleOp, n: int = n, k: int = k) -> bool:
                    op = inner_ops(m)[n]
                    return isinstance(op, scf.WhileOp) and _without_initial(op, k)

                yield shorter
        if isinstance(op, scf.IfOp) and not op.results and op.false_region.blocks:

            def no_else(m: ModuleOp, n: int = n) -> bool:
                op = inner_ops(m)[n]
                op.regions[1].erase_block(op.regions[1].blocks[0])
                return True

            yield no_else


def _rebuilt(op: Operation, operands: list[SSAValue], keep: list[int]) -> Operation:
    """`op` with other operands and only the results at positions `keep`."""
    regions = [op.detach_region(region) for region in list(op.regions)]
    new = type(op).create(
        operands=operands,
        result_types=[op.results[n].type for n in keep],
        properties=op.properties,
        attributes=op.attributes,
        regions=regions,
        location=op.location,
    )
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for result, n in zip(new.results, keep, strict=True):
        result.name_hint = op.results[n].name_hint
        op.results[n].replace_all_uses_with(result)
    erase(op)
    return new


def _all_but(count: int, k: int) -> list[int]:
    return [n for n in range(count) if n != k]


def _shorter_end(op: Operation, k: int) -> None:
    op.operands = [v for n, v in enumerate(op.operands) if n != k]


def _without_carried(op: scf.ForOp, k: int) -> bool:
    initial = op.iter_args[k]
    block = op.body.block
    end = block.last_op
    assert end is not None
    block.args[1 + k].replace_all_uses_with(initial)
    op.results[k].replace_all_uses_with(initial)
    block.erase_arg(block.args[1 + k])
    _shorter_end(end, k)
    operands = [v for n, v in enumerate(op.operands) if n != 3 + k]
    _rebuilt(op, operands, _all_but(len(op.results), k))
    return True


def _without_result(op: scf.IfOp, k: int) -> bool:
    result = op.results[k]
    if result.first_use is not None:
        new = constant(result.type)
        if new is None:
            return False
        result.replace_all_uses_with(before(op, new))
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is not None:
                _shorter_end(block.last_op, k)
    _rebuilt(op, list(op.operands), _all_but(len(op.results), k))
    return True


def _without_passed(op: scf.WhileOp, k: int) -> bool:
    """Without the value that goes from the condition to the body and out as result `k`."""
    head, tail = op.before_region.block, op.after_region.block
    end = head.last_op
    assert end is not None
    for value in (op.results[k], tail.args[k]):
        if value.first_use is not None:
            new = constant(value.type)
            if new is None:
                return False
            value.replace_all_uses_with(before(op, new))
    tail.erase_arg(tail.args[k])
    _shorter_end(end, 1 + k)
    _rebuilt(op, list(op.operands), _all_but(len(op.results), k))
    return True


def _without_initial(op: scf.WhileOp, k: int) -> bool:
    """Without the value that goes from the body to the condition as argument `k`."""
    head, tail = op.before_region.block, op.after_region.block
    end = tail.last_op
    assert end is not None
    head.args[k].replace_all_uses_with(op.operands[k])
    head.erase_arg(head.args[k])
    _shorter_end(end, k)
    _rebuilt(op, [v for n, v in enumerate(op.operands) if n != k], list(range(len(op.results))))
    return True


# Operands, constants, attributes ------------------------------------------------------------------


def optional_operands(module: ModuleOp) -> Iterator[Edit]:
    """Groups of operands that an op may do without: masks, values for masked lanes."""
    for n, op in enumerate(inner_ops(module)):
        for k, (start, end) in enumerate(_groups(op)):

            def edit(
                m: ModuleOp, n: int = n, k: int = k, start: int = start, end: int = end
            ) -> bool:
                op = inner_ops(m)[n]
                sizes = list(_segments(op))
                op.operands = [v for at, v in enumerate(op.operands) if not start <= at < end]
                if sizes:
                    sizes[k] = 0
                    held = op.properties if _SEGMENTS in op.properties else op.attributes
                    held[_SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
                return True

            if start < end:
                yield edit


def _groups(op: Operation) -> list[tuple[int, int]]:
    """Ranges of operands that may be left out (empty ones for those that may not)."""
    sizes = _segments(op)
    if sizes:
        ends = list(itertools.accumulate(sizes))
        return list(zip([0, *ends], ends, strict=False))
    if not isinstance(op, IRDLOperation):
        return []
    definitions = [d for _, d in op.get_irdl_definition().operands]
    if len(definitions) != len(op.operands):
        return []
    return [(n, n + isinstance(d, OptionalDef)) for n, d in enumerate(definitions)]


def _segments(op: Operation) -> tuple[int, ...]:
    held = op.properties.get(_SEGMENTS, op.attributes.get(_SEGMENTS))
    return tuple(held.get_values()) if isinstance(held, DenseArrayBase) else ()  # type: ignore[arg-type]


def constants(module: ModuleOp) -> Iterator[Edit]:
    """Scalar constants closer to zero."""
    for n, op in enumerate(inner_ops(module)):
        if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, IntegerAttr):
            continue
        value = op.value.value.data
        if isinstance(op.value.type, IntegerType) and op.value.type.width.data == 1:
            continue
        smaller = [c for c in (0, 1, 2, value // 2) if abs(c) < abs(value)]
        for number in dict.fromkeys(smaller):

            def edit(m: ModuleOp, n: int = n, number: int = number) -> bool:
                op = inner_ops(m)[n]
                new = constant(op.results[0].type, number)
                if new is None:
                    return False
                op.results[0].replace_all_uses_with(before(op, new))
                erase(op)
                return True

            yield edit


def attributes(module: ModuleOp) -> Iterator[Edit]:
    """Attributes that an op can do without: all of an op's, then one by one; of parameters too."""
    for n, op in enumerate(module.walk()):
        names = list(op.attributes)
        groups = [names] if len(names) > 1 else []
        for group in [*groups, *([name] for name in names)]:

            def edit(m: ModuleOp, n: int = n, group: list[str] = group) -> bool:
                op = next(o for k, o in enumerate(m.walk()) if k == n)
                for name in group:
                    del op.attributes[name]
                return True

            yield edit
    for f, function in enumerate(bodies(module)):
        held = function.arg_attrs.data if function.arg_attrs is not None else ()
        for k, dictionary in enumerate(held):
            if dictionary.data:

                def plain(m: ModuleOp, f: int = f, k: int = k) -> bool:
                    set_argument_attributes(list(bodies(m))[f], k, DictionaryAttr({}))
                    return True

                yield plain
