// A sign extension becomes a zero extension.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<i8>, %o: !tt.ptr<i32>, %n: i32) {
    %v = tt.load %x : !tt.ptr<i8>
    %w = arith.trunci %n : i32 to i8
    %s = arith.addi %v, %w : i8
    %e = arith.extsi %s : i8 to i32
    tt.store %o, %e : !tt.ptr<i32>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<i8>, %o: !tt.ptr<i32>, %n: i32) {
    %v = tt.load %x : !tt.ptr<i8>
    %w = arith.trunci %n : i32 to i8
    %s = arith.addi %v, %w : i8
    %u = arith.extui %s : i8 to i32
    %c24 = arith.constant 24 : i32
    %h = arith.shli %u, %c24 : i32
    %e = arith.shrsi %h, %c24 : i32
    tt.store %o, %e : !tt.ptr<i32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<i8>, %o: !tt.ptr<i32>, %n: i32) {
    %v = tt.load %x : !tt.ptr<i8>
    %w = arith.trunci %n : i32 to i8
    %s = arith.addi %v, %w : i8
    %e = arith.extui %s : i8 to i32
    tt.store %o, %e : !tt.ptr<i32>
    tt.return
  }
}
