"""Asynchronous copies through whole kernels: bytes, footprints, groups, barriers, traps."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interp.ptx.async_kernels import AsyncKernel, events, faults, wait
from xttir.analyses.events import (
    Access,
    Arrive,
    AsyncOp,
    ByBytes,
    ByGroup,
    GroupWait,
    Mode,
    Proxy,
    ProxyFence,
    Space,
)

WORDS = np.arange(1, 129, dtype=np.uint32)
# Thread t's word of shared memory to the second tensor.
OUT = """
    mov.u32 %r20, dyn;
    mad.lo.u32 %r20, %r0, 4, %r20;
    ld.shared.u32 %r21, [%r20];
    mul.wide.u32 %rd20, %r0, 4;
    add.s64 %rd20, %rd20, %a1;
    st.global.u32 [%rd20], %r21;
"""
# Addresses of 16 bytes a thread.
SIXTEEN = """
    mov.u32 %r10, dyn;
    mad.lo.u32 %r10, %r0, 16, %r10;
    mul.wide.u32 %rd10, %r0, 16;
    add.s64 %rd10, %rd10, %a0;
"""
BARRIER = """
    mov.u32 %r30, dyn+4096;
    setp.ne.u32 %p1, %r0, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [%r30], {count};
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""


def words(body: str, threads: int = 32, **more: Any) -> AsyncKernel:
    """A kernel with 128 words in and a word a thread out."""
    return AsyncKernel(
        body, {"in": WORDS, "out": ("u32", (threads,))}, threads=threads, dynamic=8192, **more
    )


# cp.async -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["first", "adversarial"])
def test_cp_async_fills_with_zeros(schedule: str):
    kernel = words(
        SIXTEEN
        + """
        and.b32 %r11, %r0, 15;
        cp.async.ca.shared.global [%r10], [%rd10], 16, %r11;
        cp.async.wait_all;
        bar.sync 0;
        """
        + OUT,
    )
    got = kernel.values(schedule=schedule)
    want = WORDS.view(np.uint8).copy().reshape(32, 16)
    for t in range(32):
        want[t, t & 15 :] = 0
    assert (got == want.reshape(-1).view(np.uint32)[:32]).all()


def test_cp_async_events():
    kernel = words(
        SIXTEEN
        + """
        setp.lt.u32 %p2, %r0, 8;
        cp.async.cg.shared.global [%r10], [%rd10], 16, %p2;
        cp.async.commit_group;
        cp.async.wait_group 0;
        """
    )
    found = kernel.trace()
    (copy,) = events(found, AsyncOp)
    assert isinstance(copy.completion, ByGroup)
    read, write = copy.footprints
    assert (read.space, read.mode, read.size, read.proxy) == (
        Space.GLOBAL,
        Mode.READ,
        16,
        Proxy.GENERIC,
    )
    assert (read.starts[:8] == -1).all()  # ignore-src
    assert (np.diff(read.starts[8:, 0]) == 16).all()
    assert (write.starts[:, 0] == 16 * np.arange(32)).all()
    assert events(found, GroupWait)[0].pending == 0


TWO_GROUPS = (
    SIXTEEN
    + """
    cp.async.cg.shared.global [%r10], [%rd10], 16;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r10+512], [%rd10], 16;
    cp.async.commit_group;
    cp.async.wait_group {pending};
    bar.sync 0;
    """
    + OUT.replace("[%r20]", "[%r20+512]")
)


def test_groups_complete_when_they_are_waited_for():
    assert (words(TWO_GROUPS.format(pending=0)).values(schedule="adversarial") == WORDS[:32]).all()
    late = words(TWO_GROUPS.format(pending=1)).run("adversarial")
    assert faults(late) == ["uninitialized"]


@pytest.mark.parametrize("noinc", [False, True])
def test_arrival_behind_copies(noinc: bool):
    body = SIXTEEN + BARRIER.format(count=32)
    body += "cp.async.cg.shared.global [%r10], [%rd10], 16;"
    if noinc:
        body += "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r30];"
    else:
        body += """
        cp.async.mbarrier.arrive.shared::cta.b64 [%r30];
        mbarrier.arrive.shared::cta.b64 %rd11, [%r30];
        """
    kernel = words(body + wait("%r30") + OUT)
    for schedule in ("first", "adversarial"):
        assert (kernel.values(schedule=schedule) == WORDS[:32]).all()
    (arrive,) = (e for e in events(kernel.trace(), Arrive) if e.by == "cp.async")
    assert arrive.noinc is noinc


def test_misaligned_copies():
    body = SIXTEEN + "cp.async.cg.shared.global [%r10+4], [%rd10], 16;"
    assert faults(words(body).trace()) == ["undefined"]


# Bulk copies --------------------------------------------------------------------------------------

LOAD = (
    BARRIER.format(count=1)
    + """
    mov.u32 %r31, dyn;
    @%p1 bra COPIED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], {announced};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r31], [%a0], {size}, [%r30];
COPIED:
    """
    + wait("%r30")
    + OUT
)


@pytest.mark.parametrize("schedule", ["first", "adversarial"])
def test_bulk_load(schedule: str):
    kernel = words(LOAD.format(announced=128, size=128))
    assert (kernel.values(schedule=schedule) == WORDS[:32]).all()


def test_bulk_load_events_and_traps():
    found = words(LOAD.format(announced=128, size=128)).trace()
    (copy,) = events(found, AsyncOp)
    assert isinstance(copy.completion, ByBytes)
    assert copy.completion.address.tolist() == [[4096]]
    assert copy.completion.bytes.tolist() == [[128]]
    assert {f.proxy for f in copy.footprints} == {Proxy.ASYNC}
    assert faults(words(LOAD.format(announced=128, size=120)).trace()) == ["undefined"]
    assert "out-of-bounds" in faults(words(LOAD.format(announced=1024, size=1024)).trace())


def test_bulk_store_waits_for_its_group():
    body = """
    mov.u32 %r31, dyn;
    mad.lo.u32 %r32, %r0, 4, %r31;
    mad.lo.u32 %r33, %r0, 3, 7;
    st.shared.u32 [%r32], %r33;
    fence.proxy.async;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra STORED;
    cp.async.bulk.global.shared::cta.bulk_group [%a1], [%r31], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{read} 0;
    st.shared.u32 [%r31], 0;
STORED:
    """
    for schedule in ("first", "adversarial"):
        kernel = words(body.format(read=".read"))
        assert (kernel.values(schedule=schedule) == 3 * np.arange(32) + 7).all()
    unwaited = body.replace("cp.async.bulk.wait_group{read} 0;", "")
    assert words(unwaited).run("adversarial").tensors["out"].view(np.uint32)[0] == 0


@pytest.mark.parametrize(
    ("form", "dtype"), [("add.u32", "uint32"), ("add.f32", "float32"), ("max.s32", "int32")]
)
def test_bulk_reduction(form: str, dtype: str):
    """Two blocks add the same 32 elements to one place."""
    data = np.arange(32).astype(dtype)
    body = (
        SIXTEEN
        + """
        setp.lt.u32 %p2, %r0, 8;
        @%p2 cp.async.cg.shared.global [%r10], [%rd10], 16;
        cp.async.wait_all;
        fence.proxy.async;
        bar.sync 0;
        setp.ne.u32 %p1, %r0, 0;
        mov.u32 %r31, dyn;
        @!%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.FORM [%a1], [%r31], 128;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        """.replace("FORM", form)
    )
    start = np.full(32, 5).astype(dtype)
    kernel = AsyncKernel(body, {"in": data, "out": start}, threads=32, blocks=2, dynamic=8192)
    want = np.maximum(start, data) if "max" in form else start + 2 * data
    assert (kernel.values() == want).all()


@pytest.mark.parametrize("cleared", [True, False])
def test_a_reduction_reads_what_is_there(cleared: bool):
    """Data is unknown in a trace, and whether anybody has written it is not."""
    body = (
        BARRIER.format(count=1)
        + """
        mov.u32 %r31, dyn;
        shl.b32 %r32, %r0, 2;
        add.u32 %r33, %r31, %r32;
        st.shared.u32 [%r33], %r0;
        CLEAR
        fence.proxy.async;
        bar.sync 0;
        @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
        add.u32 %r34, %r31, 128;
        ld.global.u32 %r35, [%a0];
        @!%p1 st.shared.u32 [%r31], %r35;
        fence.proxy.async;
        @!%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
            [%r34], [%r31], 128, [%r30];
        """.replace("CLEAR", "st.shared.u32 [%r33+128], 0;" if cleared else "")
        + wait("%r30")
        + OUT
    )
    tensors = {"in": WORDS, "out": ("u32", (32,))}
    found = AsyncKernel(body, tensors, threads=32, dynamic=8192).trace()
    assert faults(found) == ([] if cleared else ["uninitialized"])


@pytest.mark.parametrize("schedule", ["first", "adversarial"])
def test_multicast_writes_and_signals_every_block(schedule: str):
    body = (
        BARRIER.format(count=1)
        + """
        @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        mov.u32 %r31, dyn;
        mov.u32 %r32, %cluster_ctarank;
        setp.ne.or.u32 %p2, %r32, 0, %p1;
        mov.u16 %h0, 3;
        @!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [%r31], [%a0], 128, [%r30], %h0;
        """
        + wait("%r30")
        + """
        mul.wide.u32 %rd21, %r32, 128;
        add.s64 %a1, %a1, %rd21;
        """
        + OUT
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    kernel = AsyncKernel(
        body,
        {"in": WORDS, "out": ("u32", (2, 32))},
        threads=32,
        blocks=2,
        cluster=2,
        dynamic=8192,
    )
    got = kernel.values(schedule=schedule)
    assert (got == WORDS[:32]).all()
    (copy,) = events(kernel.trace(), AsyncOp)
    assert copy.completion.cta.tolist() == [[0, 1]]
    assert copy.footprints[1].cta.tolist() == [[0, 1]]


PEER = """
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r32, %cluster_ctarank;
    xor.b32 %r33, %r32, 1;
    mov.u32 %r31, dyn;
    mapa.shared::cluster.u32 %r34, %r31, %r33;
    mapa.shared::cluster.u32 %r35, %r30, {bar};
"""


def test_copy_to_another_block():
    body = (
        BARRIER.format(count=1)
        + "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;"
        + """
        mov.u32 %r36, dyn;
        mad.lo.u32 %r36, %r0, 4, %r36;
        mov.u32 %r37, %cluster_ctarank;
        mad.lo.u32 %r37, %r37, 1000, %r0;
        st.shared.u32 [%r36+1024], %r37;
        fence.proxy.async;
        """
        + PEER.format(bar="%r33")
        + """
        add.u32 %r38, %r31, 1024;
        @!%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
            [%r34], [%r38], 128, [%r35];
        """
        + wait("%r30")
        + "mul.wide.u32 %rd21, %r32, 128; add.s64 %a1, %a1, %rd21;"
        + OUT
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    tensors = {"in": WORDS, "out": ("u32", (2, 32))}
    more = {"threads": 32, "blocks": 2, "cluster": 2, "dynamic": 8192}
    kernel = AsyncKernel(body, tensors, **more)
    got = kernel.values()
    assert got.tolist() == [list(range(1000, 1032)), list(range(32))]
    # The barrier must be where the data goes.
    wrong = AsyncKernel(body.replace("%r35, %r30, %r33", "%r35, %r30, %r32"), tensors, **more)
    assert "misuse" in faults(wrong.trace())


@pytest.mark.parametrize("reduction", [False, True])
def test_remote_stores(reduction: bool):
    name = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32"
    if reduction:
        name = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
    body = (
        BARRIER.format(count=1)
        + "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;"
        + """
        mov.u32 %r36, dyn;
        mad.lo.u32 %r36, %r0, 4, %r36;
        st.shared.u32 [%r36], 100;
        """
        + PEER.format(bar="%r33")
        + f"""
        mad.lo.u32 %r34, %r0, 4, %r34;
        mad.lo.u32 %r37, %r32, 1000, %r0;
        {name} [%r34], %r37, [%r35];
        """
        + wait("%r30")
        + "mul.wide.u32 %rd21, %r32, 128; add.s64 %a1, %a1, %rd21;"
        + OUT
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    kernel = AsyncKernel(
        body,
        {"in": WORDS, "out": ("u32", (2, 32))},
        threads=32,
        blocks=2,
        cluster=2,
        dynamic=8192,
    )
    for schedule in ("first", "adversarial"):
        got = kernel.values(schedule=schedule)
        assert (got == np.arange(32) + [[1000], [0]] + 100 * reduction).all()


# Tensor copies ------------------------------------------------------------------------------------

TENSOR_LOAD = (
    BARRIER.format(count=1)
    + """
    mov.u32 %r31, dyn{more};
    @%p1 bra COPIED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], {bytes};
    cp.async.bulk.tensor.{form}.mbarrier::complete_tx::bytes [%r31], [%m0, {{{at}}}], [%r30];
COPIED:
    """
    + wait("%r30")
)
# All 1024 bytes from dyn on to the second tensor, 8 a thread.
OUT8 = """
    mov.u32 %r20, dyn;
    mad.lo.u32 %r20, %r0, 8, %r20;
    ld.shared.u64 %rd21, [%r20];
    mul.wide.u32 %rd20, %r0, 8;
    add.s64 %rd20, %rd20, %a1;
    st.global.u64 [%rd20], %rd21;
"""
GRID = (np.arange(20 * 104) % 251).astype(ml_dtypes.bfloat16).reshape(20, 104)


def tensor_load(
    at: str,
    swizzle: str = "none",
    form: str = "2d.shared::cluster.global.tile",
    box: tuple[int, int] = (64, 8),
    bytes_: int = 1024,
    more: str = "",
    **fields: Any,
) -> AsyncKernel:
    text = TENSOR_LOAD.format(form=form, at=at, bytes=bytes_, more=more)
    described = {
        "tensormap": "in",
        "dims": [100, 20],
        "strides_bytes": [208],
        "box": list(box),
        "swizzle": swizzle,
        **fields,
    }
    arch = "sm_100a" if "gather4" in form else "sm_90a"
    return AsyncKernel(
        text + OUT8,
        {"in": GRID, "out": ("u16", (8, 64))},
        (described,),
        arch=arch,
        dynamic=8192,
    )


def boxed(x: int, y: int) -> np.ndarray:
    """uint16 [8, 64]: the box at column x, row y, zeros out of bounds."""
    full = np.zeros((60, 300), ml_dtypes.bfloat16)
    full[20:40, 100:200] = GRID[:, :100]
    return full[20 + y : 28 + y, 100 + x : 164 + x].view(np.uint16)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (64, 16), (-8, -3), (96, 8)])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_tensor_load(x: int, y: int, swizzle: str):
    got = tensor_load(f"{x}, {y}", swizzle).values()
    want = boxed(x, y)
    if swizzle == "128B":
        chunks = want.reshape(8, 8, 8)
        want = np.stack([chunks[r][np.arange(8) ^ r] for r in range(8)]).reshape(8, 64)
    assert (got == want).all()


def test_tensor_load_fills_with_nan():
    got = tensor_load("64, 16", oob="nan").values()
    inside = np.zeros((8, 64), bool)
    inside[:4, :36] = True
    assert (got[~inside] == 0x7FF7).all()
    assert (got[inside] == boxed(64, 16)[inside]).all()


def test_gather():
    form = "2d.shared::cluster.global.tile::gather4"
    kernel = tensor_load("8, 3, 19, 20, 0", form=form, box=(64, 1), bytes_=512)
    found = kernel.run()
    got = found.tensors["out"].view(np.uint16).reshape(8, 64)
    for r, row in enumerate((3, 19, 20, 0)):
        want = GRID[row, 8:72] if row < 20 else np.zeros(64, ml_dtypes.bfloat16)
        assert (got[r] == want.view(np.uint16)).all()


def test_footprints_of_a_tensor_load():
    found = tensor_load("64, 16", "128B").trace()
    (copy,) = events(found, AsyncOp)
    read, write = copy.footprints
    assert (read.size, (read.starts >= 0).sum()) == (72, 4)  # 36 elements of 4 rows
    assert (write.starts.tolist(), write.size) == ([[0]], 1024)
    assert copy.completion.bytes.tolist() == [[1024]]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"at": "4, 0"}, "undefined"),  # 8 bytes
        ({"at": "0, 0", "more": "+64"}, "undefined"),  # destination
        ({"at": "0", "form": "1d.shared::cluster.global.tile"}, "misuse"),
    ],
)
def test_tensor_traps(change: dict[str, str], kind: str):
    assert kind in faults(tensor_load(**change).trace())


STORE = """
    mov.u32 %r20, dyn;
    mad.lo.u32 %r20, %r0, 8, %r20;
    mul.wide.u32 %rd20, %r0, 8;
    add.s64 %rd20, %rd20, %a0;
    ld.global.u64 %rd21, [%rd20];
    st.shared.u64 [%r20], %rd21;
    fence.proxy.async;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    mov.u32 %r31, dyn;
    @!%p1 {name}.bulk_group [%m0, {{{at}}}], [%r31];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("schedule", ["first", "adversarial"])
@pytest.mark.parametrize("add", [False, True])
def test_tensor_store_leaves_out_what_is_outside(add: bool, schedule: str):
    name = "cp.async.bulk.tensor.2d.global.shared::cta.tile"
    if add:
        name = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile"
    source = np.arange(512).astype(np.float16).reshape(8, 64)
    before = np.full((20, 104), 3, np.float16)
    kernel = AsyncKernel(
        STORE.format(name=name, at="64, 15"),
        {"in": source, "out": before},
        ({"tensormap": "out", "dims": [100, 20], "strides_bytes": [208], "box": [64, 8]},),
        dynamic=8192,
    )
    want = before.copy()
    want[15:20, 64:100] = source[:5, :36] + (3 if add else 0)
    assert (kernel.values(schedule=schedule) == want).all()


def test_scatter():
    source = np.arange(512).astype(np.float16).reshape(8, 64)
    name = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4"
    kernel = AsyncKernel(
        STORE.format(name=name, at="0, 5, 19, 20, 2"),
        {"in": source, "out": np.zeros((20, 64), np.float16)},
        ({"tensormap": "out", "box": [64, 1]},),
        arch="sm_100a",
        dynamic=8192,
    )
    want = np.zeros((20, 64), np.float16)
    want[[5, 19, 2]] = source[[0, 1, 3]]
    assert (kernel.values() == want).all()


# Tensor maps made by the kernel -------------------------------------------------------------------

REPLACE = (
    """
    mov.u32 %r40, dyn+2048;
    mad.lo.u32 %r41, %r0, 4, %r40;
    st.shared.u32 [%r41], 0;
    bar.warp.sync -1;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra MADE;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r40], %a0;
    tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r40], 1;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r40], 0, 64;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r40], 1, 8;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r40], 0, 100;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r40], 1, 20;
    mov.u64 %rd40, 208;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r40], 0, %rd40;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r40], 0, 1;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r40], 1, 1;
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r40], 10;
    tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r40], 0;
    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r40], 0;
    tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r40], 0;
MADE:
    bar.warp.sync -1;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra COPIED_MAP;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%a2], [%r40], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%a2], 128;
COPIED_MAP:
    bar.sync 0;
"""
    + TENSOR_LOAD.replace("%m0", "%a2")
    + OUT8
)


def test_maps_made_by_the_kernel():
    text = REPLACE.format(form="2d.shared::cta.global", at="32, 13", bytes=1024, more="")
    kernel = AsyncKernel(
        text,
        {"in": GRID, "out": ("u16", (8, 64)), "map": ("u8", (128,))},
        dynamic=8192,
    )
    assert (kernel.values() == boxed(32, 13)).all()
    found = kernel.trace()
    assert faults(found) == []
    (copy,) = events(found, AsyncOp)
    assert copy.footprints[0].proxy == Proxy.TENSORMAP
    assert any(f.proxy == Proxy.TENSORMAP for f in events(found, ProxyFence))
    copied = [
        e for e in events(found, Access) if e.footprints[-1].size == 128 and len(e.footprints) == 2
    ]
    assert (copied[0].footprints[1].starts[:, 0] >= 0).tolist() == [True] + [False] * 31


def test_a_map_that_nobody_finished():
    text = REPLACE.format(form="2d.shared::cta.global", at="32, 13", bytes=1024, more="")
    text = text.replace("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r40], 1, 8;", "")
    kernel = AsyncKernel(
        text,
        {"in": GRID, "out": ("u16", (8, 64)), "map": ("u8", (128,))},
        dynamic=8192,
    )
    found = kernel.trace()
    assert "misuse" in faults(found)
    assert "box" in next(f.message for f in found.faults if str(f.kind) == "misuse")


# Work of blocks that were not launched ------------------------------------------------------------


def test_nothing_is_left_to_cancel():
    body = (
        BARRIER.format(count=1)
        + """
        mov.u32 %r31, dyn;
        @%p1 bra ASKED;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 16;
        clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
            [%r31], [%r30];
        ASKED:
        """
        + wait("%r30")
        + """
        ld.shared.b128 %q0, [%r31];
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
        selp.u32 %r21, 1, 2, %p3;
        mul.wide.u32 %rd20, %r0, 4;
        add.s64 %rd20, %rd20, %a1;
        st.global.u32 [%rd20], %r21;
        """
    )
    kernel = words(body, arch="sm_100a")
    assert (kernel.values() == 2).all()
    assert any("try_cancel" in text for text in kernel.trace().assumptions)
