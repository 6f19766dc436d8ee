// The peeled iteration runs although the loop has none.
// expected: read
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
    %zero = arith.constant 0.000000e+00 : f32
    %any = arith.cmpi sgt, %n, %c0 : i32
    %s = scf.if %any -> (f32) {
      %v0 = tt.load %x : !tt.ptr<f32>
      %a0 = arith.addf %zero, %v0 : f32
      %rest = scf.for %i = %c1 to %n step %c1 iter_args(%a = %a0) -> (f32) : i32 {
        %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
        %v = tt.load %p : !tt.ptr<f32>
        %t = arith.addf %a, %v : f32
        scf.yield %t : f32
      }
      scf.yield %rest : f32
    } else {
      scf.yield %zero : f32
    }
    tt.store %o, %s : !tt.ptr<f32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %v0 = tt.load %x : !tt.ptr<f32>
    %a0 = arith.addf %zero, %v0 : f32
    %s = scf.for %i = %c1 to %n step %c1 iter_args(%a = %a0) -> (f32) : i32 {
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %t = arith.addf %a, %v : f32
      scf.yield %t : f32
    }
    tt.store %o, %s : !tt.ptr<f32>
    tt.return
  }
}
