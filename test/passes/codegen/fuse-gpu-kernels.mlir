// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-fuse-gpu-kernels | FileCheck %s

module attributes {dist.devices = [{name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"},
                                   {name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
dist.mesh @gpu <[], devices = [0]>
dist.mesh @cpu <[], devices = [1]>

// A row is read once for its mask, its softmax, and the sum behind it; the softmax is a result, too, as others read it.
// CHECK-LABEL: dist.program @rows
// CHECK: dfg.fusion %{{[^:]*}} : {{.*}} -> (tensor<4096x512xf32>, tensor<4096xf32>) {
// CHECK: dfg.mul
// CHECK: dfg.softmax
// CHECK: dfg.reduce
// CHECK: dfg.yield
// CHECK-NOT: dfg.fusion
// CHECK: dfg.reverse
// CHECK: dist.return
dist.program @rows(%x: tensor<4096x512xf32>, %m: tensor<4096x512xf32>) -> (tensor<4096x512xf32>, tensor<4096xf32>)
    attributes {mesh = @gpu} {
  %0 = dfg.mul %x, %m : (tensor<4096x512xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %1 = dfg.softmax %0 {dim = 1 : i64} : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %2 = dfg.reverse %1 {dims = array<i64: 0>} : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %3 = dfg.reduce %1 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>} : (tensor<4096x512xf32>) -> tensor<4096xf32>
  dist.return %2, %3 : tensor<4096x512xf32>, tensor<4096xf32>
}

// Both moments and the weights of an optimizer's step: what the first make, the last reads in registers.
// CHECK-LABEL: dist.program @update
// CHECK: dfg.fusion %{{[^:]*}} : {{.*}} -> (tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>) {
// CHECK-NOT: dfg.fusion
// CHECK: dist.return
dist.program @update(%g: tensor<100000xf32>, %m: tensor<100000xf32>, %v: tensor<100000xf32>, %p: tensor<100000xf32>)
    -> (tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>) attributes {mesh = @gpu} {
  %0 = dfg.add %m, %g : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
  %1 = dfg.sub %v, %g : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
  %2 = dfg.fusion %p, %0, %1 : (tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32> {
  ^bb0(%a: tensor<100000xf32>, %b: tensor<100000xf32>, %c: tensor<100000xf32>):
    %3 = dfg.mul %b, %c : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
    %4 = dfg.add %a, %3 : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
    dfg.yield %4 : tensor<100000xf32>
  }
  dist.return %0, %1, %2 : tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>
}

// A loss joins all elements, its gradient those of a row, and both are made of the same rows: they are read once.
// CHECK-LABEL: dist.program @loss
// CHECK: dfg.fusion %{{[^:]*}} : {{.*}} -> (tensor<f32>, tensor<4096x5001xf32>) {
// CHECK-NOT: dfg.fusion
// CHECK: dist.return
dist.program @loss(%x: tensor<4096x5001xf32>, %w: tensor<4096x5001xf32>) -> (tensor<f32>, tensor<4096x5001xf32>)
    attributes {mesh = @gpu} {
  %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<4096x5001xf32>) -> tensor<4096x5001xf32>
  %1 = dfg.mul %0, %w : (tensor<4096x5001xf32>, tensor<4096x5001xf32>) -> tensor<4096x5001xf32>
  %2 = dfg.reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<4096x5001xf32>) -> tensor<f32>
  %3 = dfg.exp %0 : (tensor<4096x5001xf32>) -> tensor<4096x5001xf32>
  %4 = dfg.reduce %w {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<4096x5001xf32>) -> tensor<4096x1xf32>
  %5 = dfg.mul %3, %4 : (tensor<4096x5001xf32>, tensor<4096x1xf32>) -> tensor<4096x5001xf32>
  dist.return %2, %5 : tensor<f32>, tensor<4096x5001xf32>
}

// A value that goes a way of its own to the reader, outside of kernels, keeps them apart.
// CHECK-LABEL: dist.program @way_around
// CHECK-NOT: dfg.fusion
// CHECK: dist.return
dist.program @way_around(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {mesh = @gpu} {
  %0 = dfg.exp %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = plan.view %0 : tensor<64x32xf32> -> tensor<32x64xf32>
  %2 = plan.view %1 : tensor<32x64xf32> -> tensor<64x32xf32>
  %3 = dfg.add %0, %2 : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  dist.return %3 : tensor<64x32xf32>
}

// What is computed when the plan is loaded stays apart from what every step computes.
// CHECK-LABEL: dist.program @loaded
// CHECK-NOT: dfg.fusion
// CHECK: dist.return
dfg.parameter @w : tensor<64x32xf32> = #dfg.fill<value = 1.0 : f64>
dist.program @loaded(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {mesh = @gpu} {
  %w = dfg.read @w : tensor<64x32xf32>
  %0 = dfg.exp %w : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = dfg.add %x, %0 : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  dist.return %1 : tensor<64x32xf32>
}

// A kernel may end with a sum over microbatches, but not go on with it.
// CHECK-LABEL: dist.program @accumulated
// CHECK: dfg.fusion
// CHECK: dfg.exp
// CHECK: dfg.add
// CHECK: dfg.yield
// CHECK: dfg.abs
// CHECK: dist.return
dist.program @accumulated(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {mesh = @gpu} {
  %0 = dfg.exp %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = dfg.add %0, %y {dist.accumulates} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = dfg.abs %1 : (tensor<64x32xf32>) -> tensor<64x32xf32>
  dist.return %2 : tensor<64x32xf32>
}

// A sum so far that is smaller than what it is made of stays where it was: its operands would be kept until the next term.
// CHECK-LABEL: dist.program @so_far
// CHECK-NEXT: %[[FIRST:.*]] = dfg.reduce
// CHECK: dfg.{{fusion|add}} {{.*}}%[[FIRST]]
dist.program @so_far(%x: tensor<64x32x8xf32>, %y: tensor<64x32x8xf32>) -> tensor<64x32xf32> attributes {mesh = @gpu} {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<64x32x8xf32>) -> tensor<64x32xf32>
  %1 = dfg.reduce %y {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<64x32x8xf32>) -> tensor<64x32xf32>
  %2 = dfg.add %0, %1 {dist.accumulates} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  dist.return %2 : tensor<64x32xf32>
}

// What reads nothing is computed where it is read, though it is known when the plan is loaded: to read it would take
// longer.
// CHECK-LABEL: dist.program @counted
// CHECK: dfg.fusion
// CHECK: dfg.iota
// CHECK: dfg.add
// CHECK: dfg.yield
// CHECK-NOT: dfg.iota
// CHECK: dist.return
dist.program @counted(%x: tensor<64x4096xi64>) -> tensor<64x4096xi64> attributes {mesh = @gpu} {
  %0 = dfg.iota {dim = 1 : i64} : () -> tensor<64x4096xi64>
  %1 = dfg.add %x, %0 : (tensor<64x4096xi64>, tensor<64x4096xi64>) -> tensor<64x4096xi64>
  dist.return %1 : tensor<64x4096xi64>
}

// Programs of processors are none of its business.
// CHECK-LABEL: dist.program @processor
// CHECK-NOT: dfg.fusion
// CHECK: dist.return
dist.program @processor(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {mesh = @cpu} {
  %0 = dfg.exp %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = dfg.add %x, %0 : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  dist.return %1 : tensor<64x32xf32>
}
}
