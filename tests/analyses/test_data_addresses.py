"""Addresses and loops that data decides: what holds for all data of the declared ranges is
verified, what fails for some data is refuted, and where more must be known it is left open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interp.ptx.kernels import REGISTERS, address
from xttir.analyses.launches import verify_launch
from xttir.analyses.verify import Report
from xttir.diagnostics import Kind, Unsupported, Verdict
from xttir.frontends.launch_description import from_dict
from xttir.frontends.ptx import parse_ptx

TENSORS: dict[str, Any] = {
    "index": {"dtype": "i32", "shape": [64], "role": "in", "range": [0, 7]},
    "table": {"dtype": "u32", "shape": [64], "role": "inout"},
    "out": {"dtype": "u32", "shape": [128], "role": "out"},
}
SHARED = ".shared .align 16 .b8 bins[64];"


def report(body: str, blocks: int = 1, threads: int = 64, **index: Any) -> Report:
    params = ",".join(f".param .u64 p{n}" for n in range(3))
    loads = "".join(f"ld.param.u64 %a{n}, [p{n}];" for n in range(3))
    text = (
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        f".visible .entry kernel({params})\n{{\n{REGISTERS}\n{loads}\n{body}\n}}\n"
    )
    tensors = dict(TENSORS)
    if index:
        spec = {k: v for k, v in {**TENSORS["index"], **index}.items() if v is not None}
        tensors["index"] = spec
    launch = from_dict(
        {
            "entry": "kernel",
            "arch": "sm_90a",
            "grid": [blocks, 1, 1],
            "block": [threads, 1, 1],
            "tensors": tensors,
            "params": [{"pointer": name} for name in tensors],
        }
    )
    return verify_launch(parse_ptx(text, "kernel.ptx"), launch)[1]


def kinds(found: Report) -> set[Kind]:
    return {f.kind for f in found.faults}


INDEX = address("%rd1") + "ld.global.u32 %r1, [%rd1];"
BIN = "shl.b32 %r2, %r1, 2; mov.u32 %r3, bins; add.u32 %r2, %r2, %r3;"
CLEAR = (
    "setp.gt.u32 %p1, %r0, 15; @%p1 bra clear; shl.b32 %r4, %r0, 2; mov.u32 %r5, bins;"
    "add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], 0; clear: {0}"
)
FLUSH = (
    "{1} @%p1 bra end; ld.shared.u32 %r6, [%r4];"
    + address("%rd2", base="%a2")
    + "st.global.u32 [%rd2], %r6; end: ret;"
)
COUNT = "atom.shared.add.u32 %r7, [%r2], 1;"
PLAIN = "ld.shared.u32 %r7, [%r2]; add.u32 %r7, %r7, 1; st.shared.u32 [%r2], %r7;"


@pytest.mark.parametrize(
    ("count", "first", "second", "fine"),
    [
        (COUNT, "bar.sync 0;", "bar.sync 0;", True),
        (COUNT, "", "bar.sync 0;", False),
        (COUNT, "bar.sync 0;", "", False),
        (PLAIN, "bar.sync 0;", "bar.sync 0;", False),
    ],
)
def test_a_histogram_in_shared_memory(count: str, first: str, second: str, fine: bool) -> None:
    body = SHARED + CLEAR + INDEX + BIN + count + FLUSH
    found = report(body.replace("{0}", first).replace("{1}", second))
    assert (found.verdict is Verdict.VERIFIED) is fine
    assert kinds(found) == (set() if fine else {Kind.RACE})


def test_values_in_the_range_that_leave_the_memory() -> None:
    cleared = SHARED + CLEAR.replace("{0}", "bar.sync 0;")
    body = cleared + INDEX + BIN + COUNT + "ret;"
    assert report(body).verdict is Verdict.VERIFIED
    assert kinds(report(body, range=[0, 15])) == set()
    assert kinds(report(body, range=[0, 16])) == {Kind.OUT_OF_BOUNDS}
    assert kinds(report(body, range=[-1, 15])) == {Kind.OUT_OF_BOUNDS}
    # Behind a test of the value it may be excluded: an assumption.
    tested = cleared + INDEX + BIN + "setp.gt.u32 %p2, %r1, 15; @!%p2 " + COUNT + "ret;"
    found = report(tested, range=[-1, 15])
    assert found.verdict is Verdict.VERIFIED
    assert any("depend on data" in a for a in found.assumptions)


GATHER = (
    INDEX
    + address("%rd2", "%r1", base="%a1")
    + "ld.global.u32 %r5, [%rd2];"
    + address("%rd3", base="%a2")
    + "st.global.u32 [%rd3], %r5; ret;"
)


def test_a_gather_without_a_range_is_in_its_table_by_assumption() -> None:
    assert report(GATHER, blocks=1).verdict is Verdict.VERIFIED
    found = report(GATHER, range=None)
    assert found.verdict is Verdict.VERIFIED
    assert any("in `table`" in a for a in found.assumptions)


def test_a_gather_from_what_others_write() -> None:
    """Element 0 is written by thread 0, and may be read by all."""
    body = "setp.eq.u32 %p3, %r0, 0; @%p3 st.global.u32 [%a1{0}], 1; {1}" + GATHER
    assert kinds(report(body.format("", ""))) == {Kind.RACE}
    assert report(body.format("", "bar.sync 0;")).verdict is Verdict.VERIFIED
    # Beyond the range nobody reads.
    assert report(body.format("+32", "")).verdict is Verdict.VERIFIED
    # Without one it is not known.
    assert report(body.format("+32", ""), range=None).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("operation", ["red.global.add.u32 [%rd2], 1;", "st.global.u32 [%rd2], 1;"])
def test_a_scatter(operation: str) -> None:
    body = INDEX + address("%rd2", "%r1", base="%a1") + operation + "ret;"
    found = report(body)
    assert found.verdict is (Verdict.VERIFIED if "red" in operation else Verdict.FAULT)
    every = list(range(64))
    assert report(body, range=None, init=every).verdict is Verdict.VERIFIED


LOOP = (
    "ld.global.u32 %r1, [%a0]; ld.global.u32 %r2, [%a0+4]; mov.u32 %r3, 0;"
    "again: setp.ge.u32 %p1, %r1, %r2; @%p1 bra done;"
    + address("%rd2", "%r1", base="%a1")
    + "{0} ld.global.u32 %r4, [%rd2]; add.u32 %r3, %r3, %r4; add.u32 %r1, %r1, 1; bra again;"
    "done: " + address("%rd3", "{1}", base="%a2") + "st.global.u32 [%rd3], %r3; ret;"
)


def test_a_loop_as_long_as_data_says() -> None:
    assert report(LOOP.format("", "%r0")).verdict is Verdict.VERIFIED
    assert kinds(report("and.b32 %r8, %r0, 31;" + LOOP.format("", "%r8"))) == {Kind.RACE}
    found = report(LOOP.format("st.global.u32 [%rd2], 3;", "%r0"))
    assert found.verdict is Verdict.UNKNOWN


def test_what_a_round_stores_the_next_one_reads() -> None:
    """Shared memory says which element is written, and each round moves it on: the fifth one comes
    to the elements of the next thread."""
    body = (
        SHARED + "ld.global.u32 %r1, [%a0]; mov.u32 %r5, bins; shl.b32 %r6, %r0, 2; and.b32 %r6, "
        "%r6, 63; add.u32 %r5, %r5, %r6; setp.gt.u32 %p4, %r0, 15; @%p4 bra end;"
        "st.shared.u32 [%r5], %r6;"
        "again: ld.shared.u32 %r7, [%r5];"
        + address("%rd2", "%r7", base="%a2")
        + "st.global.u32 [%rd2], 1; add.u32 %r7, %r7, 1; st.shared.u32 [%r5], %r7;"
        "sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again; end: ret;"
    )
    assert report(body).verdict is Verdict.UNKNOWN


def test_barriers_in_such_a_loop_are_named() -> None:
    with pytest.raises(Unsupported, match="depends on data") as caught:
        report(LOOP.format("bar.sync 0;", "%r0"))
    assert "barrier.sync" in caught.value.hint
    assert "`init`" in caught.value.hint


def test_a_loop_that_waits_for_memory_of_unknown_contents_is_named() -> None:
    body = "again: ld.acquire.gpu.u32 %r1, [%a1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret;"
    with pytest.raises(Unsupported, match="depends on data") as caught:
        report(body)
    assert "waits for memory" in caught.value.hint


def test_copies_of_pages_that_a_table_names() -> None:
    body = (
        ".shared .align 16 .b8 tile[1024];"
        "ld.global.u32 %r1, [%a0]; shl.b32 %r2, %r1, 4; mov.u32 %r4, tile; shl.b32 %r5, %r0, 4;"
        "add.u32 %r4, %r4, %r5; mul.wide.u32 %rd2, %r2, 1; add.s64 %rd2, %rd2, %a1;"
        "cp.async.cg.shared.global [%r4], [%rd2], 16; cp.async.commit_group;"
        "{0} ld.shared.u32 %r6, [%r4];" + address("%rd3", base="%a2") + "st.global.u32 [%rd3], %r6;"
        "ret;"
    )
    assert report(body.format("cp.async.wait_group 0;")).verdict is Verdict.VERIFIED
    assert kinds(report(body.format(""))) == {Kind.RACE}


def test_many_pairs_that_are_not_decided_are_one_sentence() -> None:
    """Rows that data permutes: one reason, however many accesses there are."""
    write = INDEX + address("%rd2", "%r1", base="%a1")
    stores = "".join(f"st.global.u32 [%rd2+{4 * n}], {n};" for n in range(12))
    found = report(write + stores + "ret;", range=None)
    assert found.verdict is Verdict.UNKNOWN
    (sentence,) = found.unknown
    assert "more pairs, at lines" in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("cleared", "index", "expected"),
    [
        (16, {}, set()),
        (0, {}, {Kind.UNINITIALIZED}),
        (0, {"range": None}, {Kind.UNINITIALIZED}),
        (8, {}, set()),
        (7, {}, {Kind.UNINITIALIZED}),
        (7, {"range": None}, set()),  # an assumption
    ],
)
@pytest.mark.parametrize("read", [COUNT, "ld.shared.u32 %r7, [%r2]; st.global.u32 [%rd1], %r7;"])
def test_reads_by_data_of_what_nobody_has_written(
    read: str, cleared: int, index: dict[str, Any], expected: set[Kind]
) -> None:
    clear = CLEAR.replace("%p1, %r0, 15", f"%p1, %r0, {cleared}").replace("gt", "ge")
    found = report(
        SHARED + clear.replace("{0}", "bar.sync 0;") + INDEX + BIN + read + "ret;", **index
    )
    assert kinds(found) == expected
    assumed = any("has been written before" in a for a in found.assumptions)
    assert assumed is (not expected and cleared == 7)


def test_a_scaled_index_that_is_masked_keeps_its_range() -> None:
    """Compilers mask after the shift: all of the range is still reached."""
    masked = BIN.replace("mov.u32 %r3", "and.b32 %r2, %r2, 28; mov.u32 %r3")
    body = SHARED + CLEAR + INDEX + masked + COUNT + "ret;"
    assert kinds(report(body.replace("{0}", ""))) == {Kind.RACE}
    assert report(body.replace("{0}", "bar.sync 0;")).verdict is Verdict.VERIFIED
