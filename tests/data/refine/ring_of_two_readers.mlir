// tests/data/refine/report_ring_of_two_readers.py before tritongpu-pipeline.
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 32, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @kernel(%arg0: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %arg2: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg3: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg4: i32 {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %cst = arith.constant dense<32> : tensor<64x1xi32, #blocked>
    %cst_0 = arith.constant dense<32> : tensor<32x1xi32, #blocked>
    %cst_1 = arith.constant dense<32> : tensor<32x1xi32, #blocked1>
    %c0_i32 = arith.constant 0 : i32
    %c32_i32 = arith.constant 32 : i32
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<32x32xf32, #blocked1>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<64x32xf32, #mma>
    %0 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked1}>>
    %1 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked1}>>
    %2 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked1}>>
    %3 = tt.expand_dims %2 {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked1}>> -> tensor<64x1xi32, #blocked1>
    %4 = tt.splat %arg4 : i32 -> tensor<64x1xi32, #blocked1>
    %5 = arith.muli %3, %4 : tensor<64x1xi32, #blocked1>
    %6 = tt.splat %arg0 : !tt.ptr<bf16> -> tensor<64x1x!tt.ptr<bf16>, #blocked1>
    %7 = tt.addptr %6, %5 : tensor<64x1x!tt.ptr<bf16>, #blocked1>, tensor<64x1xi32, #blocked1>
    %8 = tt.broadcast %7 : tensor<64x1x!tt.ptr<bf16>, #blocked1> -> tensor<64x32x!tt.ptr<bf16>, #blocked1>
    %9 = tt.splat %arg1 : !tt.ptr<bf16> -> tensor<32x1x!tt.ptr<bf16>, #blocked1>
    %10 = tt.expand_dims %0 {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked1}>> -> tensor<1x32xi32, #blocked1>
    %11 = tt.broadcast %10 : tensor<1x32xi32, #blocked1> -> tensor<32x32xi32, #blocked1>
    %12:2 = scf.for %arg5 = %c0_i32 to %arg4 step %c32_i32 iter_args(%arg6 = %cst_3, %arg7 = %cst_2) -> (tensor<64x32xf32, #mma>, tensor<32x32xf32, #blocked1>)  : i32 {
      %33 = tt.splat %arg5 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : i32 -> tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked1}>>
      %34 = tt.splat %arg5 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : i32 -> tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked1}>>
      %35 = arith.addi %33, %0 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked1}>>
      %36 = arith.addi %34, %1 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked1}>>
      %37 = tt.expand_dims %35 {axis = 0 : i32, loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked1}>> -> tensor<1x32xi32, #blocked1>
      %38 = tt.broadcast %37 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<1x32xi32, #blocked1> -> tensor<64x32xi32, #blocked1>
      %39 = tt.addptr %8, %38 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<64x32x!tt.ptr<bf16>, #blocked1>, tensor<64x32xi32, #blocked1>
      %40 = tt.load %39 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<64x32x!tt.ptr<bf16>, #blocked1>
      %41 = ttg.local_alloc %40 {loop.cluster = 0 : i32, loop.stage = 2 : i32} : (tensor<64x32xbf16, #blocked1>) -> !ttg.memdesc<64x32xbf16, #shared, #smem>
      %42 = tt.expand_dims %36 {axis = 1 : i32, loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked1}>> -> tensor<32x1xi32, #blocked1>
      %43 = arith.muli %42, %cst_1 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32x1xi32, #blocked1>
      %44 = tt.addptr %9, %43 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32x1x!tt.ptr<bf16>, #blocked1>, tensor<32x1xi32, #blocked1>
      %45 = tt.broadcast %44 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32x1x!tt.ptr<bf16>, #blocked1> -> tensor<32x32x!tt.ptr<bf16>, #blocked1>
      %46 = tt.addptr %45, %11 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32x32x!tt.ptr<bf16>, #blocked1>, tensor<32x32xi32, #blocked1>
      %47 = tt.load %46 {loop.cluster = 2 : i32, loop.stage = 0 : i32} : tensor<32x32x!tt.ptr<bf16>, #blocked1>
      %48 = ttg.local_alloc %47 {loop.cluster = 0 : i32, loop.stage = 2 : i32} : (tensor<32x32xbf16, #blocked1>) -> !ttg.memdesc<32x32xbf16, #shared, #smem>
      %49 = arith.extf %47 {loop.cluster = 0 : i32, loop.stage = 2 : i32} : tensor<32x32xbf16, #blocked1> to tensor<32x32xf32, #blocked1>
      %50 = arith.addf %arg7, %49 {loop.cluster = 0 : i32, loop.stage = 2 : i32} : tensor<32x32xf32, #blocked1>
      %51 = ttng.warp_group_dot %41, %48, %arg6 {inputPrecision = 0 : i32, loop.cluster = 0 : i32, loop.stage = 2 : i32} : !ttg.memdesc<64x32xbf16, #shared, #smem> * !ttg.memdesc<32x32xbf16, #shared, #smem> -> tensor<64x32xf32, #mma>
      scf.yield %51, %50 : tensor<64x32xf32, #mma>, tensor<32x32xf32, #blocked1>
    } {tt.scheduled_max_stage = 2 : i32}
    %13 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %14 = tt.expand_dims %13 {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<64x1xi32, #blocked>
    %15 = arith.muli %14, %cst : tensor<64x1xi32, #blocked>
    %16 = tt.splat %arg2 : !tt.ptr<f32> -> tensor<64x1x!tt.ptr<f32>, #blocked>
    %17 = tt.addptr %16, %15 : tensor<64x1x!tt.ptr<f32>, #blocked>, tensor<64x1xi32, #blocked>
    %18 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %19 = tt.expand_dims %18 {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x32xi32, #blocked>
    %20 = tt.broadcast %17 : tensor<64x1x!tt.ptr<f32>, #blocked> -> tensor<64x32x!tt.ptr<f32>, #blocked>
    %21 = tt.broadcast %19 : tensor<1x32xi32, #blocked> -> tensor<64x32xi32, #blocked>
    %22 = tt.addptr %20, %21 : tensor<64x32x!tt.ptr<f32>, #blocked>, tensor<64x32xi32, #blocked>
    %23 = ttg.convert_layout %12#0 : tensor<64x32xf32, #mma> -> tensor<64x32xf32, #blocked>
    tt.store %22, %23 : tensor<64x32x!tt.ptr<f32>, #blocked>
    %24 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %25 = tt.expand_dims %24 {axis = 1 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<32x1xi32, #blocked>
    %26 = arith.muli %25, %cst_0 : tensor<32x1xi32, #blocked>
    %27 = tt.splat %arg3 : !tt.ptr<f32> -> tensor<32x1x!tt.ptr<f32>, #blocked>
    %28 = tt.addptr %27, %26 : tensor<32x1x!tt.ptr<f32>, #blocked>, tensor<32x1xi32, #blocked>
    %29 = tt.broadcast %28 : tensor<32x1x!tt.ptr<f32>, #blocked> -> tensor<32x32x!tt.ptr<f32>, #blocked>
    %30 = tt.broadcast %19 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %31 = tt.addptr %29, %30 : tensor<32x32x!tt.ptr<f32>, #blocked>, tensor<32x32xi32, #blocked>
    %32 = ttg.convert_layout %12#1 : tensor<32x32xf32, #blocked1> -> tensor<32x32xf32, #blocked>
    tt.store %31, %32 : tensor<32x32x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
