// A store moves up, over a load from the same place.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %a = tt.load %x : !tt.ptr<i32>
    tt.store %o, %a : !tt.ptr<i32>
    %z = arith.constant 7 : i32
    tt.store %x, %z : !tt.ptr<i32>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %z = arith.constant 7 : i32
    %a = tt.load %x : !tt.ptr<i32>
    tt.store %x, %z : !tt.ptr<i32>
    tt.store %o, %a : !tt.ptr<i32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %z = arith.constant 7 : i32
    tt.store %x, %z : !tt.ptr<i32>
    %a = tt.load %x : !tt.ptr<i32>
    tt.store %o, %a : !tt.ptr<i32>
    tt.return
  }
}
