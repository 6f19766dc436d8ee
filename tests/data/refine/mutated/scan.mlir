#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @scan(%arg0: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %arg2: i32) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant dense<0> : tensor<128xi32, #blocked>
    %c128_i32 = arith.constant 128 : i32
    %0 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %1 = tt.splat %arg2 : i32 -> tensor<128xi32, #blocked>
    %2 = scf.for %arg3 = %c0_i32 to %arg2 step %c128_i32 iter_args(%arg4 = %c0_i32) -> (i32)  : i32 {
      %3 = tt.splat %arg3 : i32 -> tensor<128xi32, #blocked>
      %4 = arith.addi %3, %0 : tensor<128xi32, #blocked>
      %5 = arith.cmpi slt, %4, %1 : tensor<128xi32, #blocked>
      %6 = tt.addptr %arg0, %arg3 : !tt.ptr<i32>, i32
      %7 = tt.splat %6 : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
      %8 = tt.addptr %7, %0 : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
      %9 = tt.load %8, %5, %cst : tensor<128x!tt.ptr<i32>, #blocked>
      %10 = "tt.scan"(%9) <{axis = 0 : i32, reverse = false}> ({
      ^bb0(%arg5: i32, %arg6: i32):
        %18 = arith.addi %arg5, %arg6 : i32
        tt.scan.return %18 : i32
      }) : (tensor<128xi32, #blocked>) -> tensor<128xi32, #blocked>
      %11 = tt.splat %arg4 : i32 -> tensor<128xi32, #blocked>
      %12 = arith.addi %10, %11 : tensor<128xi32, #blocked>
      %13 = "tt.reduce"(%9) <{axis = 0 : i32}> ({
      ^bb0(%arg5: i32, %arg6: i32):
        %18 = arith.addi %arg5, %arg6 : i32
        tt.reduce.return %18 : i32
      }) : (tensor<128xi32, #blocked>) -> i32
      %14 = arith.addi %arg4, %13 : i32
      %15 = tt.addptr %arg1, %arg3 : !tt.ptr<i32>, i32
      %16 = tt.splat %15 : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
      %17 = tt.addptr %16, %0 : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
      tt.store %17, %12, %5 : tensor<128x!tt.ptr<i32>, #blocked>
      scf.yield %14 : i32
    }
    tt.return
  }
}
