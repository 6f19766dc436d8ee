// Warp 0 copies tiles of 128 floats into a ring of two stages; warps 1 to 4 add them up.
// One slip: a stage is given back before it has been read.
#include <cstdint>

__device__ uint32_t shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void init(uint32_t bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ void announce(uint32_t bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ void arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ void wait(uint32_t bar, int parity) {
    asm volatile("{ .reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again; }" ::"r"(bar), "r"(parity) : "memory");
}
__device__ void copy(uint32_t to, const float *from, int bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}

extern "C" __global__ void __launch_bounds__(160) ring(const float *x, float *sums, int tiles) {
    __shared__ alignas(128) float stage[2][128];
    __shared__ alignas(8) uint64_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; ++s) {
            init(shared(&full[s]), 1);
            init(shared(&empty[s]), 128);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == 0) {
#pragma unroll 1
        for (int k = 0; k < tiles; ++k) {
            int s = k % 2;
            wait(shared(&empty[s]), (k / 2 + 1) % 2);
            announce(shared(&full[s]), 512);
            copy(shared(stage[s]), x + 128 * k, 512, shared(&full[s]));
        }
    } else if (t >= 32) {
        float sum = 0;
#pragma unroll 1
        for (int k = 0; k < tiles; ++k) {
            int s = k % 2;
            wait(shared(&full[s]), k / 2 % 2);
            arrive(shared(&empty[s]));
            sum += stage[s][t - 32];
        }
        sums[t - 32] = sum;
    }
}
