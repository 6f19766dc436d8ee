#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
#linear = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 16]], warp = [[16, 0], [32, 0]], block = []}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#shared2 = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 16}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 64, blockN = 32, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @attn(%arg0: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %arg2: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %arg3: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %arg4: i32, %arg5: i32) attributes {noinline = false} {
    %false = arith.constant false
    %true = arith.constant true
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c32_i32 = arith.constant 32 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<32x32xf16, #blocked>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %cst_1 = arith.constant dense<-1.000000e+30> : tensor<64x32xf32, #linear>
    %cst_2 = arith.constant dense<1.250000e-01> : tensor<64x32xf32, #linear>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<64x32xf32, #linear>
    %cst_4 = arith.constant dense<-1.000000e+30> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %c1_i32 = arith.constant 1 : i32
    %c2_i32 = arith.constant 2 : i32
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c64_i32 : i32
    %2 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %3 = tt.splat %1 : i32 -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %4 = arith.addi %3, %2 : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %5 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %6 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #linear}>>
    %7 = tt.expand_dims %4 {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<64x1xi32, #blocked>
    %8 = tt.splat %arg5 : i32 -> tensor<64x1xi32, #blocked>
    %9 = arith.muli %7, %8 : tensor<64x1xi32, #blocked>
    %10 = tt.splat %arg0 : !tt.ptr<f16> -> tensor<64x1x!tt.ptr<f16>, #blocked>
    %11 = tt.addptr %10, %9 : tensor<64x1x!tt.ptr<f16>, #blocked>, tensor<64x1xi32, #blocked>
    %12 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %13 = tt.expand_dims %12 {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x32xi32, #blocked>
    %14 = tt.broadcast %11 : tensor<64x1x!tt.ptr<f16>, #blocked> -> tensor<64x32x!tt.ptr<f16>, #blocked>
    %15 = tt.broadcast %13 : tensor<1x32xi32, #blocked> -> tensor<64x32xi32, #blocked>
    %16 = tt.addptr %14, %15 : tensor<64x32x!tt.ptr<f16>, #blocked>, tensor<64x32xi32, #blocked>
    %17 = tt.load %16 : tensor<64x32x!tt.ptr<f16>, #blocked>
    %18 = ttg.local_alloc %17 : (tensor<64x32xf16, #blocked>) -> !ttg.memdesc<64x32xf16, #shared, #smem>
    %19 = tt.splat %arg4 : i32 -> tensor<32x1xi32, #blocked>
    %20 = tt.splat %arg5 : i32 -> tensor<32x1xi32, #blocked>
    %21 = tt.splat %arg1 : !tt.ptr<f16> -> tensor<32x1x!tt.ptr<f16>, #blocked>
    %22 = tt.broadcast %13 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %23 = tt.splat %arg4 : i32 -> tensor<1x32xi32, #linear>
    %24 = tt.splat %arg2 : !tt.ptr<f16> -> tensor<32x1x!tt.ptr<f16>, #blocked>
    %result = ttng.tmem_alloc : () -> !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>
    ttng.tmem_store %cst_3, %result, %true : tensor<64x32xf32, #linear> -> !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>
    %25 = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %26 = ttg.memdesc_index %25[%c0_i32] : !ttg.memdesc<2x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %26, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %27 = ttg.memdesc_index %25[%c1_i32] : !ttg.memdesc<2x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %27, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %28 = arith.cmpi sgt, %arg4, %c0_i32 : i32
    %29 = tt.expand_dims %5 {axis = 1 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<32x1xi32, #blocked>
    %30 = arith.cmpi slt, %29, %19 : tensor<32x1xi32, #blocked>
    %31 = arith.muli %29, %20 : tensor<32x1xi32, #blocked>
    %32 = tt.addptr %21, %31 : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
    %33 = tt.broadcast %32 : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
    %34 = tt.addptr %33, %22 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
    %35 = tt.broadcast %30 : tensor<32x1xi1, #blocked> -> tensor<32x32xi1, #blocked>
    %36 = tt.splat %28 : i1 -> tensor<32x32xi1, #blocked>
    %37 = arith.andi %36, %35 : tensor<32x32xi1, #blocked>
    %38 = tt.load %34, %37, %cst : tensor<32x32x!tt.ptr<f16>, #blocked>
    %39 = ttg.local_alloc %38 : (tensor<32x32xf16, #blocked>) -> !ttg.memdesc<32x32xf16, #shared, #smem>
    %40 = ttg.memdesc_trans %39 {order = array<i32: 1, 0>} : !ttg.memdesc<32x32xf16, #shared, #smem> -> !ttg.memdesc<32x32xf16, #shared2, #smem>
    %result_5 = ttng.tmem_alloc : () -> !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>
    ttng.fence_async_shared {bCluster = false}
    %41 = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.init_barrier %41, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.tc_gen5_mma %18, %40, %result_5, %false, %28, %41[%true] {is_async} : !ttg.memdesc<64x32xf16, #shared, #smem>, !ttg.memdesc<32x32xf16, #shared2, #smem>, !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.wait_barrier %41, %c0_i32, %28 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %41 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %42 = tt.expand_dims %6 {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #linear}>> -> tensor<1x32xi32, #linear>
    %43 = arith.cmpi slt, %42, %23 : tensor<1x32xi32, #linear>
    %44 = tt.broadcast %43 : tensor<1x32xi1, #linear> -> tensor<64x32xi1, #linear>
    %result_6 = ttng.tmem_load %result_5 : !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<64x32xf32, #linear>
    %45 = arith.mulf %result_6, %cst_2 : tensor<64x32xf32, #linear>
    %46 = arith.select %44, %45, %cst_1 : tensor<64x32xi1, #linear>, tensor<64x32xf32, #linear>
    %47 = "tt.reduce"(%46) <{axis = 1 : i32}> ({
    ^bb0(%arg6: f32, %arg7: f32):
      %79 = arith.maxnumf %arg6, %arg7 : f32
      tt.reduce.return %79 : f32
    }) : (tensor<64x32xf32, #linear>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %48 = arith.maxnumf %47, %cst_4 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %49 = tt.expand_dims %48 {axis = 1 : i32} : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>> -> tensor<64x1xf32, #linear>
    %50 = tt.broadcast %49 : tensor<64x1xf32, #linear> -> tensor<64x32xf32, #linear>
    %51 = arith.subf %46, %50 : tensor<64x32xf32, #linear>
    %52 = math.exp %51 : tensor<64x32xf32, #linear>
    %53 = arith.subf %cst_4, %48 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %54 = math.exp %53 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %55 = arith.mulf %54, %cst_0 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %56 = "tt.reduce"(%52) <{axis = 1 : i32}> ({
    ^bb0(%arg6: f32, %arg7: f32):
      %79 = arith.addf %arg6, %arg7 : f32
      tt.reduce.return %79 : f32
    }) : (tensor<64x32xf32, #linear>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %57 = arith.addf %55, %56 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %58 = arith.select %28, %57, %cst_0 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
    %59 = tt.expand_dims %54 {axis = 1 : i32} : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>> -> tensor<64x1xf32, #linear>
    %60 = tt.broadcast %59 : tensor<64x1xf32, #linear> -> tensor<64x32xf32, #linear>
    %61 = tt.addptr %24, %31 : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
    %62 = tt.broadcast %61 : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
    %63 = tt.addptr %62, %22 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
    %64 = tt.load %63, %37, %cst : tensor<32x32x!tt.ptr<f16>, #blocked>
    %65 = ttg.local_alloc %64 : (tensor<32x32xf16, #blocked>) -> !ttg.memdesc<32x32xf16, #shared, #smem>
    %66 = arith.truncf %52 : tensor<64x32xf32, #linear> to tensor<64x32xf16, #linear>
    %result_7 = ttng.tmem_alloc : () -> !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>
    ttng.tmem_store %66, %result_7, %28 : tensor<64x32xf16, #linear> -> !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>
    %result_8 = ttng.tmem_load %result : !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<64x32xf32, #linear>
    %67 = arith.mulf %result_8, %60 : tensor<64x32xf32, #linear>
    ttng.tmem_store %67, %result, %28 : tensor<64x32xf32, #linear> -> !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>
    ttng.fence_async_shared {bCluster = false}
    ttng.tc_gen5_mma %result_7, %65, %result, %true, %28, %26[%true] {is_async} : !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<32x32xf16, #shared, #smem>, !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %68 = arith.subi %arg4, %c32_i32 : i32
    %69:7 = scf.for %arg6 = %c0_i32 to %68 step %c32_i32 iter_args(%arg7 = %48, %arg8 = %58, %arg9 = %c0_i32, %arg10 = %c1_i32, %arg11 = %26, %arg12 = %c0_i32, %arg13 = %65) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, !ttg.memdesc<32x32xf16, #shared, #smem>)  : i32 {
      %79 = arith.addi %arg6, %c32_i32 : i32
      %80 = tt.splat %79 : i32 -> tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
      %81 = tt.splat %79 : i32 -> tensor<32xi32, #ttg.slice<{dim = 0, parent = #linear}>>
      %82 = arith.addi %80, %5 : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
      %83 = arith.addi %81, %6 : tensor<32xi32, #ttg.slice<{dim = 0, parent = #linear}>>
      %84 = tt.expand_dims %82 {axis = 1 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<32x1xi32, #blocked>
      %85 = arith.cmpi slt, %84, %19 : tensor<32x1xi32, #blocked>
      %86 = arith.muli %84, %20 : tensor<32x1xi32, #blocked>
      %87 = tt.addptr %21, %86 : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
      %88 = tt.broadcast %87 : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
      %89 = tt.addptr %88, %22 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
      %90 = tt.broadcast %85 : tensor<32x1xi1, #blocked> -> tensor<32x32xi1, #blocked>
      %91 = tt.load %89, %90, %cst : tensor<32x32x!tt.ptr<f16>, #blocked>
      %92 = ttg.local_alloc %91 : (tensor<32x32xf16, #blocked>) -> !ttg.memdesc<32x32xf16, #shared, #smem>
      %93 = ttg.memdesc_trans %92 {order = array<i32: 1, 0>} : !ttg.memdesc<32x32xf16, #shared, #smem> -> !ttg.memdesc<32x32xf16, #shared2, #smem>
      ttng.fence_async_shared {bCluster = false}
      %94 = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.init_barrier %94, 1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.tc_gen5_mma %18, %93, %result_5, %false, %true, %94[%true] {is_async} : !ttg.memdesc<64x32xf16, #shared, #smem>, !ttg.memdesc<32x32xf16, #shared2, #smem>, !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.wait_barrier %94, %c0_i32, %true : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.inval_barrier %94 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      %95 = tt.expand_dims %83 {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #linear}>> -> tensor<1x32xi32, #linear>
      %96 = arith.cmpi slt, %95, %23 : tensor<1x32xi32, #linear>
      %97 = tt.broadcast %96 : tensor<1x32xi1, #linear> -> tensor<64x32xi1, #linear>
      %result_10 = ttng.tmem_load %result_5 : !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<64x32xf32, #linear>
      %98 = arith.mulf %result_10, %cst_2 : tensor<64x32xf32, #linear>
      %99 = arith.select %97, %98, %cst_1 : tensor<64x32xi1, #linear>, tensor<64x32xf32, #linear>
      %100 = "tt.reduce"(%99) <{axis = 1 : i32}> ({
      ^bb0(%arg14: f32, %arg15: f32):
        %126 = arith.maxnumf %arg14, %arg15 : f32
        tt.reduce.return %126 : f32
      }) : (tensor<64x32xf32, #linear>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %101 = arith.maxnumf %arg7, %100 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %102 = tt.expand_dims %101 {axis = 1 : i32} : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>> -> tensor<64x1xf32, #linear>
      %103 = tt.broadcast %102 : tensor<64x1xf32, #linear> -> tensor<64x32xf32, #linear>
      %104 = arith.subf %99, %103 : tensor<64x32xf32, #linear>
      %105 = math.exp %104 : tensor<64x32xf32, #linear>
      %106 = arith.subf %arg7, %101 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %107 = math.exp %106 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %108 = arith.mulf %arg8, %107 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %109 = "tt.reduce"(%105) <{axis = 1 : i32}> ({
      ^bb0(%arg14: f32, %arg15: f32):
        %126 = arith.addf %arg14, %arg15 : f32
        tt.reduce.return %126 : f32
      }) : (tensor<64x32xf32, #linear>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %110 = arith.addf %108, %109 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>
      %111 = tt.expand_dims %107 {axis = 1 : i32} : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>> -> tensor<64x1xf32, #linear>
      %112 = tt.broadcast %111 : tensor<64x1xf32, #linear> -> tensor<64x32xf32, #linear>
      ttng.wait_barrier %arg11, %arg12 deps %result_7, %arg13 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<32x32xf16, #shared, #smem>
      %113 = tt.addptr %24, %86 : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
      %114 = tt.broadcast %113 : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
      %115 = tt.addptr %114, %22 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
      %116 = tt.load %115, %90, %cst : tensor<32x32x!tt.ptr<f16>, #blocked>
      %117 = ttg.local_alloc %116 : (tensor<32x32xf16, #blocked>) -> !ttg.memdesc<32x32xf16, #shared, #smem>
      %118 = arith.truncf %105 : tensor<64x32xf32, #linear> to tensor<64x32xf16, #linear>
      ttng.tmem_store %118, %result_7, %true : tensor<64x32xf16, #linear> -> !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>
      %result_11 = ttng.tmem_load %result : !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<64x32xf32, #linear>
      %119 = arith.mulf %result_11, %112 : tensor<64x32xf32, #linear>
      ttng.tmem_store %119, %result, %true : tensor<64x32xf32, #linear> -> !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>
      %120 = ttg.memdesc_index %25[%arg10] : !ttg.memdesc<2x1xi64, #shared1, #smem, mutable> -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      ttng.fence_async_shared {bCluster = false}
      ttng.tc_gen5_mma %result_7, %117, %result, %true, %true, %120[%true] {is_async} : !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<32x32xf16, #shared, #smem>, !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      %121 = arith.xori %arg9, %c1_i32 : i32
      %122 = arith.addi %arg10, %c1_i32 : i32
      %123 = arith.cmpi sge, %122, %c2_i32 : i32
      %124 = arith.select %123, %c0_i32, %122 : i32
      %125 = arith.select %123, %121, %arg9 : i32
      scf.yield %101, %110, %125, %124, %120, %arg9, %117 : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, !ttg.memdesc<32x32xf16, #shared, #smem>
    }
    scf.if %28 {
      ttng.wait_barrier %69#4, %69#5 deps %result_7, %69#6 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x32xf16, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<32x32xf16, #shared, #smem>
    }
    ttng.inval_barrier %26 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttng.inval_barrier %27 : !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    ttg.local_dealloc %25 : !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %70 = tt.splat %arg3 : !tt.ptr<f16> -> tensor<64x1x!tt.ptr<f16>, #blocked>
    %71 = tt.addptr %70, %9 : tensor<64x1x!tt.ptr<f16>, #blocked>, tensor<64x1xi32, #blocked>
    %72 = tt.broadcast %71 : tensor<64x1x!tt.ptr<f16>, #blocked> -> tensor<64x32x!tt.ptr<f16>, #blocked>
    %73 = tt.addptr %72, %15 : tensor<64x32x!tt.ptr<f16>, #blocked>, tensor<64x32xi32, #blocked>
    %74 = tt.expand_dims %69#1 {axis = 1 : i32} : tensor<64xf32, #ttg.slice<{dim = 1, parent = #linear}>> -> tensor<64x1xf32, #linear>
    %75 = tt.broadcast %74 : tensor<64x1xf32, #linear> -> tensor<64x32xf32, #linear>
    %result_9 = ttng.tmem_load %result : !ttg.memdesc<64x32xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<64x32xf32, #linear>
    %76 = arith.divf %result_9, %75 : tensor<64x32xf32, #linear>
    %77 = arith.truncf %76 : tensor<64x32xf32, #linear> to tensor<64x32xf16, #linear>
    %78 = ttg.convert_layout %77 : tensor<64x32xf16, #linear> -> tensor<64x32xf16, #blocked>
    tt.store %73, %78 : tensor<64x32x!tt.ptr<f16>, #blocked>
    tt.return
  }
}
