// A wait for an asynchronous copy moves below the load that needs it.
// expected: undefined
// source
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#flat = #ttg.slice<{dim = 0, parent = #blocked}>
#column = #ttg.slice<{dim = 1, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>
#sharedT = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [0, 1]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#plainT = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
 tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {

    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #column>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #flat>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #column> -> tensor<16x1xi32, #blocked>
    %c2 = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32, #flat> -> tensor<1x32xi32, #blocked>
    %w = arith.constant dense<32> : tensor<16x1xi32, #blocked>
    %row = arith.muli %r2, %w : tensor<16x1xi32, #blocked>
    %rb = tt.broadcast %row : tensor<16x1xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %cb = tt.broadcast %c2 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %local = arith.addi %rb, %cb : tensor<16x32xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %n = arith.constant 512 : i32
    %base = arith.muli %pid, %n : i32
    %baseT = tt.splat %base : i32 -> tensor<16x32xi32, #blocked>
    %offs = arith.addi %baseT, %local : tensor<16x32xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %px = tt.addptr %xs, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %py = tt.addptr %ys, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2_ = arith.constant 2 : i32
    %v = tt.load %px : tensor<16x32x!tt.ptr<f32>, #blocked>
    %out = arith.addf %v, %v : tensor<16x32xf32, #blocked>
    tt.store %py, %out : tensor<16x32x!tt.ptr<f32>, #blocked>
    tt.return
  }
}

// -----
// right
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#flat = #ttg.slice<{dim = 0, parent = #blocked}>
#column = #ttg.slice<{dim = 1, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>
#sharedT = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [0, 1]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#plainT = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
 tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {

    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #column>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #flat>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #column> -> tensor<16x1xi32, #blocked>
    %c2 = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32, #flat> -> tensor<1x32xi32, #blocked>
    %w = arith.constant dense<32> : tensor<16x1xi32, #blocked>
    %row = arith.muli %r2, %w : tensor<16x1xi32, #blocked>
    %rb = tt.broadcast %row : tensor<16x1xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %cb = tt.broadcast %c2 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %local = arith.addi %rb, %cb : tensor<16x32xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %n = arith.constant 512 : i32
    %base = arith.muli %pid, %n : i32
    %baseT = tt.splat %base : i32 -> tensor<16x32xi32, #blocked>
    %offs = arith.addi %baseT, %local : tensor<16x32xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %px = tt.addptr %xs, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %py = tt.addptr %ys, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2_ = arith.constant 2 : i32
    %b = ttg.local_alloc : () -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
    %t = ttg.async_copy_global_to_local %px, %b : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %g = ttg.async_commit_group tokens %t
    %k = ttg.async_wait %g {num = 0 : i32}
    %l = ttg.local_load %b : !ttg.memdesc<16x32xf32, #shared, #smem, mutable> -> tensor<16x32xf32, #blocked>
    %out = arith.addf %l, %l : tensor<16x32xf32, #blocked>
    tt.store %py, %out : tensor<16x32x!tt.ptr<f32>, #blocked>
    tt.return
  }
}

// -----
// wrong
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#flat = #ttg.slice<{dim = 0, parent = #blocked}>
#column = #ttg.slice<{dim = 1, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>
#sharedT = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [0, 1]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#plainT = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
 tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {

    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #column>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #flat>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #column> -> tensor<16x1xi32, #blocked>
    %c2 = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32, #flat> -> tensor<1x32xi32, #blocked>
    %w = arith.constant dense<32> : tensor<16x1xi32, #blocked>
    %row = arith.muli %r2, %w : tensor<16x1xi32, #blocked>
    %rb = tt.broadcast %row : tensor<16x1xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %cb = tt.broadcast %c2 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %local = arith.addi %rb, %cb : tensor<16x32xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %n = arith.constant 512 : i32
    %base = arith.muli %pid, %n : i32
    %baseT = tt.splat %base : i32 -> tensor<16x32xi32, #blocked>
    %offs = arith.addi %baseT, %local : tensor<16x32xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %px = tt.addptr %xs, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %py = tt.addptr %ys, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2_ = arith.constant 2 : i32
    %b = ttg.local_alloc : () -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
    %t = ttg.async_copy_global_to_local %px, %b : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %g = ttg.async_commit_group tokens %t
    %l = ttg.local_load %b : !ttg.memdesc<16x32xf32, #shared, #smem, mutable> -> tensor<16x32xf32, #blocked>
    %k = ttg.async_wait %g {num = 0 : i32}
    %out = arith.addf %l, %l : tensor<16x32xf32, #blocked>
    tt.store %py, %out : tensor<16x32x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
