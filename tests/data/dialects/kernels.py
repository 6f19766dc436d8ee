"""The kernels whose IR lies here: `python kernels.py OUT` writes it with the installed Triton.

`<kernel>.<release>.ttir` is the module after Triton's TTIR passes, `.source.ttir` before them,
`.generic.ttir` the same in the generic form, without locations.
"""
import triton, triton.language as tl, sys, os
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
@triton.jit
def helper(x, y):
    return x * y + 1
@triton.jit(noinline=True)
def helper2(x, y):
    return x * y + 1, y
@triton.jit
def argmax_comb(v1, i1, v2, i2):
    gt = v1 > v2
    return tl.where(gt, v1, v2), tl.where(gt, i1, i2)
@triton.jit
def k1(p, q, pi, ph, n, lock, s, B: tl.constexpr):
    pid = tl.program_id(0); np_ = tl.num_programs(1)
    o = pid * B + tl.arange(0, B)
    m = o < n
    x = tl.load(p + o, mask=m, other=float("-inf"), cache_modifier=".cg", eviction_policy="evict_last")
    y = tl.load(p + o, mask=m, volatile=True)
    z = tl.load(p)
    tl.store(q + o, tl.exp(x) + y, mask=m, cache_modifier=".cs", eviction_policy="evict_first")
    tl.store(q, z)
    a = tl.atomic_add(q + o, x, mask=m, sem="relaxed", scope="cta")
    b = tl.atomic_cas(lock, 0, 1, sem="acquire")
    c = tl.atomic_xchg(lock, 0)
    d = tl.atomic_max(pi + o, o)
    e = tl.atomic_min(p + o, x)
    f = tl.atomic_and(pi + o, o); g = tl.atomic_or(pi + o, o); h = tl.atomic_xor(pi + o, o)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    mx, ix = tl.max(x, axis=0, return_indices=True)
    sm = tl.sum(tl.where(m, x, 0.0))
    cs = tl.cumsum(x, 0); cp = tl.cumprod(x, 0, reverse=True)
    srt = tl.sort(x)
    r1, r2 = tl.reduce((x, o), 0, argmax_comb)
    tl.store(q + o, cs + cp + srt + sm + mx + r1)
    hist = tl.histogram(o, 32)
    tl.store(pi + tl.arange(0, 32), hist)
    gth = tl.gather(x, o % B, 0)
    tl.store(q + o, gth)
    t = tl.cat(x, y, can_reorder=True); tl.store(q + tl.arange(0, 2 * B), t)
    j = tl.join(x, y); u, v = tl.split(j); tl.store(q + o, u - v)
    il = tl.interleave(x, y); tl.store(q + tl.arange(0, 2 * B), il)
    h8 = x.to(tl.float8e5); h4 = x.to(tl.float8e4nv); hb = x.to(tl.bfloat16); hd = x.to(tl.float16, fp_downcast_rounding="rtz")
    tl.store(ph + o, hd + h8.to(tl.float16) + h4.to(tl.float16) + hb.to(tl.float16))
    w = tl.clamp(x, 0.0, 1.0); w2 = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL); w3 = tl.maximum(x, y)
    tl.store(q + o, tl.sqrt_rn(tl.abs(w)) + tl.div_rn(w2, y) + tl.fma(x, y, w3) + tl.math.erf(x) + tl.floor(x) + tl.ceil(x) + tl.rsqrt(y) + tl.sin(x) + tl.cos(x) + tl.log(x) + tl.log2(x) + tl.exp2(x) + tl.umulhi(o, o).to(tl.float32) + tl.abs(o))
    hl = helper(x, y); h2, h3 = helper2(n, s)
    tl.store(q + o, hl + h2 + h3)
    tl.device_assert(n > 0, "n must be positive")
    tl.device_print("x", x, o); tl.device_print("hi", o, hex=True)
    asm = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [o], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(pi + o, asm)
    bits = x.to(tl.int32, bitcast=True); tl.store(pi + o, bits)
    pp = (pi + o).to(tl.int64); tl.store(pi + o, pp.to(tl.int32))
    for i in range(0, n, 2):
        tl.store(pi + i, i)
    for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2):
        tl.store(pi + i, i)
    for i in tl.static_range(2):
        tl.store(pi + i, i)
    if n > 5:
        if s > 3.0:
            tl.store(pi, 3)
        else:
            tl.store(pi, 4)
        return
    acc = 0
    i = 0
    while i < n:
        acc += tl.load(pi + i)
        i += 1
    tl.store(pi, acc)
    big = n.to(tl.int64) * 4; tl.store(pi + big, n // 3 % 5)
    un = n.to(tl.uint32); tl.store(pi, (un // 3 % 5 >> 2).to(tl.int32))
    tl.store(pi + tl.multiple_of(tl.max_contiguous(o, B), 16), o << 2 | 3 ^ 1 & 7)
    rnd = tl.rand(n, o); tl.store(q + o, rnd)
@triton.jit
def k2(a, b, c, M, N, K, s1, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0); pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM); rn = pn * BN + tl.arange(0, BN); rk = tl.arange(0, BK)
    ap = a + rm[:, None] * K + rk[None, :]; bp = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        A = tl.load(ap, mask=rk[None, :] < K - k, other=0.0); B = tl.load(bp)
        acc = tl.dot(A, B, acc, input_precision="tf32")
        acc += tl.dot(A, B, input_precision="ieee", max_num_imprecise_acc=4)
        acc = tl.dot(tl.trans(tl.trans(A)), B.T.T, acc)
        ap += BK; bp += BK * N
    x = tl.reshape(acc, (BM * BN,)); y = tl.permute(acc, (1, 0)); z = tl.expand_dims(x, 0); w = tl.ravel(acc)
    q = tl.broadcast_to(tl.sum(acc, 1)[:, None], (BM, BN))
    tl.store(c + rm[:, None] * N + rn[None, :], (acc + q).to(c.dtype.element_ty))
@triton.jit
def k3(p, M, N, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(p, [M, N], [N, 1], [BM, BN])
    x = d.load([0, 0]); d.store([BM, 0], x); d.atomic_add([0, 0], x)
    d1 = tl.make_tensor_descriptor(p, [M, N], [N, 1], [1, BN])
    g = d1.gather(tl.arange(0, 32), 0); d1.scatter(g, tl.arange(0, 32), 0)
@triton.jit
def k4(a, sa, b, sb, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    A = tl.load(a + tl.arange(0, BM)[:, None] * BK + tl.arange(0, BK)[None, :]); B = tl.load(b + tl.arange(0, BK)[:, None] * BN + tl.arange(0, BN)[None, :])
    SA = tl.load(sa + tl.arange(0, BM)[:, None] * (BK // 32) + tl.arange(0, BK // 32)[None, :])
    SB = tl.load(sb + tl.arange(0, BN)[:, None] * (BK // 32) + tl.arange(0, BK // 32)[None, :])
    acc = tl.dot_scaled(A, SA, "e4m3", B, SB, "e5m2")
    acc = tl.dot_scaled(A, None, "e4m3", B, SB, "e5m2", acc)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)
jobs = {
 "everything": (k1, dict(p="*fp32", q="*fp32", pi="*i32", ph="*fp16", n="i32", lock="*i32", s="fp32", B="constexpr"), dict(B=64)),
 "matmul": (k2, dict(a="*fp16", b="*fp16", c="*fp16", M="i32", N="i32", K="i32", s1="i64", BM="constexpr", BN="constexpr", BK="constexpr"), dict(BM=32, BN=64, BK=32)),
 "descriptors": (k3, dict(p="*fp16", M="i32", N="i32", BM="constexpr", BN="constexpr"), dict(BM=32, BN=64)),
 "dot_scaled": (k4, dict(a="*fp8e4nv", sa="*u8", b="*fp8e5", sb="*u8", c="*fp32", BM="constexpr", BN="constexpr", BK="constexpr"), dict(BM=128, BN=128, BK=64)),
}
out = sys.argv[1]; os.makedirs(out, exist_ok=True)
from triton._C.libtriton import ir
for name, (fn, sig, cst) in jobs.items():
    for cc in (90, 100):
        try:
            src = ASTSource(fn=fn, signature=sig, constexprs=cst)
            t = GPUTarget("cuda", cc, 32)
            from triton.compiler.compiler import make_backend
            be = make_backend(t); opt = be.parse_options({})
            ctx = ir.context(); ir.load_dialects(ctx); be.load_dialects(ctx)
            m = src.make_ir(t, opt, be.get_codegen_implementation(opt), be.get_module_map(), ctx)
            open(f"{out}/{name}.{cc}.source.mlir", "w").write(str(m))
            st = {}; be.add_stages(st, opt, src.language)
            md = {"hash":"x","target":t}
            md.update(opt.__dict__)
            m = st["ttir"](m, md)
            open(f"{out}/{name}.{cc}.ttir.mlir", "w").write(str(m))
            m = st["ttgir"](m, md)
            open(f"{out}/{name}.{cc}.ttgir.mlir", "w").write(str(m))
        except Exception as e:
            print(name, cc, type(e), str(e)[-600:])
