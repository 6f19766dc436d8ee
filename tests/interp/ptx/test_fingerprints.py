"""Fingerprints of random programs: equal numbers are equal values, whatever the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interp.ptx.kernels import Kernel
from xttir.interp.ptx.code import Do
from xttir.interp.ptx.executor import Executor
from xttir.interp.ptx.plan import plan_of

THREADS = 64
VALUES = range(4, 10)
"""Registers that the drawn instructions work on."""

register = st.sampled_from([f"%r{n}" for n in VALUES])
source = st.one_of(register, st.sampled_from(["%r1", "%r2", "%r3", "7"]))


@st.composite
def instruction(draw: Any) -> str:
    d, a, b, c = draw(register), draw(register), draw(source), draw(register)
    guard = draw(st.sampled_from(["", "", "@%p1 ", "@!%p2 "]))
    distance = draw(st.sampled_from([1, 2, 4, 8, 16]))
    return draw(
        st.sampled_from(
            [
                f"{guard}add.u32 {d}, {a}, {b};",
                f"{guard}sub.u32 {d}, {a}, {b};",
                f"{guard}min.s32 {d}, {a}, {b};",
                f"{guard}xor.b32 {d}, {a}, {b};",
                f"{guard}mov.u32 {d}, {b};",
                f"mad.lo.u32 {d}, {a}, {b}, {c};",
                f"setp.lt.s32 %p1, {a}, {b};",
                f"setp.eq.and.u32 %p2, {a}, {b}, %p1;",
                f"selp.b32 {d}, {a}, {b}, %p1;",
                f"add.cc.u32 {d}, {a}, {b}; addc.u32 {c}, {c}, {d};",
                f"shfl.sync.bfly.b32 {d}, {a}, {distance}, 31, -1;",
                f"shfl.sync.idx.b32 {d}, {a}, {distance}, 31, -1;",
                f"shfl.sync.up.b32 {d}|%p3, {a}, {distance}, 0, -1; selp.b32 {d}, {d}, {b}, %p3;",
                f"shfl.sync.bfly.b32 %r13, {a}, {distance}, 31, -1; add.s32 {d}, {a}, %r13;",
                f"shfl.sync.bfly.b32 %r13, {a}, {distance}, 31, -1; sub.s32 {d}, {a}, %r13;",
                f"redux.sync.add.s32 {d}, {a}, -1;",
                f"vote.sync.any.pred %p1, %p2, -1; selp.b32 {d}, {a}, {b}, %p1;",
                f"st.shared.b32 [%r11], {a}; bar.sync 0; ld.shared.b32 {d}, [%r10]; bar.sync 0;",
                f"st.shared.b32 [%r11], {a}; ld.shared.b16 %h1, [%r11+2]; cvt.u32.u16 {d}, %h1;",
                f"ld.global.b32 {d}, [%rd1];",
                f"@%p1 ld.global.b32 {d}, [%rd2];",
                f"mov.b64 %rd4, {{{a}, {c}}}; mov.b64 {{{c}, {d}}}, %rd4;",
                f"@%p1 bra L{{0}}; add.u32 {d}, {a}, {b}; bra M{{0}};"
                f"L{{0}}: mov.u32 {d}, {c}; M{{0}}:",
            ]
        )
    )


def program(lines: list[str]) -> str:
    before = (
        ".shared .b8 tile[256]; and.b32 %r1, %r0, 31; mul.wide.u32 %rd1, %r1, 4;"
        "add.u64 %rd1, %rd1, %a0; mad.wide.u32 %rd2, %r0, 4, %a0; mov.u32 %r12, tile;"
        "mad.lo.u32 %r10, %r1, 4, %r12; mad.lo.u32 %r11, %r0, 4, %r12;"
        "ld.global.b32 %r2, [%rd1]; ld.global.b32 %r3, [%rd2];"
        "setp.lt.s32 %p1, %r2, 0; setp.lt.s32 %p2, %r3, %r2;"
    )
    start = "".join(f"mov.u32 %r{n}, %r{2 + n % 2};" for n in VALUES)
    body = "\n".join(line.replace("{0}", str(n)) for n, line in enumerate(lines))
    out = "mad.wide.u32 %rd3, %r0, 4, %a1;" + "".join(
        f"st.global.b32 [%rd3+{k * 4 * THREADS}], %r{n};" for k, n in enumerate(VALUES)
    )
    return f"{before}{start}{body}{out} ret;"


@settings(max_examples=60, deadline=None)
@given(st.lists(instruction(), min_size=1, max_size=12), st.integers(0, 1000))
def test_equal_numbers_are_equal_values(lines: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = [np.zeros(THREADS), *(rng.integers(-2, 3, THREADS) for _ in range(4))]
    tensors = {"a": data[0].astype(np.uint32), "out": ("u32", THREADS * len(VALUES))}
    kernel = Kernel(program(lines), tensors, threads=THREADS, unknown=("a",))
    plan = plan_of(kernel.module, "kernel")
    executor = Executor(plan, kernel.launch, None, fingerprints=True)
    executor.run()
    assert executor.fingerprints is not None
    stores = [
        item.ins
        for block in plan.blocks
        for item in block.code
        if isinstance(item, Do) and item.ins.name == "st" and "global" in item.ins.modifiers
    ]
    slots = [ins.src[1].slot for ins in stores]  # type: ignore[union-attr]
    assert len(slots) == len(VALUES)
    for values in data:
        kernel.data["a"] = values.astype(np.int32).view(np.uint32)
        out = kernel.run().tensors["out"].reshape(len(VALUES), THREADS)
        for slot, row in zip(slots, out, strict=True):
            numbers = executor.fingerprints.registers[slot]
            _, group = np.unique(numbers, return_inverse=True)
            for g in np.unique(group):
                assert len(np.unique(row[group == g])) == 1
