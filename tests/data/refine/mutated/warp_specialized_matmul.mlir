#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#linear = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @ws_matmul(%arg0: !tt.tensordesc<128x64xf16, #shared>, %arg1: i32, %arg2: i32, %arg3: i64, %arg4: i64, %arg5: !tt.tensordesc<64x64xf16, #shared>, %arg6: i32, %arg7: i32, %arg8: i64, %arg9: i64, %arg10: !tt.tensordesc<128x64xf16, #shared>, %arg11: i32, %arg12: i32, %arg13: i64, %arg14: i64, %arg15: i32) attributes {noinline = false} {
    %c2_i32 = arith.constant 2 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128x64xf32, #linear>
    %c63_i32 = arith.constant 63 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c128_i32 = arith.constant 128 : i32
    %true = arith.constant true
    %0 = tt.get_program_id x : i32
    %1 = tt.get_program_id y : i32
    %2 = arith.addi %arg15, %c63_i32 : i32
    %3 = arith.divsi %2, %c64_i32 : i32
    %4 = arith.muli %0, %c128_i32 : i32
    %5 = arith.muli %1, %c64_i32 : i32
    %result = ttng.tmem_alloc : () -> !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    %6 = ttg.local_alloc : () -> !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>
    %7 = ttg.memdesc_index %6[%c0_i32] : !ttg.memdesc<1x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %7, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %8 = ttg.local_alloc : () -> !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>
    %9 = ttg.memdesc_index %8[%c0_i32] : !ttg.memdesc<1x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %9, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.wait_barrier %7, %c1_i32 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %10 = ttg.memdesc_index %result[%c0_i32] : !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable> -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    ttng.tmem_store %cst, %10, %true : tensor<128x64xf32, #linear> -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    %11 = ttg.local_alloc : () -> !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>
    %12 = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
    %13 = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %14 = ttg.memdesc_index %13[%c0_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %14, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %15 = ttg.memdesc_index %13[%c1_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %15, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %16 = ttg.memdesc_index %13[%c2_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %16, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %17 = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %18 = ttg.memdesc_index %17[%c0_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %18, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %19 = ttg.memdesc_index %17[%c1_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %19, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %20 = ttg.memdesc_index %17[%c2_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %20, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.warp_specialize(%17, %11, %12, %result, %13, %3, %c0_i32, %8, %arg0, %4, %arg5, %5) attributes {requestedRegisters = array<i32: 24, 24>}
    default {
      ttg.warp_yield
    }
    partition0(%arg16: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %arg17: !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, %arg18: !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>, %arg19: !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable>, %arg20: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %arg21: i32, %arg22: i32, %arg23: !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>, %arg24: !tt.tensordesc<128x64xf16, #shared>, %arg25: i32, %arg26: !tt.tensordesc<64x64xf16, #shared>, %arg27: i32) num_warps(1) {
      %c3_i32 = arith.constant 3 : i32
      %c2_i32_1 = arith.constant 2 : i32
      %c1_i32_2 = arith.constant 1 : i32
      %c0_i32_3 = arith.constant 0 : i32
      %true_4 = arith.constant true
      %false = arith.constant false
      %24:3 = scf.for %arg28 = %c0_i32_3 to %arg21 step %c1_i32_2 iter_args(%arg29 = %false, %arg30 = %c2_i32_1, %arg31 = %c1_i32_2) -> (i1, i32, i32)  : i32 {
        %26 = arith.addi %arg30, %c1_i32_2 : i32
        %27 = arith.cmpi eq, %26, %c3_i32 : i32
        %28 = arith.select %27, %c0_i32_3, %26 : i32
        %29 = arith.xori %arg31, %c1_i32_2 : i32
        %30 = arith.select %27, %29, %arg31 : i32
        %31 = ttg.memdesc_index %arg16[%28] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        ttng.wait_barrier %31, %30 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        %32 = ttg.memdesc_index %arg17[%28] : !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
        %33 = ttg.memdesc_index %arg18[%28] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %34 = ttg.memdesc_index %arg19[%arg22] : !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable> -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
        ttng.tc_gen5_mma %32, %33, %34, %arg29, %true_4 {is_async} : !ttg.memdesc<128x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
        %35 = ttg.memdesc_index %arg20[%28] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        ttng.tc_gen5_commit %35 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        scf.yield %true_4, %28, %30 : i1, i32, i32
      } {tt.num_stages = 2 : i32, tt.warp_specialize}
      %25 = ttg.memdesc_index %arg23[%arg22] : !ttg.memdesc<1x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.tc_gen5_commit %25 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttg.warp_return
    }
    partition1(%arg16: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %arg17: !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, %arg18: !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>, %arg19: !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable>, %arg20: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %arg21: i32, %arg22: i32, %arg23: !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>, %arg24: !tt.tensordesc<128x64xf16, #shared>, %arg25: i32, %arg26: !tt.tensordesc<64x64xf16, #shared>, %arg27: i32) num_warps(2) {
      %c3_i32 = arith.constant 3 : i32
      %c2_i32_1 = arith.constant 2 : i32
      %c1_i32_2 = arith.constant 1 : i32
      %c0_i32_3 = arith.constant 0 : i32
      %c64_i32_4 = arith.constant 64 : i32
      %true_5 = arith.constant true
      %24:2 = scf.for %arg28 = %c0_i32_3 to %arg21 step %c1_i32_2 iter_args(%arg29 = %c2_i32_1, %arg30 = %c0_i32_3) -> (i32, i32)  : i32 {
        %25 = arith.muli %arg28, %c64_i32_4 : i32
        %26 = arith.addi %arg29, %c1_i32_2 : i32
        %27 = arith.cmpi eq, %26, %c3_i32 : i32
        %28 = arith.select %27, %c0_i32_3, %26 : i32
        %29 = arith.xori %arg30, %c1_i32_2 : i32
        %30 = arith.select %27, %29, %arg30 : i32
        %31 = ttg.memdesc_index %arg20[%28] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        ttng.wait_barrier %31, %30 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        %32 = ttg.memdesc_index %arg17[%28] : !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
        %33 = ttg.memdesc_index %arg18[%28] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %34 = ttg.memdesc_index %arg16[%28] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        ttng.barrier_expect %34, 24576, %true_5 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        ttng.async_tma_copy_global_to_local %arg24[%arg25, %25] %32, %34, %true_5 : !tt.tensordesc<128x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
        ttng.async_tma_copy_global_to_local %arg26[%25, %arg27] %33, %34, %true_5 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        scf.yield %28, %30 : i32, i32
      } {tt.num_stages = 2 : i32, tt.warp_specialize}
      ttg.warp_return
    } : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<1x128x64xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32, i32, !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>, !tt.tensordesc<128x64xf16, #shared>, i32, !tt.tensordesc<64x64xf16, #shared>, i32) -> ()
    ttng.wait_barrier %9, %c0_i32 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %result_0 = ttng.tmem_load %10 : !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x64xf32, #linear>
    ttng.arrive_barrier %7, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %21 = arith.truncf %result_0 : tensor<128x64xf32, #linear> to tensor<128x64xf16, #linear>
    %22 = ttg.convert_layout %21 : tensor<128x64xf16, #linear> -> tensor<128x64xf16, #blocked>
    %23 = ttg.local_alloc %22 : (tensor<128x64xf16, #blocked>) -> !ttg.memdesc<128x64xf16, #shared, #smem>
    ttng.fence_async_shared {bCluster = false}
    ttng.async_tma_copy_local_to_global %arg10[%4, %5] %23 : !tt.tensordesc<128x64xf16, #shared>, !ttg.memdesc<128x64xf16, #shared, #smem>
    ttng.async_tma_store_wait {pendings = 0 : i32}
    ttng.inval_barrier %14 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %15 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %16 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %13 : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %18 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %19 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %20 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %17 : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %7 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %6 : !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %9 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %8 : !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>
    tt.return
  }
}
