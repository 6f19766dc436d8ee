"""Branches, loops, calls, traps; branches on data that a trace does not have."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address, events, kinds
from xttir.analyses.events import Access, Exit
from xttir.diagnostics import InputError, Unsupported
from xttir.interp.ptx.plan import plan_of
from xttir.interp.ptx.trace import trace

STORE = f"{address('%rd1')} st.global.u32 [%rd1], %r3; ret;"


def _out(body: str, threads: int = 32, before: str = "") -> list[int]:
    kernel = Kernel(f"{body} {STORE}", {"out": ("u32", threads)}, threads=threads, before=before)
    outs = kernel.everywhere()
    assert all(np.array_equal(outs[0], o) for o in outs[1:])
    return outs[0].tolist()


def test_loops_whose_threads_leave_at_different_times() -> None:
    """Collatz steps of every lane."""
    body = (
        "add.u32 %r1, %r0, 1; mov.u32 %r3, 0; again: setp.le.u32 %p1, %r1, 1; @%p1 bra done;"
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra even; mad.lo.u32 %r1, %r1, 3, 1;"
        "bra next; even: shr.u32 %r1, %r1, 1; next: add.u32 %r3, %r3, 1; bra again; done:"
    )

    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert _out(body) == [steps(lane + 1) for lane in range(32)]


def test_lanes_meet_again_where_their_ways_do() -> None:
    """After a divergent loop everybody executes the store together."""
    body = (
        "and.b32 %r1, %r0, 3; mov.u32 %r3, 0; again: setp.eq.u32 %p1, %r1, 0; @%p1 bra done;"
        "sub.u32 %r1, %r1, 1; add.u32 %r3, %r3, 5; bra again; done:"
    )
    found = Kernel(f"{body} {STORE}", {"out": ("u32", 32)}).trace()
    (store,) = events(found, Access)
    assert store.lanes.size == 32
    (end,) = events(found, Exit)
    assert end.lanes.size == 32


def test_branches_by_index() -> None:
    body = (
        "and.b32 %r1, %r0, 3; targets: .branchtargets a, b, c, d; brx.idx %r1, targets;"
        "a: mov.u32 %r3, 10; bra end; b: mov.u32 %r3, 11; bra end; c: mov.u32 %r3, 12; bra end;"
        "d: mov.u32 %r3, 13; end:"
    )
    assert _out(body) == [10 + lane % 4 for lane in range(32)]


def test_calls_are_inlined_with_registers_of_their_own() -> None:
    before = (
        ".func (.param .b32 result) twice(.param .b32 x) { .reg .b32 %r<4>;"
        "ld.param.b32 %r1, [x]; add.u32 %r0, %r1, %r1; st.param.b32 [result], %r0; ret; }"
    )
    call = (
        "{{ .param .b32 in; .param .b32 out; st.param.b32 [in], {a};"
        "call.uni (out), twice, (in); ld.param.b32 {b}, [out]; }}"
    )
    body = call.format(a="%r0", b="%r1") + call.format(a="%r1", b="%r3")
    assert _out(body, before=before) == [4 * lane for lane in range(32)]


def test_guarded_exits_end_some_lanes() -> None:
    body = "mov.u32 %r3, 9; setp.gt.u32 %p1, %r0, 3; @%p1 exit;"
    assert _out(body) == [9] * 4 + [0] * 28


def test_traps_and_assertions_are_faults_where_they_are_reached() -> None:
    body = "mov.u32 %r3, 1; setp.gt.u32 %p1, %r0, 3; @!%p1 bra on; trap; on:"
    found = Kernel(f"{body} {STORE}", {"out": ("u32", 32)}).run()
    assert kinds(found) == ["assert"]
    assert found.faults[0].witness["lanes"] == [[4, 31]]
    assert found.tensors["out"].tolist() == [1] * 4 + [0] * 28
    assert kinds(Kernel(f"{body} {STORE}", {"out": ("u32", 32)}).trace()) == ["assert"]
    assert not Kernel(f"{body.replace('3;', '99;', 1)} {STORE}", {"out": ("u32", 32)}).run().faults


def test_printf_prints_nothing() -> None:
    before = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);"
    body = (
        "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], 0; st.param.b64 [a], 0;"
        "call.uni (r), vprintf, (f, a); ld.param.b32 %r3, [r]; }"
    )
    assert _out(body, before=before) == [0] * 32


def test_constants_and_module_variables() -> None:
    before = (
        ".const .align 4 .u32 table[4] = {3, 1, 4, 1}; .global .align 8 .u64 where[1] = {table};"
    )
    body = (
        "and.b32 %r1, %r0, 3; mov.u64 %rd2, table; mad.wide.u32 %rd2, %r1, 4, %rd2;"
        "ld.const.u32 %r3, [%rd2];"
    )
    assert _out(body, before=before) == [3, 1, 4, 1] * 8


def test_special_registers() -> None:
    body = (
        "mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r1, %r2,"
        "%r4; mov.u32 %r6, %laneid; mad.lo.u32 %r3, %r6, 100, %r5; mov.u32 %r7, %warpid;"
        "mad.lo.u32 %r3, %r7, 10000, %r3; mad.wide.u32 %rd1, %r5, 4, %a0;"
        "st.global.u32 [%rd1], %r3; ret;"
    )
    kernel = Kernel(body, {"out": ("u32", 64)}, threads=(8, 8, 1))
    wanted = [lane // 32 * 10000 + lane % 32 * 100 + lane for lane in range(64)]
    assert kernel.values().tolist() == wanted


def test_a_kernel_that_is_not_there_and_parameters_that_do_not_fit() -> None:
    kernel = Kernel("ret;", {"out": ("u32", 4)})
    with pytest.raises(InputError, match="no kernel `other`"):
        plan_of(kernel.module, "other")
    from dataclasses import replace

    with pytest.raises(InputError, match="1 parameters, the launch description gives 0"):
        trace(kernel.module, replace(kernel.launch, params=()))


# Unknown branches ---------------------------------------------------------------------------------

DATA = {"a": np.zeros(64, np.uint32), "out": ("u32", 64)}
LOAD = f"{address('%rd0')} ld.global.u32 %r1, [%rd0]; {address('%rd1', base='%a1')}"


def test_both_ways_are_taken_and_accesses_become_may() -> None:
    body = (
        f"{LOAD} mov.u32 %r4, 1; setp.gt.u32 %p1, %r1, 3; @%p1 bra big; mov.u32 %r3, 5;"
        "st.global.u32 [%rd1], %r3; bra on; big: mov.u32 %r3, 6; on: st.global.u32 [%rd1], %r4;ret;"
    )
    found = Kernel(body, DATA, unknown=("a",)).trace()
    load, arm, after = events(found, Access)
    assert not load.footprints[0].may
    assert arm.footprints[0].may
    assert not after.footprints[0].may
    assert after.lanes.size == 32
    assert len(events(found, Exit)) == 1


def test_registers_that_agree_stay_known_and_others_do_not() -> None:
    body = (
        f"{LOAD} mov.u32 %r4, 1; mov.u32 %r5, 2; setp.gt.u32 %p1, %r1, 3; @%p1 bra on;"
        "mov.u32 %r5, 3; on: mad.wide.u32 %rd2, {r}, 4, %a1; st.global.u32 [%rd2], %r4; ret;"
    )
    known = events(Kernel(body.replace("{r}", "%r4"), DATA, unknown=("a",)).trace(), Access)[-1]
    assert (known.footprints[0].size, known.footprints[0].may) == (4, False)
    either = events(Kernel(body.replace("{r}", "%r5"), DATA, unknown=("a",)).trace(), Access)[-1]
    assert (either.footprints[0].size, either.footprints[0].may) == (8, True)  # element 2 or 3


def test_only_the_lanes_that_do_not_know_go_both_ways() -> None:
    body = (
        f"{LOAD} setp.gt.u32 %p1, %r1, 3; setp.lt.u32 %p2, %r0, 8; and.pred %p3, %p1, %p2;"
        "@!%p3 bra on; st.global.u32 [%rd1], %r0; on: ret;"
    )
    (_, store) = events(Kernel(body, DATA, unknown=("a",)).trace(), Access)
    assert store.lanes.tolist() == list(range(8))
    assert store.footprints[0].may


def test_unknown_guards_of_accesses() -> None:
    body = f"{LOAD} setp.gt.u32 %p1, %r1, 3; mov.u32 %r3, 4; @%p1 st.global.u32 [%rd1], %r3; ret;"
    (_, store) = events(Kernel(body, DATA, unknown=("a",)).trace(), Access)
    assert store.footprints[0].may


def test_nested_unknown_branches_to_the_end_of_the_kernel() -> None:
    body = (
        f"{LOAD} setp.gt.u32 %p1, %r1, 3; @%p1 bra end; st.global.u32 [%rd1], %r0;"
        "setp.gt.u32 %p2, %r1, 1; @%p2 bra end; st.global.u32 [%rd1], %r0; end: ret;"
    )
    found = Kernel(body, DATA, unknown=("a",)).trace()
    assert [e.footprints[0].may for e in events(found, Access)] == [False, True, True]
    assert len(events(found, Exit)) == 1
    assert not found.blocked


def test_an_assertion_on_data_is_assumed() -> None:
    body = (
        f"{LOAD} setp.gt.u32 %p1, %r1, 3; @!%p1 bra on; trap; on: st.global.u32 [%rd1], %r0; ret;"
    )
    found = Kernel(body, DATA, unknown=("a",)).trace()
    assert not found.faults
    assert any("trap" in text for text in found.assumptions)
    (_, store) = events(found, Access)
    assert store.lanes.size == 32


@pytest.mark.parametrize(
    ("statement", "reason"),
    [("bar.sync 0;", "barrier.sync"), ("again: bar.warp.sync -1; add.u32 %r1, %r1, 1;"
     "setp.lt.u32 %p2, %r1, 9; @%p2 bra again;", "bar.warp.sync")],
)  # fmt: skip
def test_what_data_may_not_decide(statement: str, reason: str) -> None:
    body = f"{LOAD} setp.gt.u32 %p1, %r1, 3; @%p1 bra on; {statement} on: ret;"
    with pytest.raises(Unsupported, match="data") as caught:
        Kernel(body, DATA, unknown=("a",)).trace()
    assert reason in f"{caught.value} {caught.value.hint}"
    assert caught.value.location is not None


def test_random_data_decides_nothing_in_a_run() -> None:
    body = f"{LOAD} mov.u32 %r3, 4; setp.gt.u32 %p1, %r1, 31; @%p1 mov.u32 %r3, 9;"
    body += "st.global.u32 [%rd1], %r3; ret;"
    data = {"a": np.arange(0, 64, 2, dtype=np.uint32), "out": ("u32", 32)}
    assert Kernel(body, data).values().tolist() == [4] * 16 + [9] * 16
