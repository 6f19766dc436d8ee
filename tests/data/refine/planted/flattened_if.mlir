// A branch becomes masks, and the atomic in it gets the wrong one.
// expected: write
// source
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %big = arith.cmpi sgt, %n, %c0 : i32
    scf.if %big {
      %r = tt.atomic_rmw add, relaxed, gpu, %x, %n, %true : (!tt.ptr<i32>, i32, i1) -> i32
      tt.store %o, %c1 : !tt.ptr<i32>
    }
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %c0 = arith.constant 0 : i32
    %big = arith.cmpi sgt, %n, %c0 : i32
    %r = tt.atomic_rmw add, relaxed, gpu, %x, %n, %big : (!tt.ptr<i32>, i32, i1) -> i32
    tt.store %o, %c1, %big : !tt.ptr<i32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %big = arith.cmpi sgt, %n, %c0 : i32
    %r = tt.atomic_rmw add, relaxed, gpu, %x, %n, %true : (!tt.ptr<i32>, i32, i1) -> i32
    tt.store %o, %c1, %big : !tt.ptr<i32>
    tt.return
  }
}
