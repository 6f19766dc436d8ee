// Two loads of one address are taken for the same, with a store between them.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %a = tt.load %x : !tt.ptr<i32>
    %b = arith.addi %a, %n : i32
    tt.store %x, %b : !tt.ptr<i32>
    %c = tt.load %x : !tt.ptr<i32>
    %d = arith.addi %c, %c1 : i32
    tt.store %o, %d : !tt.ptr<i32>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %a = tt.load %x : !tt.ptr<i32>
    %b = arith.addi %a, %n : i32
    tt.store %x, %b : !tt.ptr<i32>
    %d = arith.addi %b, %c1 : i32
    tt.store %o, %d : !tt.ptr<i32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c1 = arith.constant 1 : i32
    %a = tt.load %x : !tt.ptr<i32>
    %b = arith.addi %a, %n : i32
    tt.store %x, %b : !tt.ptr<i32>
    %d = arith.addi %a, %c1 : i32
    tt.store %o, %d : !tt.ptr<i32>
    tt.return
  }
}
