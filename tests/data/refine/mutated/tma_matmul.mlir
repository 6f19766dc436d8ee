#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @tma_matmul(%arg0: !tt.tensordesc<64x64xf16, #shared>, %arg1: i32, %arg2: i32, %arg3: i64, %arg4: i64, %arg5: !tt.tensordesc<64x64xf16, #shared>, %arg6: i32, %arg7: i32, %arg8: i64, %arg9: i64, %arg10: !tt.tensordesc<64x64xf16, #shared>, %arg11: i32, %arg12: i32, %arg13: i64, %arg14: i64, %arg15: i32) attributes {noinline = false} {
    %c3_i32 = arith.constant 3 : i32
    %c2_i32 = arith.constant 2 : i32
    %c-1_i32 = arith.constant -1 : i32
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c63_i32 = arith.constant 63 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #mma>
    %0 = tt.get_program_id x : i32
    %1 = tt.get_program_id y : i32
    %2 = arith.addi %arg15, %c63_i32 : i32
    %3 = arith.divsi %2, %c64_i32 : i32
    %4 = arith.muli %0, %c64_i32 : i32
    %5 = arith.muli %1, %c64_i32 : i32
    %6 = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
    %7 = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
    %8 = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %9 = ttg.memdesc_index %8[%c0_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %9, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %10 = ttg.memdesc_index %8[%c1_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %10, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %11 = ttg.memdesc_index %8[%c2_i32] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %11, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %12 = arith.cmpi sgt, %3, %c0_i32 : i32
    ttng.barrier_expect %9, 16384, %12 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %13 = ttg.memdesc_index %6[%c0_i32] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    ttng.async_tma_copy_global_to_local %arg0[%4, %c0_i32] %13, %9, %12 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %14 = ttg.memdesc_index %7[%c0_i32] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    ttng.async_tma_copy_global_to_local %arg5[%c0_i32, %5] %14, %9, %12 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %15 = arith.cmpi sgt, %3, %c1_i32 : i32
    ttng.barrier_expect %10, 16384, %15 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %16 = ttg.memdesc_index %6[%c1_i32] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    ttng.async_tma_copy_global_to_local %arg0[%4, %c64_i32] %16, %10, %15 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %17 = ttg.memdesc_index %7[%c1_i32] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    ttng.async_tma_copy_global_to_local %arg5[%c64_i32, %5] %17, %10, %15 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %18:4 = scf.for %arg16 = %c0_i32 to %3 step %c1_i32 iter_args(%arg17 = %cst, %arg18 = %c1_i32, %arg19 = %c-1_i32, %arg20 = %c0_i32) -> (tensor<64x64xf32, #mma>, i32, i32, i32)  : i32 {
      %23 = arith.subi %3, %c2_i32 : i32
      %24 = arith.cmpi slt, %arg16, %23 : i32
      %25 = arith.addi %arg19, %c1_i32 : i32
      %26 = arith.cmpi sge, %25, %c3_i32 : i32
      %27 = arith.select %26, %c0_i32, %25 : i32
      %28 = arith.xori %arg20, %c1_i32 : i32
      %29 = arith.select %26, %28, %arg20 : i32
      %30 = ttg.memdesc_index %8[%27] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.wait_barrier %30, %29 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      %31 = ttg.memdesc_index %7[%27] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      %32 = ttg.memdesc_index %6[%27] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      %33 = ttng.warp_group_dot %32, %31, %arg17 {inputPrecision = 0 : i32, isAsync = true} : !ttg.memdesc<64x64xf16, #shared, #smem, mutable> * !ttg.memdesc<64x64xf16, #shared, #smem, mutable> -> tensor<64x64xf32, #mma>
      %34:3 = ttng.warp_group_dot_wait %33, %32, %31 {pendings = 1 : i32} : tensor<64x64xf32, #mma>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      %35 = arith.addi %arg18, %c1_i32 : i32
      %36 = arith.cmpi sge, %35, %c3_i32 : i32
      %37 = arith.select %36, %c0_i32, %35 : i32
      %38 = arith.addi %arg16, %c2_i32 : i32
      %39 = arith.muli %38, %c64_i32 : i32
      %40 = ttg.memdesc_index %8[%37] : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.barrier_expect %40, 16384, %24 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      %41 = ttg.memdesc_index %6[%37] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      ttng.async_tma_copy_global_to_local %arg0[%4, %39] %41, %40, %24 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      %42 = ttg.memdesc_index %7[%37] : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      ttng.async_tma_copy_global_to_local %arg5[%39, %5] %42, %40, %24 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      scf.yield %34#0, %37, %27, %29 : tensor<64x64xf32, #mma>, i32, i32, i32
    }
    %19 = ttng.warp_group_dot_wait %18#0 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
    ttng.inval_barrier %9 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %10 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %11 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %8 : !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %7 : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
    ttg.local_dealloc %6 : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
    %20 = arith.truncf %19 : tensor<64x64xf32, #mma> to tensor<64x64xf16, #mma>
    %21 = ttg.convert_layout %20 : tensor<64x64xf16, #mma> -> tensor<64x64xf16, #blocked>
    %22 = ttg.local_alloc %21 : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
    ttng.fence_async_shared {bCluster = false}
    ttng.async_tma_copy_local_to_global %arg10[%4, %5] %22 : !tt.tensordesc<64x64xf16, #shared>, !ttg.memdesc<64x64xf16, #shared, #smem>
    ttng.async_tma_store_wait {pendings = 0 : i32}
    tt.return
  }
}
