#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @ones(%out: !tt.tensordesc<16x32xf32, #shared>) {
    %c0 = arith.constant 0 : i32
    %c16 = arith.constant 16 : i32
    %one = arith.constant dense<1.0> : tensor<16x32xf32, #blocked>
    %pid = tt.get_program_id x : i32
    %row = arith.muli %pid, %c16 : i32
    %m = ttg.local_alloc : () -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
    %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttg.warp_specialize(%m, %f, %out, %row)
    default {
      ttg.local_store %one, %m : tensor<16x32xf32, #blocked> -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
      ttng.fence_async_shared {bCluster = false}
      ttng.arrive_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      ttg.warp_yield
    }
    partition0(%pm: !ttg.memdesc<16x32xf32, #shared, #smem, mutable>, %pf: !ttg.memdesc<1xi64, #bar, #smem, mutable>, %pout: !tt.tensordesc<16x32xf32, #shared>, %prow: i32) num_warps(4) {
      %z = arith.constant 0 : i32
      ttng.wait_barrier %pf, %z : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      ttng.async_tma_copy_local_to_global %pout[%prow, %z] %pm : !tt.tensordesc<16x32xf32, #shared>, !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
      ttng.async_tma_store_wait {pendings = 0 : i32}
      ttg.warp_return
    } : (!ttg.memdesc<16x32xf32, #shared, #smem, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>, !tt.tensordesc<16x32xf32, #shared>, i32) -> ()
    tt.return
  }
}
