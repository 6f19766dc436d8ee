# pyright: reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
"""Gluon kernels under the checks: ops that Gluon's pipeline lowers otherwise than Triton's."""

from __future__ import annotations

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import xttir


@gluon.jit
def multiply(x, out, WAITS: gl.constexpr):
    """out = the product of the two halves of x, which are then overwritten."""
    N: gl.constexpr = 64
    M: gl.constexpr = 128
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([M, N], gl.float16)
    right: gl.constexpr = gl.NVMMASharedLayout.get_default_for([N, N], gl.float16)
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    inner = gl.arange(0, N, gl.SliceLayout(1, layout))[:, None]
    a = gl.allocate_shared_memory(gl.float16, [M, N], shared)
    b = gl.allocate_shared_memory(gl.float16, [N, N], right)
    a.store(gl.load(x + rows * N + columns))
    b.store(gl.load(x + M * N + inner * N + columns))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    total = blackwell.allocate_tensor_memory(
        gl.float32, [M, N], blackwell.TensorMemoryLayout([M, N], col_stride=1)
    )
    blackwell.fence_async_shared()
    blackwell.tcgen05_mma(a, b, total, use_acc=False)
    if WAITS:
        blackwell.tcgen05_commit(bar)
        mbarrier.wait(bar, phase=0)
    a.store(gl.zeros([M, N], gl.float16, layout))
    if not WAITS:
        blackwell.tcgen05_commit(bar)
        mbarrier.wait(bar, phase=0)
    gl.store(out + rows * N + columns, gl.convert_layout(total.load(), layout))


@pytest.mark.parametrize("waits", [True, False])
def test_product_without_a_barrier_is_only_issued(waits: bool) -> None:
    with xttir.sanitize(cc=100) as session:
        torch.manual_seed(0)
        x = torch.randn(128 + 64, 64, device="cuda", dtype=torch.float16)
        out = torch.empty(128, 64, device="cuda")
        multiply[(1,)](x, out, waits, num_warps=4)
        assert torch.allclose(out, x[:128].float() @ x[128:].float(), atol=1e-2)
    assert [fault.kind for fault in session.faults] == ([] if waits else ["race"])


@gluon.jit
def send(message, ready, out, N: gl.constexpr, READ_ONLY: gl.constexpr):
    """Program 0 stores a message with TMA and sets a flag; program 1 waits for it and reads."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    offsets = gl.arange(0, N, layout)
    if gl.program_id(0) == 0:
        block = gl.allocate_shared_memory(gl.int32, [N], message.layout)
        block.store(offsets + 7)
        blackwell.fence_async_shared()
        tma.async_store(message, [0], block)
        tma.store_wait(pendings=0, read_only=READ_ONLY)
        gl.atomic_xchg(ready, 1, sem="release", scope="gpu")
    else:
        seen = 0
        while seen != 1:
            seen = gl.atomic_add(ready, 0, sem="acquire", scope="gpu")
        gl.store(out + offsets, gl.load(ready + 4 + offsets))


@pytest.mark.parametrize("read_only", [False, True])
def test_flag_that_overtakes_a_tma_store(read_only: bool) -> None:
    with xttir.sanitize(cc=90) as session:
        # The flag and the message lie in one tensor.
        memory = torch.zeros(4 + 32, dtype=torch.int32, device="cuda")
        out = torch.zeros(32, dtype=torch.int32, device="cuda")
        layout = gl.NVMMASharedLayout.get_default_for([32], gl.int32)
        message = TensorDescriptor.from_tensor(memory[4:], [32], layout)
        send[(2,)](message, memory, out, 32, read_only, num_warps=1)
        assert torch.equal(out, torch.arange(32, dtype=torch.int32) + 7)
    assert [fault.kind for fault in session.faults] == (["race"] if read_only else [])


@gluon.jit
def store_and_read(
    target, memory, out, N: gl.constexpr, READ_ONLY: gl.constexpr, OTHER: gl.constexpr
):
    """Store a block with TMA, and read it back, or the one after it."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    offsets = gl.arange(0, N, layout)
    block = gl.allocate_shared_memory(gl.int32, [N], target.layout)
    block.store(offsets)
    blackwell.fence_async_shared()
    tma.async_store(target, [0], block)
    tma.store_wait(pendings=0, read_only=READ_ONLY)
    gl.store(out + offsets, gl.load(memory + OTHER + offsets))


@pytest.mark.parametrize(
    ("read_only", "other", "wanted"), [(False, 0, []), (True, 0, ["race"]), (True, 32, [])]
)
def test_program_reads_what_it_stored_with_tma(
    read_only: bool, other: int, wanted: list[str]
) -> None:
    with xttir.sanitize(cc=90) as session:
        memory = torch.arange(64, dtype=torch.int32, device="cuda")
        out = torch.zeros(32, dtype=torch.int32, device="cuda")
        layout = gl.NVMMASharedLayout.get_default_for([32], gl.int32)
        target = TensorDescriptor.from_tensor(memory, [32], layout)
        store_and_read[(1,)](target, memory, out, 32, read_only, other, num_warps=1)
    assert [fault.kind for fault in session.faults] == wanted
