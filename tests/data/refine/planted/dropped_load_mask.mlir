// The mask of the load is lost, that of the store is kept: nothing else is stored.
// expected: read
// source
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %base = arith.muli %pid, %c64 : i32
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %b = tt.splat %base : i32 -> tensor<64xi32>
    %offs = arith.addi %b, %r : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %m = arith.cmpi slt, %offs, %ns : tensor<64xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %os = tt.addptr %op, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>

    %v = tt.load %xs, %m : tensor<64x!tt.ptr<f32>>
    %w = arith.addf %v, %v : tensor<64xf32>
    tt.store %os, %w, %m : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %base = arith.muli %pid, %c64 : i32
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %b = tt.splat %base : i32 -> tensor<64xi32>
    %offs = arith.addi %b, %r : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %m = arith.cmpi slt, %offs, %ns : tensor<64xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %os = tt.addptr %op, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>

    %v = tt.load %xs, %m : tensor<64x!tt.ptr<f32>>
    %two = arith.constant dense<2.000000e+00> : tensor<64xf32>
    %w = arith.mulf %v, %two : tensor<64xf32>
    tt.store %os, %w, %m : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %base = arith.muli %pid, %c64 : i32
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %b = tt.splat %base : i32 -> tensor<64xi32>
    %offs = arith.addi %b, %r : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %m = arith.cmpi slt, %offs, %ns : tensor<64xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %os = tt.addptr %op, %offs : tensor<64x!tt.ptr<f32>>, tensor<64xi32>

    %v = tt.load %xs : tensor<64x!tt.ptr<f32>>
    %two = arith.constant dense<2.000000e+00> : tensor<64xf32>
    %w = arith.mulf %v, %two : tensor<64xf32>
    tt.store %os, %w, %m : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
