"""tcgen05 through whole kernels: every way into and out of tensor memory, products, misuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interp.ptx.async_kernels import FILL, AsyncKernel, events, faults, wait
from xttir.analyses.events import Arrive, AsyncOp, Mode, Space, TensorAlloc, TensorDealloc
from xttir.interp.tensorcore import descriptors, fragments
from xttir.interp.tensorcore.descriptors import Matrix

# Barrier at 60000, address of tensor memory at 60016.
ALLOC = """
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra ALLOCATED;
    mov.u32 %r7, dyn+60016;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r7], {columns};
    setp.ne.u32 %p2, %r0, 0;
    mov.u32 %r8, dyn+60000;
    @!%p2 mbarrier.init.shared::cta.b64 [%r8], {count};
ALLOCATED:
    bar.sync 0;
    ld.shared.u32 %r9, [dyn+60016];
    mov.u32 %r8, dyn+60000;
"""
FREE = """
    bar.sync 0;
    @%p1 bra FREED;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r9, {columns};
FREED:
"""
# The address of the warp's window of the accumulator.
WINDOW = """
    shr.u32 %r10, %r0, 5;
    shl.b32 %r10, %r10, 21;
    add.u32 %r11, %r9, %r10;
"""


def registers(first: int, count: int) -> str:
    return ", ".join(f"%r{first + i}" for i in range(count))


def tensor_kernel(
    body: str, tensors: dict[str, Any], group: int = 1, columns: int = 512, count: int = 1, **more
):
    text = ALLOC.format(group=group, columns=columns, count=count) + body
    text += FREE.format(group=group, columns=columns)
    return AsyncKernel(text, tensors, arch="sm_100a", **more)


# Loads and stores ---------------------------------------------------------------------------------

CHANGES = [
    (shape, num)
    for shape in ("32x32b", "16x64b", "16x128b", "16x256b")
    for num in (1, 2, 8, 32)
    if fragments.LOAD_REGISTERS[shape] * num <= 64
]


def store_and_load(shape: str, num: int, packed: bool) -> AsyncKernel:
    """Registers go into tensor memory by `shape`, come out by 32x32b."""
    count = fragments.LOAD_REGISTERS[shape] * num
    rows = 32 if shape == "32x32b" else 16
    columns = count * 32 // rows * (2 if packed else 1)
    tail = ".unpack::16b" if packed else ""
    halves = ""
    for half in (0, 16) if rows == 16 else (0,):
        halves += f"""
        add.u32 %r12, %r11, {half << 16};
        tcgen05.st.sync.aligned.{shape}.x{num}{tail}.b32 [%r12], {{{registers(100, count)}}};
        """
    loads = "\n".join(f"ld.global.b32 %r{100 + i}, [%rd1+{4 * i}];" for i in range(count))
    stores = "\n".join(f"st.global.b32 [%rd2+{4 * i}], %r{200 + i};" for i in range(columns))
    body = f"""
    {WINDOW}
    mul.wide.u32 %rd1, %r0, {4 * count};
    add.s64 %rd1, %rd1, %a0;
    {loads}
    {halves}
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{registers(200, columns)}}}, [%r11];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd2, %r0, {4 * columns};
    add.s64 %rd2, %rd2, %a1;
    {stores}
    """
    data = np.random.default_rng(0).integers(0, 1 << 32, (128, count)).astype(np.uint32)
    return tensor_kernel(body, {"in": data, "out": ("u32", (128, columns))})


@pytest.mark.parametrize(("shape", "num"), CHANGES)
@pytest.mark.parametrize("schedule", ["first", "adversarial"])
def test_stores_and_loads(shape: str, num: int, schedule: str):
    kernel = store_and_load(shape, num, packed=False)
    data = kernel.data["in"].reshape(4, 32, -1)
    got = kernel.values(schedule=schedule).reshape(4, 32, -1)
    row, column = fragments.tensor_access(shape, num)
    for warp in range(4):
        assert (got[warp][row, column] == data[warp]).all()
        if shape != "32x32b":
            assert (got[warp][row + 16, column] == data[warp]).all()


def test_reducing_loads():
    body = f"""
    {WINDOW}
    mov.b32 %r100, 5; mov.b32 %r101, -3; mov.b32 %r102, 2; mov.b32 %r103, 0;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11], {{{registers(100, 4)}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.32x32b.x4.min.s32 {{{registers(110, 4)}}}, %r120, [%r11];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd2, %r0, 4;
    add.s64 %rd2, %rd2, %a0;
    st.global.u32 [%rd2], %r120;
    """
    kernel = tensor_kernel(body, {"out": ("i32", (128,))}, columns=32)
    assert (kernel.values() == -3).all()


def test_every_thread_that_issues_multiplies():
    case = ("f16", 128, 64, False, False, False, 2)
    kernel, want = product(*case, issuers=3)
    assert (kernel.values().view(np.float32) == 3 * want).all()


def test_unpacking_stores():
    kernel = store_and_load("32x32b", 4, packed=True)
    data = kernel.data["in"].reshape(128, 4)
    got = kernel.values()
    assert (got[:, ::2] == data & 0xFFFF).all()
    assert (got[:, 1::2] == data >> 16).all()


def test_footprints_of_loads():
    found = store_and_load("16x64b", 8, packed=False).trace()
    store, _, load = (e for e in events(found, AsyncOp) if e.engine.startswith("tcgen05"))
    (place,) = store.footprints
    assert (place.space, place.mode, place.size) == (Space.TENSOR, Mode.WRITE, 16)
    assert place.starts.tolist() == [[512 * (32 * w + r) for r in range(16)] for w in range(4)]
    assert load.footprints[0].starts.shape == (4, 32)
    assert not found.faults


def ld(address: str, then: str = "tcgen05.wait::ld.sync.aligned;", before: str = "") -> AsyncKernel:
    return tensor_kernel(
        f"""
        {WINDOW}
        mov.u32 %r100, 7;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {{%r100}};
        tcgen05.wait::st.sync.aligned;
        {before}
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r101}}, [{address}];
        {then}
        st.global.u32 [%a0], %r101;
        """,
        {"out": ("u32", (1,))},
        columns=32,
    )


def test_misuse_of_loads():
    assert faults(ld("%r11").trace()) == []
    found = ld("%r11", then="").trace()
    assert [(str(f.kind), str(f.policy)) for f in found.faults] == [("race", "strict")]
    assert faults(ld("%r11+1").trace()) == ["uninitialized"]
    assert faults(ld("%r11+32").trace()) == ["out-of-bounds"]
    assert faults(ld("%r11+600").trace()) == ["out-of-bounds"]
    assert faults(ld("%r11+65536").trace()) == ["misuse"]
    # Lane 0 in every warp: what shipped code does.
    found = ld("%r9").trace()
    assert {(str(f.kind), str(f.policy)) for f in found.faults} == {("misuse", "strict")}
    assert (ld("%r9").run().tensors["out"] == 7).all()


def test_use_after_dealloc():
    early = """
    bar.sync 0;
    @%p1 bra EARLY;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
    EARLY:
    bar.sync 0;
    """
    assert faults(ld("%r11", before=early).trace()) == ["lifetime"]


def test_allocation():
    found = ld("%r11").trace()
    (alloc,), (free,) = events(found, TensorAlloc), events(found, TensorDealloc)
    assert (alloc.base, alloc.columns, free.base) == (0, 32, 0)
    wrong = tensor_kernel("", {"out": ("u32", (1,))}, columns=48)
    assert "misuse" in faults(wrong.trace())
    twice = tensor_kernel(
        """
        @%p1 bra SKIP;
        mov.u32 %r7, dyn+60032;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 64;
        ld.shared.u32 %r20, [dyn+60032];
        st.global.u32 [%a0], %r20;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 64;
        SKIP:
        """,
        {"out": ("u32", (1,))},
        columns=64,
    )
    assert twice.values().tolist() == [64]


def test_an_allocation_that_never_fits():
    kernel = tensor_kernel(
        """
        @%p1 bra SKIP;
        mov.u32 %r7, dyn+60032;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;
        SKIP:
        """,
        {"out": ("u32", (1,))},
        columns=512,
    )
    found = kernel.trace()
    assert found.blocked
    assert "512" not in found.blocked[0].what or "32 columns" in found.blocked[0].what


# Products -----------------------------------------------------------------------------------------

KINDS = {
    # kind: (k, bits in memory, codes of A and B, numpy type or table)
    "f16": (16, 16, 1),
    "tf32": (8, 32, 2),
    "f8f6f4": (32, 8, 0),
    "i8": (32, 8, 1),
}
D_TYPES = {"f16": 1, "tf32": 1, "f8f6f4": 1, "i8": 2}


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    """Small integers as codes."""
    if kind == "f16":
        return values.astype(ml_dtypes.bfloat16).view(np.uint16)
    if kind == "tf32":
        return values.astype(np.float32).view(np.uint32)
    if kind == "f8f6f4":
        return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return values.astype(np.int8).view(np.uint8)


def place(image: np.ndarray, d: Matrix, mn_major: bool, bits: int, codes: np.ndarray) -> None:
    """Write a matrix (mn, k) of codes into an image of shared memory."""
    chunks = descriptors.chunks(d, mn_major, bits, *codes.shape)
    lines = codes.T if mn_major else codes
    raw = np.ascontiguousarray(lines).view(np.uint8).reshape(chunks.size, 16)
    image[chunks.reshape(-1)[:, None] + np.arange(16)] = raw


def descriptor(start: int, leading: int, stride: int, mode: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | mode << 61


def idesc(kind: str, m: int, n: int, turned_a: bool = False, turned_b: bool = False) -> int:
    code = KINDS[kind][2]
    value = D_TYPES[kind] << 4 | code << 7 | code << 10 | n // 8 << 17 | m // 16 << 24
    return value | turned_a << 15 | turned_b << 16


MMA = """
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra ISSUED;
    setp.ne.u32 %p4, %r0, 0;
    mov.u64 %rd10, {a};
    mov.u64 %rd11, {b};
    mov.u32 %r12, {idesc};
    tcgen05.mma{ws}.cta_group::{group}.kind::{kind} [%r9], {left}, %rd11, %r12{mask}, %p4;
    {more}
    tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%r8];
ISSUED:
"""


def read_out(columns: int) -> str:
    """All 128 lanes of `columns` columns into the last tensor."""
    stores = "\n".join(f"st.global.b32 [%rd2+{4 * i}], %r{200 + i};" for i in range(columns))
    return f"""
    {wait("%r8")}
    tcgen05.fence::after_thread_sync;
    {WINDOW}
    tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{registers(200, columns)}}}, [%r11];
    tcgen05.wait::ld.sync.aligned;
    mov.u32 %r13, %ctaid.x;
    mad.lo.u32 %r13, %r13, 128, %r0;
    mul.wide.u32 %rd2, %r13, {4 * columns};
    add.s64 %rd2, %rd2, %a1;
    {stores}
    """


# kind, M, N, .ws, A MN-major, B MN-major, swizzle (code, LBO, SBO)
PRODUCTS = [
    ("f16", 128, 64, False, False, False, 2),
    ("f16", 128, 128, False, True, True, 2),
    ("f16", 64, 32, False, False, False, 4),
    ("f16", 128, 16, False, False, True, 0),
    ("tf32", 128, 64, False, False, False, 6),
    ("tf32", 128, 64, False, True, True, 1),
    ("f8f6f4", 128, 64, False, False, False, 2),
    ("i8", 128, 64, False, False, False, 2),
    ("f16", 32, 64, True, False, False, 2),
    ("f16", 64, 64, True, False, False, 2),
]
WIDTH = {0: 1, 1: 8, 2: 8, 4: 4, 6: 2}


def geometry(mn: int, k: int, bits: int, mn_major: bool, mode: int) -> tuple[int, int]:
    """Leading and stride offsets of a dense tile."""
    width = 16 * WIDTH[mode]
    if not mn_major:
        return (128, 128 * (k * bits // 128)) if mode == 0 else (16, 8 * width)
    if mode == 0:
        return 128 * (mn * bits // 128), 128
    rows = 4 if mode == 1 else 8
    return width * k, rows * width


def product(kind, m, n, ws, turned_a, turned_b, mode, mask="", enable=False, before="", issuers=1):
    k, bits, _ = KINDS[kind]
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-3, 4, (x, k)) for x in (m, n))
    image = np.zeros(49152, np.uint8)
    texts = []
    for values, start, turned in ((a, 0, turned_a), (b, 16384, turned_b)):
        offsets = geometry(len(values), k, bits, turned, mode)
        value = descriptor(start, *offsets, mode)
        place(image, descriptors.matrix(value, 100), turned, bits, encode(values, kind))
        texts.append(value)
    columns = {32: n // 4, 64: n // 2}.get(m, n) if ws else n
    body = (
        before
        + FILL.format(size=image.size, stride=2048)
        + MMA.format(
            a=texts[0],
            b=texts[1],
            idesc=idesc(kind, m, n, turned_a, turned_b),
            ws=".ws" if ws else "",
            group=1,
            kind=kind,
            left="%rd10",
            mask=mask,
            more="",
        )
    )
    body = body.replace("setp.ne.u32 %p3, %r0, 0;", f"setp.ge.u32 %p3, %r0, {issuers};")
    if enable:
        body = body.replace("setp.ne.u32 %p4", "setp.eq.u32 %p4")
    kernel = tensor_kernel(
        body + read_out(columns),
        {"image": image, "out": ("u32", (128, columns))},
        count=issuers,
    )
    return kernel, a @ b.T


def as_numbers(words: np.ndarray, kind: str) -> np.ndarray:
    return words.view(np.int32 if kind == "i8" else np.float32)


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: "-".join(map(str, c)))
def test_products(case: tuple[Any, ...]):
    kind, m, _, ws = case[:4]
    kernel, want = product(*case)
    result = kernel.run()
    got = as_numbers(result.tensors["out"].view(np.uint32), kind).reshape(128, -1)
    if m == 64 and not ws:  # 16 lanes of every window; the others were never written
        assert faults(result) == ["uninitialized"]
        lanes = [32 * (r // 16) + r % 16 for r in range(64)]
        assert (got[lanes] == want).all()
        return
    assert not result.faults
    parts = got.reshape(128 // m, m, -1)
    assert (np.concatenate(list(parts), axis=1) == want).all()


def test_lanes_that_are_disabled_stay():
    masks = (0, 0xFFFFFFFF, 0, 1)
    before = "\n".join(f"mov.u32 %r{30 + i}, {m};" for i, m in enumerate(masks))
    ones = f"""
    {WINDOW}
    mov.u32 %r14, 7;
    tcgen05.st.sync.aligned.32x32b.x64.b32 [%r11], {{{", ".join(["%r14"] * 64)}}};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    """
    case = ("f16", 128, 64, False, False, False, 2)
    kernel, want = product(*case, mask=", {%r30, %r31, %r32, %r33}", before=before + ones)
    got = kernel.values()
    off = np.zeros(128, bool)
    off[32:64], off[96] = True, True
    assert (got[off] == 7).all()
    assert (got[~off].view(np.float32) == want[~off]).all()


def test_wrong_descriptors():
    good = ("f16", 128, 64, False, False, False, 2)
    kernel, _ = product(*good)
    assert faults(kernel.trace()) == []
    bad = descriptor(0, 16, 1024, 2) & ~(7 << 46)
    for change in ({"a": bad}, {"idesc": idesc("f16", 128, 24)}, {"idesc": idesc("i8", 128, 64)}):
        fields = {
            "a": descriptor(0, 16, 1024, 2),
            "b": descriptor(16384, 16, 1024, 2),
            "idesc": idesc("f16", 128, 64),
            **change,
        }
        text = FILL.format(size=49152, stride=2048) + MMA.format(
            ws="", group=1, kind="f16", left="%rd10", mask="", more="", **fields
        )
        image = np.zeros(49152, np.uint8)
        found = tensor_kernel(text, {"image": image, "out": ("u32", (1,))}).trace()
        assert faults(found) == ["misuse"], change


def test_accumulating_on_nothing():
    kernel, _ = product("f16", 128, 64, False, False, False, 2, enable=True)
    assert faults(kernel.trace()) == ["uninitialized"]


def test_the_event_of_a_product():
    kernel, _ = product("f16", 128, 64, False, False, False, 2)
    found = kernel.trace()
    (mma,) = (e for e in events(found, AsyncOp) if e.engine == "tcgen05.mma")
    a, b, d = mma.footprints
    assert (a.size, a.starts.shape) == (32, (1, 128))
    assert (b.size, b.starts.shape) == (32, (1, 64))
    assert (d.mode, d.size, d.starts.shape) == (Mode.WRITE, 64, (1, 128))
    assert mma.pipeline[1:5] == (0, 128, 64, "f16")
    (commit,) = events(found, Arrive)
    assert (commit.by, commit.cta_group, commit.address.tolist()) == ("commit", 1, [[60000]])


@pytest.mark.parametrize(("mask", "signalled"), [(1, 0), (2, 1)])
def test_a_commit_that_signals_one_block_of_two(mask: int, signalled: int) -> None:
    body = f"""
        .shared .align 8 .b64 bar;
        mov.u32 %r2, bar; setp.eq.u32 %p1, %r0, 0; mov.u32 %r4, %cluster_ctarank;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        setp.eq.and.u32 %p2, %r4, 0, %p1; mov.u16 %h0, {mask};
        @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster
            .multicast::cluster.b64 [%r2], %h0;
        setp.ne.u32 %p3, %r4, {signalled}; @%p3 bra end;
        again: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r2], 0; @!%p4 bra again;
        end: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"""
    tensors = {"out": ("u32", (1,))}
    kernel = AsyncKernel(body, tensors, arch="sm_100a", threads=32, blocks=2, cluster=2)
    assert faults(kernel.trace()) == []


# A in tensor memory, copies, scales, pairs of blocks ----------------------------------------------


def test_a_in_tensor_memory():
    rng = np.random.default_rng(5)
    a, b = rng.integers(-3, 4, (128, 16)), rng.integers(-3, 4, (64, 16))
    image = np.zeros(32768, np.uint8)
    value = descriptor(16384, 16, 256, 6)
    place(image, descriptors.matrix(value, 100), False, 16, encode(b, "f16"))
    words = np.ascontiguousarray(encode(a, "f16")).view(np.uint32)
    fill = f"""
    {WINDOW}
    mul.wide.u32 %rd1, %r0, 32;
    add.s64 %rd1, %rd1, %a2;
    ld.global.v4.b32 {{%r100, %r101, %r102, %r103}}, [%rd1];
    ld.global.v4.b32 {{%r104, %r105, %r106, %r107}}, [%rd1+16];
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11+256], {{{registers(100, 8)}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    add.u32 %r15, %r9, 256;
    """
    mma = MMA.format(
        a=0,
        b=value,
        idesc=idesc("f16", 128, 64),
        ws="",
        group=1,
        kind="f16",
        left="[%r15]",
        mask="",
        more="",
    )
    kernel = tensor_kernel(
        FILL.format(size=image.size, stride=2048) + fill + mma + read_out(64),
        {"image": image, "out": ("f32", (128, 64)), "a": words},
    )
    assert (kernel.values() == a @ b.T).all()
    assert faults(kernel.trace()) == []


SCALED = """
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra ISSUED;
    setp.ne.u32 %p4, %r0, 0;
    mov.u64 %rd10, {a};
    mov.u64 %rd11, {b};
    mov.u64 %rd12, {scale_a};
    mov.u64 %rd13, {scale_b};
    mov.u32 %r12, {idesc};
    add.u32 %r15, %r9, 256;
    add.u32 %r16, %r9, 260;
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r15], %rd12;
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r16], %rd13;
    tcgen05.mma.cta_group::1.kind::{kind}.block_scale{vec} [%r9], %rd10, %rd11, %r12, [%r15],
        [%r16], %p4;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
ISSUED:
"""
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@pytest.mark.parametrize(
    ("kind", "vec", "scales"),
    [("mxf8f6f4", "", 1), ("mxf4", "", 2), ("mxf4nvf4", ".scale_vec::4X", 4)],
)
def test_block_scaled(kind: str, vec: str, scales: int):
    rng = np.random.default_rng(6)
    n, k = 64, 32 if kind == "mxf8f6f4" else 64
    values, codes = [], []
    for rows in (128, n):
        if kind == "mxf8f6f4":
            v = rng.integers(-3, 4, (rows, k)).astype(float)
            codes.append(encode(v, "f8f6f4"))
        else:
            c = rng.integers(0, 16, (rows, k)).astype(np.uint8)
            v = E2M1[c]
            codes.append(c[:, ::2] | c[:, 1::2] << 4)
        values.append(v)
    image = np.zeros(49152, np.uint8)
    names = []
    for start, c in zip((0, 16384), codes, strict=True):
        names.append(descriptor(start, 16, 256, 6))
        place(image, descriptors.matrix(names[-1], 100), False, 8, c)
    # Scale factors: a 128-byte-row block of 32 lanes, four words a lane (one for 32 rows each).
    exponents = [rng.integers(125, 130, (128, 4)).astype(np.uint8) for _ in range(2)]
    for start, e in zip((32768, 36864), exponents, strict=True):
        words = e.reshape(4, 32, 4).transpose(1, 0, 2).reshape(32, 16)
        names.append(descriptor(start, 128, 128, 0))
        place(image, descriptors.matrix(names[-1], 100), False, 8, words)
    code = 0 if kind == "mxf8f6f4" else 1
    word = code << 7 | code << 10 | n // 8 << 17 | 1 << 23 | 1 << 27
    body = FILL.format(size=image.size, stride=2048) + SCALED.format(
        a=names[0], b=names[1], scale_a=names[2], scale_b=names[3], idesc=word, kind=kind, vec=vec
    )
    kernel = tensor_kernel(body + read_out(n), {"image": image, "out": ("f32", (128, n))})
    left, right = (
        v * np.repeat(2.0 ** (e[: len(v), :scales].astype(int) - 127), k // scales, axis=1)
        for v, e in zip(values, exponents, strict=True)
    )
    assert (kernel.values() == (left @ right.T).astype(np.float32)).all()
    assert faults(kernel.trace()) == []


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("schedule", ["first", "adversarial"])
def test_pairs_of_blocks(m: int, schedule: str):
    """Each block has half of A's rows and half of B's columns; both get their rows of D."""
    rng = np.random.default_rng(7)
    n = 64
    a, b = rng.integers(-3, 4, (m, 16)), rng.integers(-3, 4, (n, 16))
    left, right = descriptor(0, 16, 256, 6), descriptor(16384, 16, 256, 6)
    image = np.zeros((2, 32768), np.uint8)
    for block in range(2):
        mine = (a[block * m // 2 :][: m // 2], b[block * n // 2 :][: n // 2])
        for value, x in zip((left, right), mine, strict=True):
            place(image[block], descriptors.matrix(value, 100), False, 16, encode(x, "f16"))
    columns = n if m == 256 else n // 2
    mma = MMA.format(
        a=left,
        b=right,
        idesc=idesc("f16", m, n),
        ws="",
        group=2,
        kind="f16",
        left="%rd10",
        mask="",
        more="mov.u16 %h0, 3;",
    )
    mma = mma.replace(
        "shared::cluster.b64 [%r8]", "shared::cluster.multicast::cluster.b64 [%r8], %h0"
    )
    # Only the first block issues; both wait.
    mma = mma.replace("@%p3 bra ISSUED;", "@%p3 bra ISSUED; @%p5 bra ISSUED;", 1)
    own = "mov.u32 %r16, %ctaid.x; setp.ne.u32 %p5, %r16, 0;"
    own += "mul.wide.u32 %rd20, %r16, 32768; add.s64 %a0, %a0, %rd20;"
    together = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    body = own + FILL.format(size=32768, stride=2048) + together + mma + read_out(columns)
    kernel = tensor_kernel(
        body + together,
        {"image": image, "out": ("f32", (2, 128, columns))},
        group=2,
        blocks=2,
        cluster=2,
    )
    got = kernel.values(schedule=schedule)
    if m == 128:  # a block's 64 rows twice, for the two halves of the columns
        got = np.concatenate([got[:, :64], got[:, 64:]], axis=2)
    assert (got.reshape(m, n) == a @ b.T).all()
    found = kernel.trace()
    assert faults(found) == []
    (event,) = (e for e in events(found, AsyncOp) if e.engine == "tcgen05.mma")
    assert set(np.unique(event.footprints[0].cta)) == {0, 1}
