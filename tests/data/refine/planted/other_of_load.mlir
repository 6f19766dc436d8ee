// Lanes that are masked off get another value, and a reduction sees them.
// expected: value
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

    %zero = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %v = tt.load %xs, %m, %zero : tensor<64x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<64xf32>) -> f32
    %at = tt.addptr %o, %pid : !tt.ptr<f32>, i32
    tt.store %at, %s : !tt.ptr<f32>
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

    %f = arith.constant 0.000000e+00 : f32
    %zero = tt.splat %f : f32 -> tensor<64xf32>
    %v = tt.load %xs, %m, %zero : tensor<64x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<64xf32>) -> f32
    %at = tt.addptr %o, %pid : !tt.ptr<f32>, i32
    tt.store %at, %s : !tt.ptr<f32>
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

    %f = arith.constant 1.000000e+00 : f32
    %zero = tt.splat %f : f32 -> tensor<64xf32>
    %v = tt.load %xs, %m, %zero : tensor<64x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<64xf32>) -> f32
    %at = tt.addptr %o, %pid : !tt.ptr<f32>, i32
    tt.store %at, %s : !tt.ptr<f32>
    tt.return
  }
}
