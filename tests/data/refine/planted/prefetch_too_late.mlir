// The prefetched tile is used one iteration late.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>, %o: !tt.ptr<f32>, %k: i32) {
    %c0 = arith.constant 0 : i32
    %c16 = arith.constant 16 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %w = arith.constant dense<16> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %r {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %cols : tensor<1x16xi32> -> tensor<16x16xi32>
    %offs = arith.addi %rb, %cb : tensor<16x16xi32>
    %xp = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %x0 = tt.addptr %xp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %yp = tt.splat %y : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %y0 = tt.addptr %yp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %o0 = tt.addptr %op, %offs : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %step = arith.constant dense<256> : tensor<16x16xi32>
    %acc:3 = scf.for %i = %c0 to %k step %c16 iter_args(%a = %zero, %px = %x0, %py = %y0) -> (tensor<16x16xf32>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>) : i32 {
      %vx = tt.load %px : tensor<16x16x!tt.ptr<f16>>
      %vy = tt.load %py : tensor<16x16x!tt.ptr<f16>>
      %vt = tt.trans %vy {order = array<i32: 1, 0>} : tensor<16x16xf16> -> tensor<16x16xf16>
      %d = tt.dot %vx, %vt, %a : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
      %nx = tt.addptr %px, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      %ny = tt.addptr %py, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      scf.yield %d, %nx, %ny : tensor<16x16xf32>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>
    }
    tt.store %o0, %acc#0 : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>, %o: !tt.ptr<f32>, %k: i32) {
    %c0 = arith.constant 0 : i32
    %c16 = arith.constant 16 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %w = arith.constant dense<16> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %r {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %cols : tensor<1x16xi32> -> tensor<16x16xi32>
    %offs = arith.addi %rb, %cb : tensor<16x16xi32>
    %xp = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %x0 = tt.addptr %xp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %yp = tt.splat %y : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %y0 = tt.addptr %yp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %o0 = tt.addptr %op, %offs : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %step = arith.constant dense<256> : tensor<16x16xi32>
    %some = arith.cmpi sgt, %k, %c0 : i32
    %mask = tt.splat %some : i1 -> tensor<16x16xi1>
    %first = tt.load %x0, %mask : tensor<16x16x!tt.ptr<f16>>
    %x1 = tt.addptr %x0, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %acc:4 = scf.for %i = %c0 to %k step %c16 iter_args(%a = %zero, %vx = %first, %px = %x1, %py = %y0) -> (tensor<16x16xf32>, tensor<16x16xf16>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>) : i32 {
      %next = arith.addi %i, %c16 : i32
      %more = arith.cmpi slt, %next, %k : i32
      %mm = tt.splat %more : i1 -> tensor<16x16xi1>
      %vn = tt.load %px, %mm : tensor<16x16x!tt.ptr<f16>>
      %vy = tt.load %py : tensor<16x16x!tt.ptr<f16>>
      %vt = tt.trans %vy {order = array<i32: 1, 0>} : tensor<16x16xf16> -> tensor<16x16xf16>
      %d = tt.dot %vx, %vt, %a : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
      %nx = tt.addptr %px, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      %ny = tt.addptr %py, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      scf.yield %d, %vn, %nx, %ny : tensor<16x16xf32>, tensor<16x16xf16>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>
    }
    tt.store %o0, %acc#0 : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>, %o: !tt.ptr<f32>, %k: i32) {
    %c0 = arith.constant 0 : i32
    %c16 = arith.constant 16 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %w = arith.constant dense<16> : tensor<16x1xi32>
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %cols = tt.expand_dims %r {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %rw = arith.muli %rows, %w : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %cols : tensor<1x16xi32> -> tensor<16x16xi32>
    %offs = arith.addi %rb, %cb : tensor<16x16xi32>
    %xp = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %x0 = tt.addptr %xp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %yp = tt.splat %y : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %y0 = tt.addptr %yp, %offs : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %op = tt.splat %o : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %o0 = tt.addptr %op, %offs : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %step = arith.constant dense<256> : tensor<16x16xi32>
    %some = arith.cmpi sgt, %k, %c0 : i32
    %mask = tt.splat %some : i1 -> tensor<16x16xi1>
    %first = tt.load %x0, %mask : tensor<16x16x!tt.ptr<f16>>
    %none = arith.constant dense<0> : tensor<16x16xi32>
    %x1 = tt.addptr %x0, %none : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
    %acc:4 = scf.for %i = %c0 to %k step %c16 iter_args(%a = %zero, %vx = %first, %px = %x1, %py = %y0) -> (tensor<16x16xf32>, tensor<16x16xf16>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>) : i32 {
      %next = arith.addi %i, %c16 : i32
      %more = arith.cmpi slt, %next, %k : i32
      %mm = tt.splat %more : i1 -> tensor<16x16xi1>
      %vn = tt.load %px, %mm : tensor<16x16x!tt.ptr<f16>>
      %vy = tt.load %py : tensor<16x16x!tt.ptr<f16>>
      %vt = tt.trans %vy {order = array<i32: 1, 0>} : tensor<16x16xf16> -> tensor<16x16xf16>
      %d = tt.dot %vx, %vt, %a : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
      %nx = tt.addptr %px, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      %ny = tt.addptr %py, %step : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      scf.yield %d, %vn, %nx, %ny : tensor<16x16xf32>, tensor<16x16xf16>, tensor<16x16x!tt.ptr<f16>>, tensor<16x16x!tt.ptr<f16>>
    }
    tt.store %o0, %acc#0 : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
}
