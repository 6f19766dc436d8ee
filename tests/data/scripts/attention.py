"""Attention with online softmax over tiles of keys and values, also causal and warp-specialised."""

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def attention(
    q, k, v, o, m, scale, heads, N,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WS: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BM
    head = tl.program_id(1)
    row = head * N
    om = start + tl.arange(0, BM)
    on = tl.arange(0, BN)
    top = tl.zeros([BM], tl.float32) - float("inf")
    total = tl.zeros([BM], tl.float32) + 1.0
    acc = tl.zeros([BM, D], tl.float32)
    scale *= 1.44269504
    tile = q.load([row + start, 0])
    end = start + BM if CAUSAL else N
    for n in tl.range(0, end, BN, warp_specialize=WS):
        s = tl.dot(tile, k.load([row + n, 0]).T)
        if CAUSAL:
            s = s * scale + tl.where(om[:, None] >= n + on[None, :], 0, -1.0e6)
            new = tl.maximum(top, tl.max(s, 1))
            s -= new[:, None]
        else:
            new = tl.maximum(top, tl.max(s, 1) * scale)
            s = s * scale - new[:, None]
        p = tl.math.exp2(s)
        alpha = tl.math.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.float16), v.load([row + n, 0]), acc)
        top = new
    tl.store(m + row + om, top + tl.math.log2(total))
    o.store([row + start, 0], (acc / total[:, None]).to(tl.float16))


N = int(sys.argv[1]) if len(sys.argv) > 1 else 512
CAUSAL, WS = "causal" in sys.argv[1:], "ws" in sys.argv[1:]
HEADS, D, BM, BN = 2, 64, 128, 64
Q, K, V = (torch.randn(HEADS, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
O = torch.empty_like(Q)  # noqa: E741
L = torch.empty(HEADS, N, device="cuda", dtype=torch.float32)


def descriptor(tensor, rows):
    return TensorDescriptor(tensor, [HEADS * N, D], [D, 1], [rows, D])


attention[(N // BM, HEADS)](
    descriptor(Q, BM), descriptor(K, BN), descriptor(V, BN), descriptor(O, BM),
    L, D**-0.5, HEADS, N, BM, BN, D, CAUSAL, WS, num_warps=4, num_stages=2,
)  # fmt: skip
want = torch.nn.functional.scaled_dot_product_attention(
    Q.float(), K.float(), V.float(), is_causal=CAUSAL
)
torch.testing.assert_close(O.float(), want, rtol=2e-2, atol=2e-2)
