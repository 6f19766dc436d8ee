#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} {
  tt.func public @hist(%arg0: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %arg2: i32) attributes {noinline = false} {
    %c4_i32 = arith.constant 4 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant dense<0> : tensor<128xi32, #blocked>
    %cst_0 = arith.constant dense<15> : tensor<128xi32, #blocked>
    %cst_1 = arith.constant dense<1> : tensor<128xi32, #blocked>
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c4_i32 : i32
    %2 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %3 = tt.splat %arg2 : i32 -> tensor<128xi32, #blocked>
    %4 = tt.splat %arg0 : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
    %5 = tt.splat %arg1 : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
    scf.for %arg3 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
      %6 = arith.addi %1, %arg3 : i32
      %7 = arith.muli %6, %c128_i32 : i32
      %8 = tt.splat %7 : i32 -> tensor<128xi32, #blocked>
      %9 = arith.addi %8, %2 : tensor<128xi32, #blocked>
      %10 = arith.cmpi slt, %9, %3 : tensor<128xi32, #blocked>
      %11 = tt.addptr %4, %9 : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
      %12 = tt.load %11, %10, %cst : tensor<128x!tt.ptr<i32>, #blocked>
      %13 = arith.andi %12, %cst_0 : tensor<128xi32, #blocked>
      %14 = tt.addptr %5, %13 : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
      %15 = tt.atomic_rmw add, relaxed, gpu, %14, %cst_1, %10 : (tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>, tensor<128xi1, #blocked>) -> tensor<128xi32, #blocked>
    }
    tt.return
  }
}
