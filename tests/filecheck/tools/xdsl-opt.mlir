// Plain xdsl-opt finds the dialects through the universe; its own arith takes scalars only.
// RUN: xdsl-opt %s | filecheck %s
// RUN: xdsl-opt -f ttir -t ttir %s | filecheck %s

// CHECK: tt.func @f(%x: !tt.ptr<f32>, %n: i32) {
tt.func @f(%x: !tt.ptr<f32>, %n: i32) {
  // CHECK-NEXT: tt.get_program_id x : i32
  %0 = tt.get_program_id x : i32
  // CHECK-NEXT: arith.addi %{{.*}}, %n : i32
  %1 = arith.addi %0, %n : i32
  // CHECK-NEXT: tt.addptr %x, %{{.*}} : !tt.ptr<f32>, i32
  %2 = tt.addptr %x, %1 : !tt.ptr<f32>, i32
  // CHECK-NEXT: tt.load %{{.*}} : !tt.ptr<f32>
  %3 = tt.load %2 : !tt.ptr<f32>
  tt.return
}
