"""A persistent matrix product whose tensor descriptors are made in the kernel."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_device_desc(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    wide = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * wide
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        om = tile // wide * BM
        on = tile % wide * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(da.load([om, k * BK]), db.load([on, k * BK]).T, acc)
        dc.store([om, on], acc.to(tl.float16))


def allocate(size, align, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(allocate)
K = int(sys.argv[1]) if len(sys.argv) > 1 else 512
M, N, PROGRAMS = 384, 256, 2
A = torch.randn(M, K, device="cuda", dtype=torch.float16)
B = torch.randn(N, K, device="cuda", dtype=torch.float16)
C = torch.empty(M, N, device="cuda", dtype=torch.float16)
matmul_device_desc[(PROGRAMS,)](A, B, C, M, N, K, 128, 128, 64, num_stages=3)
torch.testing.assert_close(C.float(), A.float() @ B.float().T, rtol=1e-2, atol=1e-1)
