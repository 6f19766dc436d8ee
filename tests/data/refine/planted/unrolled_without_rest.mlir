// Unrolling by two forgets the iteration that is left of an odd number.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (f32) : i32 {
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %t = arith.addf %a, %v : f32
      scf.yield %t : f32
    }
    tt.store %o, %s : !tt.ptr<f32>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %pos = arith.maxsi %n, %c0 : i32
    %half = arith.divsi %pos, %c2 : i32
    %even = arith.muli %half, %c2 : i32
    %s2 = scf.for %i = %c0 to %even step %c2 iter_args(%a = %zero) -> (f32) : i32 {
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %t = arith.addf %a, %v : f32
      %i1 = arith.addi %i, %c1 : i32
      %p1 = tt.addptr %x, %i1 : !tt.ptr<f32>, i32
      %v1 = tt.load %p1 : !tt.ptr<f32>
      %t1 = arith.addf %t, %v1 : f32
      scf.yield %t1 : f32
    }
    %s = scf.for %i = %even to %n step %c1 iter_args(%a = %s2) -> (f32) : i32 {
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %t = arith.addf %a, %v : f32
      scf.yield %t : f32
    }
    tt.store %o, %s : !tt.ptr<f32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %pos = arith.maxsi %n, %c0 : i32
    %half = arith.divsi %pos, %c2 : i32
    %even = arith.muli %half, %c2 : i32
    %s2 = scf.for %i = %c0 to %even step %c2 iter_args(%a = %zero) -> (f32) : i32 {
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %t = arith.addf %a, %v : f32
      %i1 = arith.addi %i, %c1 : i32
      %p1 = tt.addptr %x, %i1 : !tt.ptr<f32>, i32
      %v1 = tt.load %p1 : !tt.ptr<f32>
      %t1 = arith.addf %t, %v1 : f32
      scf.yield %t1 : f32
    }
    tt.store %o, %s2 : !tt.ptr<f32>
    tt.return
  }
}
