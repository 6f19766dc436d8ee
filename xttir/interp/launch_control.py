"""Cluster launch control: a program asks for the work of one that has not begun.

Whether there is such a program is the hardware's to say. Here every program of a launch has begun,
so the answer is always that there is none: a legal answer, with which each program does its own
work. The program id of an answer that hands nothing over is undefined (PTX ISA,
clusterlaunchcontrol.query_cancel).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import ttng
from xttir.dialects.locations import location_of
from xttir.interp import phases, shared
from xttir.interp.affine import dense
from xttir.interp.clusters import sharing
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier, select
from xttir.interp.order import Positions
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.predicates import for_programs
from xttir.interp.taint import observe_branch
from xttir.interp.ttng_sync import operand_slots

Slots = tuple[int, ...]

ANSWER_BYTES = 16


def build_try_cancel(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.clc_try_cancel: the answer comes to memory, and completes its bytes at a barrier."""
    assert isinstance(op, ttng.CLCTryCancelOp)
    slots = operand_slots(c, op)
    size = ANSWER_BYTES * sharing(op, op.mbarrier.type)
    nothing = np.zeros((1, 1), np.int64)

    def run(m: Machine, frame: Frame) -> None:
        def answer(args: Any, barrier: MBarrier, at: Positions) -> None:
            if phases.usable(m, op, barrier, at):
                shared.store(m, op, args[0], nothing, stamp=barrier.stamp())
                phases.complete_bytes(m, op, barrier, size, at)

        args = [frame[slots["result"]], frame[slots["mbarrier"]]]
        for barrier, at, rows in select(m.barriers, args[1], m.positions()):
            for_programs(m, rows, args, lambda a, b=barrier, p=at: answer(a, b, p))

    return run


def build_try_cancel_sync(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.clc_try_cancel_sync: int64[1, 2], the answer as it will stand in memory."""

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = np.zeros((1, 2), np.int64)

    return run


def build_load_result(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.clc_load_result: bool[1 or b], whether the answer hands a program over."""

    def run(m: Machine, frame: Frame) -> None:
        words = dense(observe_branch(m, op, shared.load(m, op, frame[ins[0]])))
        if words.any():
            raise Unsupported("an answer of launch control that was not asked for", location_of(op))
        frame[outs[0]] = np.zeros(1, bool)

    return run


def build_is_canceled(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.clc_is_canceled."""

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = frame[ins[0]]

    return run


def build_program_id(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.clc_get_program_id."""

    def run(m: Machine, frame: Frame) -> None:
        why = "the program id of an answer that hands no program over"
        frame[outs[0]] = m.undefined(op, np.zeros(1, np.int32), ~frame[ins[0]], why)

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttng.CLCTryCancelOp: build_try_cancel,
        ttng.CLCTryCancelSyncOp: build_try_cancel_sync,
        ttng.CLCLoadResultOp: build_load_result,
        ttng.CLCIsCanceledOp: build_is_canceled,
        ttng.CLCGetProgramIdOp: build_program_id,
    }
