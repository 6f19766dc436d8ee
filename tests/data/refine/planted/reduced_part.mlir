// A reduction split in two keeps a quarter of its elements: the second half combines with the first operand alone.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %w = arith.constant dense<32> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x32xi32>
    %cb = tt.broadcast %cols : tensor<1x32xi32> -> tensor<16x32xi32>
    %offs = arith.addi %rb, %cb : tensor<16x32xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<16x32x!tt.ptr<f32>>, tensor<16x32xi32>
    %v = tt.load %xs : tensor<16x32x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 1 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.maxnumf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<16x32xf32>) -> tensor<16xf32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %os = tt.addptr %op, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %os, %s : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %w = arith.constant dense<32> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x32xi32>
    %cb = tt.broadcast %cols : tensor<1x32xi32> -> tensor<16x32xi32>
    %offs = arith.addi %rb, %cb : tensor<16x32xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<16x32x!tt.ptr<f32>>, tensor<16x32xi32>
    %v = tt.load %xs : tensor<16x32x!tt.ptr<f32>>
    %v3 = tt.reshape %v : tensor<16x32xf32> -> tensor<16x8x4xf32>
    %s1 = "tt.reduce"(%v3) <{axis = 2 : i32}> ({
    ^bb0(%p1: f32, %q1: f32):
      %t1 = arith.maxnumf %p1, %q1 : f32
      tt.reduce.return %t1 : f32
    }) : (tensor<16x8x4xf32>) -> tensor<16x8xf32>
    %s = "tt.reduce"(%s1) <{axis = 1 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.maxnumf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<16x8xf32>) -> tensor<16xf32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %os = tt.addptr %op, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %os, %s : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %w = arith.constant dense<32> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x32xi32>
    %cb = tt.broadcast %cols : tensor<1x32xi32> -> tensor<16x32xi32>
    %offs = arith.addi %rb, %cb : tensor<16x32xi32>
    %xp = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>>
    %xs = tt.addptr %xp, %offs : tensor<16x32x!tt.ptr<f32>>, tensor<16x32xi32>
    %v = tt.load %xs : tensor<16x32x!tt.ptr<f32>>
    %v3 = tt.reshape %v : tensor<16x32xf32> -> tensor<16x8x4xf32>
    %s1 = "tt.reduce"(%v3) <{axis = 2 : i32}> ({
    ^bb0(%p1: f32, %q1: f32):
      %t1 = arith.maxnumf %p1, %p1 : f32
      tt.reduce.return %t1 : f32
    }) : (tensor<16x8x4xf32>) -> tensor<16x8xf32>
    %s = "tt.reduce"(%s1) <{axis = 1 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %t = arith.maxnumf %p, %q : f32
      tt.reduce.return %t : f32
    }) : (tensor<16x8xf32>) -> tensor<16xf32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %os = tt.addptr %op, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %os, %s : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
