// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fuse-elementwise))' | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<8x16xf32> = #dfg.fill<value = 1.0 : f64>

// A chain, and the reduction behind it, become one kernel.
// CHECK-LABEL: dist.program @chain
// CHECK: dfg.fusion %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8xf32>
// CHECK: dfg.mul
// CHECK: dfg.exp
// CHECK: dfg.reduce
// CHECK: dfg.yield
dist.program @chain(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8xf32> attributes {mesh = @d0} {
  %0 = dfg.mul %x, %y : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = dfg.exp %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = dfg.reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
  dist.return %2 : tensor<8xf32>
}

// What follows a contraction or a reduction joins it; two of them stay apart.
// CHECK-LABEL: dist.program @behind_sums
// CHECK: dfg.fusion
// CHECK: dfg.dot_general
// CHECK: dfg.relu
// CHECK: dfg.yield
// CHECK: dfg.fusion
// CHECK: dfg.reduce
// CHECK: dfg.exp
// CHECK: dfg.yield
// CHECK: dist.return
dist.program @behind_sums(%x: tensor<8x16xf32>, %y: tensor<16x4xf32>) -> tensor<8xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = dfg.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = dfg.reverse %1 {dims = array<i64: 0>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = dfg.reduce %2 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  %4 = dfg.exp %3 : (tensor<8xf32>) -> tensor<8xf32>
  dist.return %4 : tensor<8xf32>
}

// What is broadcast would be computed once an element: it stays apart.
// CHECK-LABEL: dist.program @broadcast
// CHECK-NOT: dfg.fusion
dist.program @broadcast(%x: tensor<8x16xf32>, %y: tensor<16xf32>) -> tensor<8x16xf32> attributes {mesh = @d0} {
  %0 = dfg.exp %y : (tensor<16xf32>) -> tensor<16xf32>
  %1 = dfg.add %x, %0 : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  dist.return %1 : tensor<8x16xf32>
}

// A result that two operators outside of one cluster read stays.
// CHECK-LABEL: dist.program @two_readers
// CHECK-NOT: dfg.fusion
dist.program @two_readers(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {mesh = @d0} {
  %0 = dfg.exp %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = dfg.neg %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = dfg.abs %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  dist.return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// A diamond whose ends meet in one operator is one kernel.
// CHECK-LABEL: dist.program @diamond
// CHECK: dfg.fusion %{{[^,]*}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-COUNT-4: dfg.{{exp|neg|abs|add}}
// CHECK: dfg.yield
dist.program @diamond(%x: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mesh = @d0} {
  %0 = dfg.exp %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = dfg.neg %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = dfg.abs %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = dfg.add %1, %2 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  dist.return %3 : tensor<8x16xf32>
}

// What depends on parameters alone is computed once at load, so it does not join what runs in every step.
// CHECK-LABEL: dist.program @constant
// CHECK: %[[E:.*]] = dfg.exp
// CHECK: dfg.add %{{.*}}, %[[E]]
dist.program @constant(%x: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<8x16xf32>
  %0 = dfg.exp %w : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = dfg.add %x, %0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  dist.return %1 : tensor<8x16xf32>
}

// What lies channels-last is computed as it lies: transposes to the order of dimensions and back join the kernel, each
// reader its own copy of them.
// CHECK-LABEL: dist.program @permuted
// CHECK: plan.view
// CHECK-NOT: dfg.transpose
// CHECK: dfg.fusion
// CHECK: dfg.transpose
// CHECK: dfg.exp
// CHECK: dfg.transpose
// CHECK: dfg.yield
// CHECK-NOT: dfg.transpose
// CHECK: dfg.fusion
// CHECK: dfg.transpose
// CHECK: dfg.reduce
// CHECK: dfg.yield
// CHECK-NOT: dfg.transpose
// CHECK: dist.return
dist.program @permuted(%x: tensor<2x8x4x4xf32, #plan.layout<"acdb", padded = [2, 8, 4, 4], strides = [128, 1, 32, 8]>>) -> (tensor<2x8x4x4xf32, #plan.layout<"acdb", padded = [2, 8, 4, 4], strides = [128, 1, 32, 8]>>, tensor<8xf32>) attributes {mesh = @d0} {
  %0 = plan.view %x : tensor<2x8x4x4xf32, #plan.layout<"acdb", padded = [2, 8, 4, 4], strides = [128, 1, 32, 8]>> -> tensor<2x4x4x8xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x4x4x8xf32>) -> tensor<2x8x4x4xf32>
  %2 = dfg.exp %1 : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %3 = dfg.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x4x8xf32>
  %4 = plan.view %3 : tensor<2x4x4x8xf32> -> tensor<2x8x4x4xf32, #plan.layout<"acdb", padded = [2, 8, 4, 4], strides = [128, 1, 32, 8]>>
  %5 = dfg.reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 2, 3>} : (tensor<2x8x4x4xf32>) -> tensor<8xf32>
  dist.return %4, %5 : tensor<2x8x4x4xf32, #plan.layout<"acdb", padded = [2, 8, 4, 4], strides = [128, 1, 32, 8]>>, tensor<8xf32>
}

// A sum over microbatches: the second term is computed where it is added, the first one where it stood.
// CHECK-LABEL: dist.program @so_far
// CHECK: %[[FIRST:.*]] = dfg.reduce
// CHECK: dfg.fusion {{.*}}%[[FIRST]]
// CHECK: dfg.reduce
// CHECK: dfg.add
// CHECK: dfg.yield
// CHECK: dist.return
dist.program @so_far(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8xf32> attributes {mesh = @d0} {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
  %1 = dfg.reduce %y {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
  %2 = dfg.add %0, %1 {dist.accumulates} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  dist.return %2 : tensor<8xf32>
}
