"""mma.sync, ldmatrix, stmatrix and movmatrix through whole kernels of a few warps."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interp.ptx.async_kernels import AsyncKernel, events, faults
from xttir.analyses.events import Access, Mode
from xttir.interp.tensorcore import fragments

# shape, type of A and B, type of C and D
FORMS = [
    ("m16n8k16", "f16", "f32"),
    ("m16n8k16", "bf16", "f32"),
    ("m16n8k16", "f16", "f16"),
    ("m16n8k8", "f16", "f32"),
    ("m16n8k8", "bf16", "f32"),
    ("m16n8k8", "tf32", "f32"),
    ("m16n8k4", "tf32", "f32"),
    ("m16n8k32", "e4m3", "f32"),
    ("m16n8k32", "e5m2", "f32"),
    ("m16n8k32", "s8", "s32"),
    ("m16n8k16", "u8", "s32"),
    ("m8n8k16", "s8", "s32"),
    ("m16n8k64", "s4", "s32"),
    ("m16n8k32", "u4", "s32"),
    ("m16n8k256", "b1", "s32"),
    ("m8n8k128", "b1", "s32"),
    ("m8n8k4", "f64", "f64"),
    ("m16n8k8", "f64", "f64"),
]
FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
    "f64": np.float64,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f64": 64, "s4": 4, "u4": 4}
BITS |= {"s8": 8, "u8": 8, "b1": 1}
WARPS = 2


def sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def pack(elements: np.ndarray, type_: str) -> np.ndarray:
    """Integer elements (.., count) as registers, uint32 or uint64."""
    bits = BITS[type_]
    if bits >= 8:
        raw = np.ascontiguousarray(elements.astype(FLOATS[type_]))
        return raw.view(np.uint64 if bits == 64 else np.uint32)
    codes = elements.astype(np.int64) & ((1 << bits) - 1)
    per = 32 // bits
    groups = codes.reshape(*codes.shape[:-1], -1, per)
    return (groups << (bits * np.arange(per))).sum(-1).astype(np.uint32)


def operand(type_: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    low, high = {"u4": (0, 16), "s4": (-8, 8), "b1": (0, 2), "u8": (0, 256)}.get(type_, (-3, 4))
    return rng.integers(low, high, shape)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(f))
def test_products(form: tuple[str, str, str]):
    shape, type_, result = form
    m, n, k = sizes(shape)
    rng = np.random.default_rng(k + m)
    a, b = operand(type_, (WARPS, m, k), rng), operand(type_, (WARPS, n, k), rng)
    c = rng.integers(-9, 10, (WARPS, m, n))
    bits = BITS[type_]
    frag_a, frag_b = fragments.mma_a(m, k, bits), fragments.mma_b(k, bits)
    frag_c = fragments.mma_c(m)
    in_a, in_b = (pack(f.scatter(x), type_) for f, x in ((frag_a, a), (frag_b, b)))
    in_c = np.ascontiguousarray(frag_c.scatter(c).astype(FLOATS[result]))
    in_c = in_c.view(np.uint64 if result == "f64" else np.uint32)
    wide = in_a.dtype == np.uint64
    kind, size = ("b64", 8) if wide else ("b32", 4)
    counts = [x.shape[-1] for x in (in_a, in_b, in_c)]
    bank = "%rd" if wide else "%r"
    first = (10, 20, 30, 40) if wide else (100, 140, 180, 220)
    names = [
        [f"{bank}{f + i}" for i in range(c)]
        for f, c in zip(first, [*counts, counts[2]], strict=True)
    ]
    loads = ""
    for index, (regs, count) in enumerate(zip(names, counts, strict=False)):
        loads += f"mul.wide.u32 %rd1, %r0, {count * size}; add.s64 %rd1, %rd1, %a{index};\n"
        loads += "\n".join(f"ld.global.{kind} {r}, [%rd1+{i * size}];" for i, r in enumerate(regs))
    types = f"{result}.{type_}.{type_}.{result}"
    op = ".xor.popc" if type_ == "b1" else ""
    lists = ["{" + ", ".join(x) + "}" for x in names]
    body = (
        loads
        + f"""
        mma.sync.aligned.{shape}.row.col.{types}{op} {lists[3]}, {lists[0]}, {lists[1]}, {lists[2]};
        mul.wide.u32 %rd1, %r0, {counts[2] * size};
        add.s64 %rd1, %rd1, %a3;
        """
        + "\n".join(f"st.global.{kind} [%rd1+{i * size}], {r};" for i, r in enumerate(names[3]))
    )
    flat = [x.reshape(32 * WARPS, -1) for x in (in_a, in_b, in_c)]
    kernel = AsyncKernel(
        body,
        dict(zip("abc", flat, strict=True)) | {"out": ("u64" if wide else "u32", flat[2].shape)},
        threads=32 * WARPS,
    )
    got = kernel.values().reshape(WARPS, 32, -1).view(FLOATS[result])
    if type_ == "b1":
        want = (a[:, :, None] ^ b[:, None]).sum(-1) + c
    else:
        want = a @ b.swapaxes(1, 2) + c
    assert (frag_c.gather(got) == want).all()
    assert faults(kernel.trace()) == []


MOVE = """
    mov.u32 %r10, dyn;
    mad.lo.u32 %r10, %r0, 16, %r10;
    mul.wide.u32 %rd10, %r0, 16;
    add.s64 %rd11, %rd10, %a1;
    add.s64 %rd10, %rd10, %a0;
    ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd10];
    {body}
    st.global.v4.u32 [%rd11], {{%r20, %r21, %r22, %r23}};
"""


def moved(body: str, data: np.ndarray) -> tuple[AsyncKernel, np.ndarray]:
    kernel = AsyncKernel(
        MOVE.format(body=body), {"in": data, "out": ("u32", (32, 4))}, threads=32, dynamic=1024
    )
    return kernel, kernel.values()


DATA = np.random.default_rng(3).integers(0, 1 << 32, (32, 4)).astype(np.uint32)


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix(trans: bool):
    tail = ".trans" if trans else ""
    body = f"""
    st.shared.v4.u32 [%r10], {{%r20, %r21, %r22, %r23}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{tail}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r10];
    """
    kernel, got = moved(body, DATA)
    matrices = DATA.view(np.uint16).reshape(4, 8, 8)
    if trans:
        matrices = matrices.swapaxes(1, 2)
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # (4, 8, 4)
    for lane in range(32):
        assert (got[lane] == pairs[:, lane // 4, lane % 4]).all()
    read = events(kernel.trace(), Access)[-2]
    assert (read.footprints[0].starts[:, 0] == 16 * np.arange(32)).all()


@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_undoes_ldmatrix(trans: bool):
    tail = ".trans" if trans else ""
    body = f"""
    stmatrix.sync.aligned.m8n8.x4{tail}.shared.b16 [%r10], {{%r20, %r21, %r22, %r23}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{tail}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r10];
    """
    _, got = moved(body, DATA)
    assert (got == DATA).all()


def test_fewer_matrices_touch_fewer_rows():
    body = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r10];"
    body = "st.shared.v4.u32 [%r10], {%r20, %r21, %r22, %r23}; bar.warp.sync -1;" + body
    kernel, _ = moved(body, DATA)
    (read,) = (
        e
        for e in events(kernel.trace(), Access)
        if e.footprints[0].mode == Mode.READ and e.footprints[0].starts.min() < 0
    )
    assert (read.footprints[0].starts[:, 0] >= 0).sum() == 8


def test_movmatrix_transposes():
    _, got = moved("movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r20;", DATA)
    before = DATA[:, 0].copy().view(np.uint16).reshape(8, 8)
    after = got[:, 0].copy().view(np.uint16).reshape(8, 8)
    assert (after == before.T).all()


def test_misaligned_rows():
    kernel = AsyncKernel(
        MOVE.format(body="ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r10+8];"),
        {"in": DATA, "out": ("u32", (32, 4))},
        threads=32,
        dynamic=1024,
    )
    assert faults(kernel.trace()) == ["undefined"]
