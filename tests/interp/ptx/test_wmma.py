"""wmma: tiles of every type and layout are multiplied, and touch what they touch; sparse and
block-scaled products are traced."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.async_kernels import AsyncKernel
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Unsupported, Verdict


def registers(first: int, count: int, letter: str = "r") -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def product(
    shape: str, kind: str, acc: str, order: tuple[str, str, str], counts: tuple[int, int, int]
) -> str:
    """C = A B + C, A, B and C in global memory; leading dimension 32."""
    types = f"{acc}.{acc}" if kind == "f16" else f"{acc}.{kind}.{kind}.{acc}"
    a, b, c = order
    na, nb, nc = counts
    ra, rb, rc = registers(100, na), registers(120, nb), registers(140, nc)
    sync = "sync.aligned"
    return f"""
    mov.u32 %r50, 32;
    wmma.load.a.{sync}.{a}.{shape}.global.{kind} {ra}, [%a0], %r50;
    wmma.load.b.{sync}.{b}.{shape}.global.{kind} {rb}, [%a1], %r50;
    wmma.load.c.{sync}.{c}.{shape}.global.{acc} {rc}, [%a2], %r50;
    wmma.mma.{sync}.{a}.{b}.{shape}.{types} {rc}, {ra}, {rb}, {rc};
    wmma.store.d.{sync}.{c}.{shape}.global.{acc} [%a3], {rc}, %r50;
    """


CASES = [
    ("m16n16k16", "f16", "f32", (8, 8, 8)),
    ("m16n16k16", "f16", "f16", (8, 8, 4)),
    ("m8n32k16", "f16", "f32", (8, 8, 8)),
    ("m32n8k16", "f16", "f32", (8, 8, 8)),
    ("m16n16k16", "s8", "s32", (2, 2, 8)),
]
NUMBERS = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "s8": np.uint8}


@pytest.mark.parametrize("order", [("row", "col", "row"), ("col", "row", "col")])
@pytest.mark.parametrize(("shape", "kind", "acc", "counts"), CASES)
def test_a_product(
    shape: str, kind: str, acc: str, counts: tuple[int, int, int], order: tuple[str, str, str]
) -> None:
    m, n, k = (int(x) for x in shape[1:].replace("n", "k").split("k"))
    rng = np.random.default_rng(1)
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    data, tiles = {}, {}
    for (name, dims), way in zip(shapes.items(), order, strict=True):
        type_ = NUMBERS[acc if name == "c" else kind]
        data[name] = rng.integers(0, 4, (32, 32)).astype(type_)
        tiles[name] = data[name][: dims[0], : dims[1]]
        if way == "col":
            tiles[name] = data[name].T[: dims[0], : dims[1]]
    kernel = AsyncKernel(
        product(shape, kind, acc, order, counts),
        {**data, "out": (acc if acc != "s32" else "i32", (32, 32))},
        threads=32,
    )
    expected = tiles["a"].astype(float) @ tiles["b"].astype(float) + tiles["c"]
    out = kernel.values().reshape(32, 32)
    out = out.T if order[2] == "col" else out
    np.testing.assert_array_equal(out[:m, :n].astype(float), expected)
    assert verify_trace(kernel.trace()).verdict is Verdict.VERIFIED


SHARED = """
    .shared .align 32 .b8 tile[512];
    mov.u32 %r7, tile; shl.b32 %r8, %r0, 4; add.u32 %r8, %r8, %r7; mov.u32 %r9, 0;
    st.shared.v4.u32 [%r8], {%r9, %r9, %r9, %r9};
    {0}
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {1}, [%r7];
    {2}
    st.shared.u32 [%r8], %r9;
"""


@pytest.mark.parametrize(("first", "last"), [(1, 1), (0, 1), (1, 0)])
def test_what_is_loaded_must_be_there_and_stay(first: int, last: int) -> None:
    text = SHARED.replace("{1}", registers(100, 8))
    for n, on in ((0, first), (2, last)):
        text = text.replace(f"{{{n}}}", "bar.warp.sync -1;" if on else "")
    report = verify_trace(AsyncKernel(text, {}, threads=32).trace())
    assert {f.kind for f in report.faults} == (set() if first and last else {Kind.RACE})


def test_sparse_products_are_traced_and_not_run() -> None:
    body = (
        f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {registers(0, 4, 'f')}, "
        f"{registers(100, 4)}, {registers(104, 4)}, {registers(0, 4, 'f')}, %r110, 0x0;"
    )
    kernel = AsyncKernel(body, {}, threads=32)
    assert verify_trace(kernel.trace()).verdict is Verdict.VERIFIED
    with pytest.raises(Unsupported, match="sp"):
        kernel.run()
