// A load is hoisted out of a loop that stores to the same place.
// expected: value
// source
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %v = tt.load %x : !tt.ptr<i32>
      %w = arith.addi %v, %i : i32
      tt.store %x, %w : !tt.ptr<i32>
    }
    %last = tt.load %x : !tt.ptr<i32>
    tt.store %o, %last : !tt.ptr<i32>
    tt.return
  }
}

// -----
// right
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %any = arith.cmpi sgt, %n, %c0 : i32
    scf.if %any {
      %v = tt.load %x : !tt.ptr<i32>
      %w = scf.for %i = %c0 to %n step %c1 iter_args(%a = %v) -> (i32) : i32 {
        %s = arith.addi %a, %i : i32
        scf.yield %s : i32
      }
      tt.store %x, %w : !tt.ptr<i32>
    }
    %last = tt.load %x : !tt.ptr<i32>
    tt.store %o, %last : !tt.ptr<i32>
    tt.return
  }
}

// -----
// wrong
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v = tt.load %x : !tt.ptr<i32>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %w = arith.addi %v, %i : i32
      tt.store %x, %w : !tt.ptr<i32>
    }
    %last = tt.load %x : !tt.ptr<i32>
    tt.store %o, %last : !tt.ptr<i32>
    tt.return
  }
}
