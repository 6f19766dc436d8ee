"""wgmma through whole kernels: 173 layouts recorded on an H200, and misuse of registers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.conftest import shared_root
from tests.interp.ptx.async_kernels import FILL, AsyncKernel, events, faults
from xttir.analyses.events import AsyncOp, GroupCommit, GroupWait

K = {"bf16": 16, "f16": 16, "f16h": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32}
TYPES = {
    "bf16": "f32.bf16.bf16",
    "f16": "f32.f16.f16",
    "f16h": "f16.f16.f16",
    "tf32": "f32.tf32.tf32",
    "e4m3": "f32.e4m3.e4m3",
    "e5m2": "f32.e5m2.e5m2",
    "s8": "s32.s8.s8",
}
MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def describe(start: int, leading: int, stride: int, mode: str, offset: int = 0) -> int:
    value = start >> 4 | (leading & 0x3FFFF) >> 4 << 16 | (stride & 0x3FFFF) >> 4 << 32
    return value | offset << 49 | MODES[mode] << 62


def configurations() -> list[dict[str, Any]]:
    """The recorded configurations, in the order of the recording."""
    out: list[dict[str, Any]] = []
    _k_major(out)
    _mn_major(out)
    for n in (8, 24, 256):
        _add(out, "128B", (16, 1024, 0), (16, 1024, 24576 if n == 256 else FAR), n=n)
    for dt in ("f16", "f16h", "tf32", "e4m3", "e5m2", "s8"):
        for mode in MODES_IN_ORDER:
            _add(out, mode, (*_dense(mode), 0), (*_dense(mode), FAR), dt=dt)
    _add(out, "128B", (16, 1024, 0), (16, 512, FAR), mode_b="64B")
    for dt, tb in (("bf16", 0), ("f16", 1), ("tf32", 0), ("e4m3", 0)):
        _add(out, "128B", (0, 0, 0), (8192 if tb else 16, 1024, FAR), dt=dt, form="rs", tb=tb)
    return out


FAR = 32768
MODES_IN_ORDER = ("none", "32B", "64B", "128B")


def _dense(mode: str) -> tuple[int, int]:
    """Leading and stride offset of a dense K-major tile."""
    return (128, 256) if mode == "none" else (16, 8 * SPAN[mode])


def _add(out, mode, a, b, base=0, mode_b=None, dt="bf16", n=64, form="ss", ta=0, tb=0) -> None:
    """`a`, `b`: leading offset, stride offset, start."""
    form_ = (dt, n, form, ta, tb)
    left = describe(a[2], a[0], a[1], mode, base)
    right = describe(b[2], b[0], b[1], mode_b or mode)
    out.append({"form": form_, "a": left, "b": right, "number": len(out)})


def _k_major(out: list[dict[str, Any]]) -> None:
    for mode in ("32B", "64B", "128B"):
        sp = SPAN[mode]
        far = (16, 8 * sp, FAR)
        for k in range(0, sp, 32):
            _add(out, mode, (16, 8 * sp, k), (16, 8 * sp, FAR + k))
        for leading in (0, 512, 4096):
            _add(out, mode, (leading, 8 * sp, 0), (leading, 8 * sp, FAR))
        _add(out, mode, (16, 16 * sp, 0), (16, 24 * sp, FAR))
        for shift in (1, 2, 3, 4, 7):
            for base in (0, shift):
                _add(out, mode, (16, 8 * sp, 128 * shift), far, base)
        _add(out, mode, (16, 1152, 0), far)
    for pair in ((128, 256), (256, 128), (1024, 128), (128, 4096), (2048, 512)):
        _add(out, "none", (*pair, 0), (*pair, FAR))


def _mn_major(out: list[dict[str, Any]]) -> None:
    for ta, tb in ((1, 0), (0, 1), (1, 1)):
        for mode in MODES_IN_ORDER:
            span = 8 * SPAN[mode]
            pairs = [(2048, 1024), (1024, 2048), (4096, span), (span, 4096), (128, 1024)]
            for pair in [*pairs, (1024, 128), (256, 128)]:
                left = pair if ta else _dense(mode)
                right = pair if tb else _dense(mode)
                _add(out, mode, (*left, 0), (*right, FAR), ta=ta, tb=tb)


def body(dt: str, n: int, form: str, ta: int, tb: int, registers: int) -> str:
    """A product a block; two descriptors a block in the second tensor, D goes to the third."""
    first = 100 if dt in ("f16h", "s8") else 0
    names = [f"%{'r' if first else 'f'}{first + i}" for i in range(registers)]
    scale = "" if dt == "s8" else ", 1, 1"
    turned = ""
    if dt in ("bf16", "f16", "f16h"):
        turned = f", {ta}, {tb}" if form == "ss" else f", {tb}"
    a = "%rd4" if form == "ss" else "{%r20, %r21, %r22, %r23}"
    shape = f"m64n{n}k{K[dt]}.{TYPES[dt]}"
    zero = "\n".join(f"mov.b32 {x}, 0;" for x in names)
    store = "\n".join(f"st.global.b32 [%rd7+{4 * i}], {x};" for i, x in enumerate(names))
    return f"""
    mov.u32 %r10, %ctaid.x;
    mul.wide.u32 %rd6, %r10, 16;
    add.s64 %rd6, %rd6, %a1;
    ld.global.u64 %rd4, [%rd6];
    ld.global.u64 %rd5, [%rd6+8];
    mad.lo.u32 %r11, %r10, 128, %r0;
    mul.wide.u32 %rd6, %r11, 16;
    add.s64 %rd6, %rd6, %a3;
    ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd6];
    {zero}
    setp.eq.u32 %p1, %r0, %r0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.{shape} {{{", ".join(names)}}}, {a}, %rd5, %p1{scale}{turned};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %rd7, %r11, {4 * registers};
    add.s64 %rd7, %rd7, %a2;
    {store}
    """


@cache
def recorded() -> dict[str, np.ndarray] | None:
    root = shared_root()
    if root is None:
        return None
    with np.load(root / "calibration" / "wgcfg.npz") as data:
        return {name: data[name] for name in data.files}


FORMS = sorted({c["form"] for c in configurations()})


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(map(str, f)))
def test_layouts_recorded_on_the_card(form: tuple[Any, ...]):
    data = recorded()
    if data is None:
        pytest.skip("no shared calibration data (XTTIR_SHARED)")
    assert len(configurations()) == sum(name.startswith("D") for name in data)
    mine = [c for c in configurations() if c["form"] == form]
    dt, n = form[:2]
    registers = n // 4 if dt == "f16h" else n // 2
    image = data["img_" + dt]
    none = np.zeros((128, 4), np.uint32)
    kernel = AsyncKernel(
        FILL.format(size=image.size, stride=2048) + body(*form, registers),
        {
            "image": image,
            "descriptors": np.array([[c["a"], c["b"]] for c in mine], np.uint64),
            "out": ("u32", (len(mine), 128, registers)),
            "a": np.stack([data.get(f"ar{c['number']}", none) for c in mine]),
        },
        blocks=len(mine),
    )
    got = kernel.values()
    for c, d in zip(mine, got, strict=True):
        assert (d == data[f"D{c['number']}"].view(np.uint32)).all(), c


# Two products into one accumulator; `wait_group` with less than it needs.
CHAIN = """
    mov.b32 %f0, 0; mov.b32 %f1, 0; mov.b32 %f2, 0; mov.b32 %f3, 0;
    mov.u64 %rd4, {a}; mov.u64 %rd5, {b};
    setp.ne.u32 %p1, %r0, %r0;
    setp.eq.u32 %p2, %r0, %r0;
    {fence}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %p1,
        1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %p2,
        -1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %p2,
        1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {pending};
    mul.wide.u32 %rd7, %r0, 16;
    add.s64 %rd7, %rd7, %a1;
    st.global.v4.f32 [%rd7], {{%f0, %f1, %f2, %f3}};
"""


def chained(pending: int = 0, fence: str = "wgmma.fence.sync.aligned;") -> AsyncKernel:
    rng = np.random.default_rng(0)
    tile = rng.integers(-3, 4, (72, 16)).astype(np.float32)
    image = (tile.view(np.uint32) >> 16).astype(np.uint16)
    # 8 x 16 bytes a core matrix: the two chunks of a row lie 128 bytes apart.
    image = image.reshape(9, 8, 2, 8).transpose(0, 2, 1, 3)
    a, b = describe(0, 128, 256, "none"), describe(8 * 256, 128, 256, "none")
    text = FILL.format(size=image.size * 2, stride=2048)
    kernel = AsyncKernel(
        text + CHAIN.format(a=a, b=b, pending=pending, fence=fence),
        {"image": np.ascontiguousarray(image), "out": ("f32", (128, 4))},
    )
    kernel.data["want"] = tile[:64] @ tile[64:].T
    return kernel


@pytest.mark.parametrize("schedule", ["first", "adversarial", "random:1"])
def test_a_chain_runs_in_order(schedule: str):
    kernel = chained()
    want = kernel.data.pop("want")
    got = kernel.values(schedule=schedule)
    for t in range(128):
        row = 16 * (t // 32) + t % 32 // 4
        column = 2 * (t % 4)
        assert (got[t, :2] == want[row, column : column + 2]).all()
        assert (got[t, 2:] == want[row + 8, column : column + 2]).all()


def test_events():
    kernel = chained()
    kernel.data.pop("want")
    found = kernel.trace()
    products = events(found, AsyncOp)
    assert [p.engine for p in products] == ["wgmma"] * 3
    assert len({p.pipeline for p in products}) == 1
    a, b = products[0].footprints
    assert (a.starts.tolist(), a.size) == ([[0]], 64 * 32)
    assert (b.starts.tolist(), b.size) == ([[8 * 256]], 256)
    assert len(events(found, GroupCommit)) == len(events(found, GroupWait)) == 1
    assert not found.faults


def test_using_the_accumulator_too_early():
    kernel = chained(pending=1)
    kernel.data.pop("want")
    assert faults(kernel.trace()) == ["race"]


def test_missing_register_fence():
    kernel = chained(fence="")
    kernel.data.pop("want")
    found = kernel.trace()
    assert faults(found) == ["race"]
    assert "wgmma.fence" in found.faults[0].message


def test_part_of_a_warpgroup():
    kernel = AsyncKernel(
        """
        setp.lt.u32 %p1, %r0, 64;
        @!%p1 bra END;
        mov.u64 %rd4, 0;
        setp.ne.u32 %p2, %r0, %r0;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd4, %rd4, %p2,
            1, 1, 0, 0;
        END:
        """,
        {"out": ("f32", (4,))},
    )
    assert faults(kernel.trace()) == ["divergence"]
