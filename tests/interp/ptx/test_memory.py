"""ld, st, atom and red: widths, spaces, bounds, what nobody has written, what a trace knows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address, events, kinds
from xttir.analyses.events import Access, Mode, Scope, Sem, Space
from xttir.diagnostics import Unsupported

A = np.arange(1, 257, dtype=np.uint32) * 0x01020304
LOCAL = ".reg .b64 %q<4>; .local .align 8 .b8 depot[64];"


@pytest.mark.parametrize(
    ("type_", "dtype"), [("u8", "u1"), ("s8", "i1"), ("u16", "u2"), ("s16", "i2"), ("b32", "u4")]
)
def test_narrow_loads_are_extended(type_: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    body = (
        f"{address('%rd0', size=size)} ld.global.{type_} %r1, [%rd0];"
        f"{address('%rd1', base='%a1')} st.global.b32 [%rd1], %r1; ret;"
    )
    wanted = A.view(dtype)[:32].astype(np.int64).astype(np.uint32)
    np.testing.assert_array_equal(Kernel(body, {"a": A, "out": ("u32", 32)}).values(), wanted)


@pytest.mark.parametrize("space", ["global", "shared", "local", ""])
def test_vectors_through_every_space(space: str) -> None:
    through = {
        "global": f"{address('%rd4', size=16, base='%a1')}",
        "shared": "shl.b32 %r20, %r0, 4; mov.u32 %r21, tile; add.u32 %r20, %r20, %r21;",
        "local": "mov.b64 %rd4, depot;",
        "": "mov.b64 %rd5, depot; cvta.local.u64 %rd4, %rd5;",
    }[space]
    at = "%r20" if space == "shared" else "%rd4"
    dot = f".{space}" if space else ""
    body = (
        ".shared .align 16 .b8 tile[512]; .local .align 16 .b8 depot[16];"
        f"{through} {address('%rd0', size=16)} ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd0];"
        f"st{dot}.v2.b32 [{at}], {{%r1, %r2}}; st{dot}.v2.b32 [{at}+8], {{%r3, %r4}};"
        f"ld{dot}.v2.b64 {{%rd10, %rd11}}, [{at}];"
        f"{address('%rd1', size=16, base='%a1')} st.global.v2.b64 [%rd1], {{%rd11, %rd10}}; ret;"
    )
    tensors = {"a": A[:128], "out": ("u32", 128)}
    wanted = A[:128].reshape(32, 4)[:, [2, 3, 0, 1]].reshape(-1)
    np.testing.assert_array_equal(Kernel(body, tensors).values(), wanted)


def test_generic_addresses_lead_to_different_spaces() -> None:
    body = (
        ".shared .align 4 .b32 word; mov.u32 %r1, 7; st.shared.u32 [word], %r1; bar.sync 0;"
        "mov.u64 %rd1, word; cvta.shared.u64 %rd1, %rd1; setp.lt.u32 %p1, %r0, 5;"
        "selp.b64 %rd2, %rd1, %a0, %p1; ld.u32 %r2, [%rd2]; isspacep.shared %p2, %rd2;"
        f"@%p2 add.u32 %r2, %r2, 100; {address('%rd3', base='%a1')} st.global.u32 [%rd3], %r2; ret;"
    )
    out = Kernel(body, {"a": np.full(1, 9, np.uint32), "out": ("u32", 32)}).values()
    assert out.tolist() == [107] * 5 + [9] * 27


@pytest.mark.parametrize("delta", [-4, 128, 126])
def test_out_of_bounds_and_misaligned_are_reported_when_run_and_traced(delta: int) -> None:
    body = f"ld.global.u32 %r1, [%a0+{delta}]; ret;"
    kernel = Kernel(body, {"a": A[:32]})
    wanted = "undefined" if delta % 4 else "out-of-bounds"
    for found in (kernel.run(), kernel.trace()):
        assert wanted in kinds(found)
        assert found.faults[0].locations[0].line


def test_only_the_lanes_beyond_the_end_are_named() -> None:
    body = f"{address('%rd0')} ld.global.u32 %r1, [%rd0]; ret;"
    (fault,) = Kernel(body, {"a": A[:20]}).run().faults
    assert fault.witness["lanes"] == [[20, 31]]
    assert "`a`" in fault.message


def test_reads_of_what_nobody_wrote() -> None:
    body = (
        ".shared .align 4 .b8 tile[128]; shl.b32 %r1, %r0, 2; mov.u32 %r2, tile;"
        "add.u32 %r1, %r1, %r2; setp.lt.u32 %p1, %r0, 30; @%p1 st.shared.u32 [%r1], %r0;"
        "ld.shared.u32 %r3, [%r1]; ld.global.u32 %r4, [%a0]; ret;"
    )
    kernel = Kernel(body, {"out": ("u32", 1)})
    for found in (kernel.run(), kernel.trace()):
        assert kinds(found) == ["uninitialized", "uninitialized"]
        assert found.faults[0].witness["lanes"] == [[30, 31]]
    assert Kernel(body.replace("lt.u32", "lt.u32").replace("30", "32"), {"a": A}).run().faults == []


def test_a_trace_knows_what_was_computed_and_not_what_was_given() -> None:
    body = (
        "ld.global.u32 %r1, [%a0]; mov.u32 %r2, 5; st.global.u32 [%a1], %r2;"
        "ld.global.u32 %r3, [%a1]; mad.wide.u32 %rd1, %r3, 4, %a0; ld.global.u32 %r4, [%rd1]; ret;"
    )
    found = Kernel(body, {"a": A, "out": ("u32", 8)}, unknown=("a",)).trace()
    assert not found.faults
    last = events(found, Access)[-1]
    assert (
        last.footprints[0].starts[0, 0] - events(found, Access)[0].footprints[0].starts[0, 0] == 20
    )


def test_an_unknown_address_stops_the_trace() -> None:
    from xttir.diagnostics import Unsupported

    body = "ld.global.u64 %rd1, [%a0]; ld.global.u32 %r2, [%rd1];ret;"
    with pytest.raises(Unsupported, match="depends on data") as caught:
        Kernel(body, {"a": A}, unknown=("a",)).trace()
    assert caught.value.location is not None
    assert caught.value.location.line


def test_accesses_are_events_with_their_footprints() -> None:
    body = (
        ".shared .align 4 .b8 tile[128]; shl.b32 %r1, %r0, 2; mov.u32 %r2, tile;"
        "add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; ld.volatile.shared.u32 %r3, [%r1];"
        "red.release.sys.global.add.u32 [%a0], 1; ret;"
    )
    store, load, red = events(Kernel(body, {"a": A}).trace(), Access)
    assert (store.sem, load.sem, load.scope) == (Sem.WEAK, Sem.VOLATILE, Scope.SYS)
    assert (red.sem, red.scope, red.footprints[0].mode) == (Sem.RELEASE, Scope.SYS, Mode.RMW)
    (print_,) = store.footprints
    assert print_.space is Space.SHARED
    assert print_.mode is Mode.WRITE
    assert print_.size == 4
    np.testing.assert_array_equal(print_.starts[:, 0], 4 * np.arange(32))
    np.testing.assert_array_equal(store.lanes, np.arange(32))


# Atomics ------------------------------------------------------------------------------------------

_ATOMICS = {
    "add.u32": lambda old, b: (old + b) % 2**32,
    "and.b32": lambda old, b: old & b,
    "or.b32": lambda old, b: old | b,
    "xor.b32": lambda old, b: old ^ b,
    "min.u32": min,
    "max.u32": max,
    "max.s32": lambda old, b: max((old, b), key=lambda x: x - 2**32 * (x >> 31)),
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("operation", _ATOMICS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_lanes_of_an_atomic_follow_one_another(operation: str, space: str) -> None:
    place = "[%rd5]" if space == "global" else "[%r21]"
    body = (
        ".shared .align 4 .b8 tile[16]; rem.u32 %r1, %r0, 3; mov.u32 %r20, tile;"
        f"shl.b32 %r21, %r1, 2; add.u32 %r21, %r21, %r20; {address('%rd5', '%r1')}"
        f"{address('%rd6')} ld.global.u32 %r2, [%rd6]; ld.global.u32 %r4, [%rd5];"
        "st.shared.u32 [%r21], %r4; bar.sync 0;"
        f"atom.{space}.{operation} %r3, {place}, %r2;"
        f"{address('%rd7', base='%a1')} st.global.u32 [%rd7], %r3; ret;"
    )
    a = A[:32].copy()
    seen, memory = [], [int(x) for x in a[:3]]
    for lane, b in enumerate(a.tolist()):
        old = memory[lane % 3]
        seen.append(old)
        memory[lane % 3] = _ATOMICS[operation](old, b)
    kernel = Kernel(body, {"a": a, "out": ("u32", 32)})
    assert kernel.values().tolist() == seen
    if space == "global":
        assert kernel.run().tensors["a"][:3].tolist() == memory


def test_compare_and_swap_and_what_lanes_observe() -> None:
    body = f"atom.global.cas.b32 %r1, [%a0], 0, %r0; {address('%rd1', base='%a1')}"
    body += "st.global.u32 [%rd1], %r1; ret;"
    kernel = Kernel(body, {"a": np.zeros(1, np.uint32), "out": ("u32", 32)}, threads=64)
    kernel = Kernel(
        f"add.u32 %r0, %r0, 1; atom.global.cas.b32 %r1, [%a0], 0, %r0; sub.u32 %r0, %r0, 1;"
        f"{address('%rd1', base='%a1')} st.global.u32 [%rd1], %r1; ret;",
        {"a": np.zeros(1, np.uint32), "out": ("u32", 32)},
    )
    assert kernel.values().tolist() == [0] + [1] * 31
    atomic = events(kernel.trace(), Access)[0]
    assert atomic.observed.tolist() == [-1] + [0] * 31  # event 0 is the atomic itself


def test_floats_and_wide_atomics() -> None:
    body = (
        "cvt.rn.f64.u32 %d0, %r0; red.global.add.f64 [%a0], %d0;"
        "cvt.u64.u32 %rd1, %r0; red.global.max.u64 [%a0+8], %rd1; ret;"
    )
    out = Kernel(body, {"a": np.zeros(2, np.float64)}).run().tensors["a"]
    assert out[0] == sum(range(32))
    assert out.view(np.uint64)[1] == 31


def test_unknown_operands_make_the_location_unknown() -> None:
    body = (
        "ld.global.u32 %r1, [%a0]; mov.u32 %r2, 3; st.global.u32 [%a1], %r2;"
        "red.global.add.u32 [%a1], %r1; ld.global.u32 %r3, [%a1]; setp.eq.u32 %p1, %r3, 3;"
        "@%p1 st.global.u32 [%a1+4], %r2; ret;"
    )
    found = Kernel(body, {"a": A, "out": ("u32", 8)}, unknown=("a",)).trace()
    assert events(found, Access)[-1].footprints[0].may


def test_remote_shared_memory_of_a_cluster() -> None:
    body = (
        ".shared .align 4 .b8 box[128]; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;"
        "shl.b32 %r3, %r0, 2; mov.u32 %r4, box; add.u32 %r3, %r3, %r4;"
        "mapa.shared::cluster.u32 %r5, %r3, %r2; mad.lo.u32 %r6, %r1, 100, %r0;"
        "st.shared::cluster.u32 [%r5], %r6; barrier.cluster.arrive.aligned;"
        "barrier.cluster.wait.aligned; ld.shared.u32 %r7, [%r3]; mad.lo.u32 %r8, %r1, 32, %r0;"
        f"getctarank.shared::cluster.u32 %r9, %r5; mad.lo.u32 %r7, %r9, 1000, %r7;"
        f"{address('%rd1', '%r8')} st.global.u32 [%rd1], %r7; ret;"
    )
    kernel = Kernel(body, {"out": ("u32", 64)}, blocks=2, cluster=2)
    wanted = [1100 + lane for lane in range(32)] + list(range(32))
    for out in kernel.everywhere():
        assert out.tolist() == wanted
    store = events(kernel.trace(), Access)[0]
    assert set(store.footprints[0].cta[:32].flat) == {1}


def test_constants_looked_up_by_unknown_data() -> None:
    body = (
        f"{address('%rd0')} ld.global.u32 %r1, [%rd0]; and.b32 %r1, %r1, 3; mov.u64 %rd1, table;"
        "mad.wide.u32 %rd1, %r1, 4, %rd1; ld.const.u32 %r2, [%rd1];"
        f"{address('%rd2', base='%a1')} st.global.u32 [%rd2], %r2; ret;"
    )
    table = ".const .align 4 .b32 table[4] = {7, 8, 9, 10};"
    kernel = Kernel(body, {"a": A[:32], "out": ("u32", 32)}, before=table, unknown=("a",))
    np.testing.assert_array_equal(kernel.values(), 7 + (A[:32] & 3))
    trace = kernel.trace()
    assert not trace.faults
    assert len(events(trace, Access)) == 2
    assert [a for a in trace.assumptions if "constants looked up by data" in a]
    known = Kernel(body, {"a": A[:32], "out": ("u32", 32)}, before=table)
    assert not known.trace().assumptions


def test_other_memory_at_unknown_addresses_stops_the_trace() -> None:
    body = "ld.global.u64 %rd1, [%a0]; ld.global.u32 %r2, [%rd1]; st.global.u32 [%a1], %r2; ret;"
    kernel = Kernel(body, {"a": A[:32], "out": ("u32", 1)}, unknown=("a",))
    with pytest.raises(Unsupported, match="depends on data"):
        kernel.trace()


def test_a_launch_of_too_many_threads_is_refused_at_once() -> None:
    kernel = Kernel("ret;", {}, threads=1024, blocks=1 << 20)
    with pytest.raises(Unsupported, match="1,073,741,824 threads"):
        kernel.trace()
