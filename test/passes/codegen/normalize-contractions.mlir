// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-normalize-contractions))' | FileCheck %s

dist.mesh @d0 <[], devices = [0]>

// Two free dimensions become one by a reshape, which moves nothing.
// CHECK-LABEL: dist.program @free
// CHECK: %[[X:.*]] = dfg.reshape %{{.*}} : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
// CHECK: %[[P:.*]] = dfg.dot_general %[[X]], %{{.*}} {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>}
// CHECK: dfg.reshape %[[P]] : (tensor<10x4xf32>) -> tensor<2x5x4xf32>
dist.program @free(%x: tensor<2x5x8xf32>, %w: tensor<8x4xf32>) -> tensor<2x5x4xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x8xf32>, tensor<8x4xf32>) -> tensor<2x5x4xf32>
  dist.return %0 : tensor<2x5x4xf32>
}

// Two batch dimensions become one; the contracting dimension of the right side stays last: no transpose.
// CHECK-LABEL: dist.program @attention
// CHECK-NOT: dfg.transpose
// CHECK: dfg.dot_general %{{.*}}, %{{.*}} {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x7x8xf32>, tensor<6x7x8xf32>) -> tensor<6x7x7xf32>
dist.program @attention(%q: tensor<2x3x7x8xf32>, %k: tensor<2x3x7x8xf32>) -> tensor<2x3x7x7xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>} : (tensor<2x3x7x8xf32>, tensor<2x3x7x8xf32>) -> tensor<2x3x7x7xf32>
  dist.return %0 : tensor<2x3x7x7xf32>
}

// A contracting dimension between free ones has to be moved.
// CHECK-LABEL: dist.program @between
// CHECK: dfg.transpose %{{.*}} {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x5xf32>) -> tensor<2x5x8xf32>
dist.program @between(%x: tensor<2x8x5xf32>, %w: tensor<8x4xf32>) -> tensor<2x5x4xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<2x8x5xf32>, tensor<8x4xf32>) -> tensor<2x5x4xf32>
  dist.return %0 : tensor<2x5x4xf32>
}
