"""`ttg` ops on tiles: layouts are erased, so converting one moves nothing.

A barrier of one program orders its threads, which run in step. Inline assembly of `ttg` runs once
per thread on all of its registers, so it alone looks at layouts. Ops on shared memory are in
`interp.ttg_memory`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import gluon, ttg
from xttir.dialects.layouts.to_linear import flat_element_of
from xttir.dialects.locations import location_of
from xttir.interp.affine import dense
from xttir.interp.attributes import integer
from xttir.interp.batch import as_condition, take
from xttir.interp.control import merge_results, run_single_exit, with_programs
from xttir.interp.launch import Storage, TensorArg
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer, Region
from xttir.interp.numerics.casts import float_to_float
from xttir.interp.numerics.rearrange import with_shape
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.taint import observe_branch
from xttir.interp.types import numpy_dtype, shape_of
from xttir.interp.ub import undefined


@register_impls
class TritonGPUFunctions(InterpreterFunctions):
    """See the module's docstring."""

    lazy = frozenset({ttg.ConvertLayoutOp, gluon.SetAutoLayoutOp})

    @impl(ttg.ConvertLayoutOp)
    def convert_layout(self, interp: Interpreter, op: ttg.ConvertLayoutOp, args: PythonValues):
        return args

    @impl(gluon.SetAutoLayoutOp)
    def set_auto_layout(self, interp: Interpreter, op: gluon.SetAutoLayoutOp, args: PythonValues):
        return args

    @impl(ttg.BarrierOp)
    def barrier(self, interp: Interpreter, op: ttg.BarrierOp, args: PythonValues):
        return ()

    @impl(ttg.PredicateStageOp)
    def predicate_stage(self, interp: Interpreter, op: ttg.PredicateStageOp, args: PythonValues):
        """Stage `stage` of the iteration at `iv` runs if it is not one that the pipeline begins
        too late to finish: iv < ub - (maxStage - stage) * step, in wrapping arithmetic."""
        iv, ub, step = args
        late = iv.dtype.type(integer(op.max_stage) - integer(op.stage))
        return (iv < ub - step * late,)

    @impl(ttg.Fp4ToFpOp)
    def fp4_to_fp(self, interp: Interpreter, op: ttg.Fp4ToFpOp, args: PythonValues):
        from xttir.interp.numerics.microscaling import elements

        axis = integer(op.axis)
        packed = np.moveaxis(with_shape(args[0], shape_of(op.src.type)), axis + 1, -1)
        values = np.moveaxis(elements(packed, "e2m1", -1), -1, axis + 1)
        return (float_to_float(values, numpy_dtype(op.result.type)),)

    @impl(ttg.WarpIdOp)
    def warp_id(self, interp: Interpreter, op: ttg.WarpIdOp, args: PythonValues):
        """Of a program of one warp: otherwise it has no single value."""
        if num_warps(op) != 1:
            raise Unsupported("a value that differs between warps", location_of(op))
        return (np.zeros(1, np.int32),)

    @impl(ttg.GlobalScratchAllocOp)
    def global_scratch_alloc(
        self, interp: Interpreter, op: ttg.GlobalScratchAllocOp, args: PythonValues
    ):
        assert isinstance(interp, Machine)
        return (scratch(interp, integer(op.nbytes), integer(op.alignment), str(location_of(op))),)

    @impl(ttg.InlineAsmOp)
    def inline_asm(self, interp: Interpreter, op: ttg.InlineAsmOp, args: PythonValues):
        assert isinstance(interp, Machine)
        return _inline_asm(interp, op, args)


def num_warps(op: Operation) -> int:
    """Warps of the program, or of the partition, that runs `op`."""
    return warps_at(op)[1]


def warps_at(op: Operation) -> tuple[int, int]:
    """(first warp, number of warps) of the program, or of the partition, that runs `op`: where the
    op does not say where partitions begin, they follow the default one in order."""
    inside: Operation | None = op
    while inside is not None:
        parent = inside.parent_op()
        if isinstance(parent, ttg.WarpSpecializePartitionsOp):
            region = inside.parent_region()
            holder = parent.parent_op()
            assert isinstance(holder, ttg.WarpSpecializeOp)
            position = list(parent.partition_regions).index(region)  # pyright: ignore
            counts = [int(n) for n in holder.partition_num_warps.get_values()]
            starts = holder.warp_group_start_ids
            if starts is not None:
                return int(starts.get_values()[position]), counts[position]
            first, default = warps_at(holder)
            return first + default + sum(counts[:position]), counts[position]
        if isinstance(inside, ModuleOp):
            attribute = inside.attributes.get("ttg.num-warps")
            if isinstance(attribute, IntegerAttr):
                return 0, attribute.value.data
        inside = parent
    return 0, 4


def scratch(m: Machine, size: int, alignment: int, created: str) -> Pointer:
    """Fresh global memory, `size` bytes for each active program; scalar pointers (b,)."""
    stride = -(-max(size, 1) // alignment) * alignment
    _, ends, _ = m.memory.table()
    end = int(ends.max(initial=0)) + _GAP
    begin = -(-end // _GAP) * _GAP
    count = m.pids.size * stride
    storage = Storage(np.zeros(count, np.uint8), begin, np.zeros(count, bool), created)
    tensor = TensorArg("scratch memory", storage, 0, (count,), (1,), np.dtype(np.uint8))
    region = m.memory.add(Region(tensor))
    return Pointer(region, np.arange(m.pids.size, dtype=np.int64) * stride)


_GAP = 1 << 12


def _inline_asm(m: Machine, op: ttg.InlineAsmOp, args: Sequence[Any]) -> tuple[Any, ...]:
    """The assembly on registers that are arrays (b, threads): thread t is lane t % 32 of its
    warp."""
    from xttir.interp import inline_ptx

    inputs: list[np.ndarray] = []
    for value, operand in zip(args, op.args, strict=True):
        if isinstance(operand.type, ttg.MemDescType):
            raise Unsupported("inline assembly on addresses of shared memory", location_of(op))
        array = value.addresses() if isinstance(value, Pointer) else dense(value)
        if isinstance(operand.type, TensorType):
            full = with_shape(array, shape_of(operand.type)).reshape(array.shape[0], -1)
            inputs += [full[:, which] for which in _held(operand.type)]
        else:
            inputs.append(array[:, None])
    try:
        program = inline_ptx.parse(op.asm_string.data, op.constraints.data)
        bits = [inline_ptx.pack_elements([a])[0] for a in inputs]
        outputs = iter(inline_ptx.run(program, bits, lambda name: _special(m, op, name)))
    except Unsupported as error:
        raise Unsupported(error.what, location_of(op), error.hint) from None
    return tuple(_result(op, r.type, outputs) for r in op.result)


def _special(m: Machine, op: ttg.InlineAsmOp, name: str) -> np.ndarray:
    """A special register (b or 1, threads or 1)."""
    from xttir.interp.inline_ptx import special_register

    first, count = warps_at(op)
    threads = np.arange(32 * count, dtype=np.uint32)[None]
    if name == "%tid.x":
        return threads + np.uint32(32 * first)
    if name == "%laneid":
        return threads % 32
    return special_register(m, name)[:, None]


def _result(op: Operation, ty: Attribute, registers: Iterator[np.ndarray]) -> np.ndarray:
    """The next result, made of registers as its layout says. A value is one here for all threads
    that hold it."""
    from xttir.interp.inline_ptx import unpack_elements

    dtype = numpy_dtype(ty)

    def take_next() -> np.ndarray:
        return unpack_elements([next(registers)], dtype, 1)[0]

    def check(held: np.ndarray, seen: np.ndarray) -> None:
        word = np.dtype(f"u{dtype.itemsize}")
        a, b = np.broadcast_arrays(held, seen)
        if not np.array_equal(
            np.ascontiguousarray(a).view(word), np.ascontiguousarray(b).view(word)
        ):
            what = "inline assembly that gives threads different values of one element"
            raise Unsupported(what, location_of(op))

    if not isinstance(ty, TensorType):
        value = take_next()
        check(value, value[:, :1])
        return value[:, 0]
    held = _held(ty)
    parts = [take_next() for _ in held]
    batch = max(part.shape[0] for part in parts)
    value = np.empty((batch, math.prod(shape_of(ty))), dtype)
    for which, part in zip(held, parts, strict=True):
        value[:, which] = part
    for which, part in zip(held, parts, strict=True):
        check(part, value[:, which])
    return value.reshape(batch, *shape_of(ty))


def _held(ty: TensorType) -> np.ndarray:
    """int64[registers, threads]: the element each register of each thread holds, row-major."""
    table = flat_element_of(ty)
    return table[..., 0].transpose(0, 2, 1).reshape(table.shape[0], -1)


def build_mask(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """ttg.mask: the region where the predicate holds; its results are undefined elsewhere."""
    region = c.region(op.regions[0])
    types = [result.type for result in op.results]

    def run(m: Machine, frame: Frame) -> None:
        condition = as_condition(observe_branch(m, op, frame[ins[0]]))
        if condition is True:
            results = run_single_exit(m, region, frame)
        elif condition is False:
            results = [undefined(m, op, ty) for ty in types]
        else:
            on, off = np.flatnonzero(condition), np.flatnonzero(~condition)
            inner = list(frame)
            for slot in region.captured:
                inner[slot] = take(frame[slot], on)
            values = with_programs(m, on, lambda: run_single_exit(m, region, inner))
            others = [undefined(m, op, ty) for ty in types]
            results = merge_results([(on, values), (off, others)], m.pids.size) if outs else []
        for slot, value in zip(outs, results, strict=True):
            frame[slot] = value

    return run


def register(implementations: Implementations) -> None:
    """Add the builders of the dialect's ops."""
    from xttir.interp import agents, ttg_memory

    implementations.control[ttg.MaskOp] = build_mask
    ttg_memory.register(implementations)
    agents.register(implementations)
