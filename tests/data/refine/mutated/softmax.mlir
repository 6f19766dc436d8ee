#blocked = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @softmax(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %arg2: i32 {tt.divisibility = 16 : i32}, %arg3: i32) attributes {noinline = false} {
    %c4_i32 = arith.constant 4 : i32
    %cst = arith.constant dense<0xFF800000> : tensor<4x64xf32, #blocked>
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c4_i32 : i32
    %2 = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %3 = tt.splat %1 : i32 -> tensor<4xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %4 = arith.addi %3, %2 : tensor<4xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %5 = tt.expand_dims %4 {axis = 1 : i32} : tensor<4xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<4x1xi32, #blocked>
    %6 = tt.splat %arg2 : i32 -> tensor<4x1xi32, #blocked>
    %7 = arith.muli %5, %6 : tensor<4x1xi32, #blocked>
    %8 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<4x1x!tt.ptr<f32>, #blocked>
    %9 = tt.addptr %8, %7 : tensor<4x1x!tt.ptr<f32>, #blocked>, tensor<4x1xi32, #blocked>
    %10 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %11 = tt.expand_dims %10 {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x64xi32, #blocked>
    %12 = tt.broadcast %9 : tensor<4x1x!tt.ptr<f32>, #blocked> -> tensor<4x64x!tt.ptr<f32>, #blocked>
    %13 = tt.broadcast %11 : tensor<1x64xi32, #blocked> -> tensor<4x64xi32, #blocked>
    %14 = tt.addptr %12, %13 : tensor<4x64x!tt.ptr<f32>, #blocked>, tensor<4x64xi32, #blocked>
    %15 = tt.splat %arg3 : i32 -> tensor<1x64xi32, #blocked>
    %16 = arith.cmpi slt, %11, %15 : tensor<1x64xi32, #blocked>
    %17 = tt.broadcast %16 : tensor<1x64xi1, #blocked> -> tensor<4x64xi1, #blocked>
    %18 = tt.load %14, %17, %cst : tensor<4x64x!tt.ptr<f32>, #blocked>
    %19 = "tt.reduce"(%18) <{axis = 1 : i32}> ({
    ^bb0(%arg4: f32, %arg5: f32):
      %33 = arith.maxnumf %arg4, %arg5 : f32
      tt.reduce.return %33 : f32
    }) : (tensor<4x64xf32, #blocked>) -> tensor<4xf32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %20 = tt.expand_dims %19 {axis = 1 : i32} : tensor<4xf32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<4x1xf32, #blocked>
    %21 = tt.broadcast %20 : tensor<4x1xf32, #blocked> -> tensor<4x64xf32, #blocked>
    %22 = arith.subf %18, %21 : tensor<4x64xf32, #blocked>
    %23 = math.exp %22 : tensor<4x64xf32, #blocked>
    %24 = "tt.reduce"(%23) <{axis = 1 : i32}> ({
    ^bb0(%arg4: f32, %arg5: f32):
      %33 = arith.addf %arg4, %arg5 : f32
      tt.reduce.return %33 : f32
    }) : (tensor<4x64xf32, #blocked>) -> tensor<4xf32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %25 = tt.splat %arg1 : !tt.ptr<bf16> -> tensor<4x1x!tt.ptr<bf16>, #blocked>
    %26 = tt.addptr %25, %7 : tensor<4x1x!tt.ptr<bf16>, #blocked>, tensor<4x1xi32, #blocked>
    %27 = tt.broadcast %26 : tensor<4x1x!tt.ptr<bf16>, #blocked> -> tensor<4x64x!tt.ptr<bf16>, #blocked>
    %28 = tt.addptr %27, %13 : tensor<4x64x!tt.ptr<bf16>, #blocked>, tensor<4x64xi32, #blocked>
    %29 = tt.expand_dims %24 {axis = 1 : i32} : tensor<4xf32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<4x1xf32, #blocked>
    %30 = tt.broadcast %29 : tensor<4x1xf32, #blocked> -> tensor<4x64xf32, #blocked>
    %31 = arith.divf %23, %30 : tensor<4x64xf32, #blocked>
    %32 = arith.truncf %31 : tensor<4x64xf32, #blocked> to tensor<4x64xbf16, #blocked>
    tt.store %28, %32, %17 : tensor<4x64x!tt.ptr<bf16>, #blocked>
    tt.return
  }
}
