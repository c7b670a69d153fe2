// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --pass-pipeline='builtin.module(dfg.graph(graph-dispatch-experts{capacity=1.5},canonicalize,cse))' | FileCheck %s

// Samples have 6 places for 16 choices at 4 experts. What lies between products is computed on places, the bias of the
// last product, too; the way there takes tokens, not their repetitions.
// CHECK-LABEL: dfg.graph @twoLayers
// CHECK-SAME: %[[X:.*]]: tensor<4x8x1x32xf32>, %[[W:[^:]*]]: tensor<4x32x64xf32>, %[[B:[^:]*]]: tensor<4x64xf32>, %[[V:[^:]*]]: tensor<4x32x64xf32>
// CHECK-NOT: dfg.gather_dot
// CHECK: dfg.cumulative_sum {{.*}} {dim = 1 : i64, exclusive} : (tensor<4x16x4xi32>)
// CHECK: %[[ROWS:.*]] = dfg.scatter_elements {{.*}} : (tensor<4x24xi64>, tensor<4x16xi64>, tensor<4x16xi64>) -> tensor<4x24xi64>
// CHECK: %[[TOKENS:.*]] = dfg.reshape %[[X]] : (tensor<4x8x1x32xf32>) -> tensor<4x8x32xf32>
// CHECK: dfg.gather_elements %[[TOKENS]], {{.*}} {dim = 1 : i64} : (tensor<4x8x32xf32>, tensor<4x24x1xi64>) -> tensor<4x24x32xf32>
// CHECK: %[[PLACES:.*]] = dfg.transpose {{.*}} {permutation = array<i64: 1, 0, 2, 3>} : (tensor<4x4x6x32xf32>)
// CHECK: %[[INNER:.*]] = dfg.dot_general %[[PLACES]], %[[W]] {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>}
// CHECK: %[[ONE:.*]] = dfg.reshape %[[B]] : (tensor<4x64xf32>) -> tensor<4x1x1x64xf32>
// CHECK: dfg.add %[[INNER]], {{.*}} -> tensor<4x4x6x64xf32>
// CHECK: %[[RELU:.*]] = dfg.relu {{.*}} : (tensor<4x4x6x64xf32>)
// CHECK: dfg.dot_general %[[RELU]], %[[V]] {{.*}}rhs_contracting = array<i64: 2>} : (tensor<4x4x6x64xf32>, tensor<4x32x64xf32>) -> tensor<4x4x6x32xf32>
// CHECK: dfg.add {{.*}} -> tensor<4x4x6x32xf32>
// CHECK: dfg.gather_elements {{.*}} : (tensor<4x24x32xf32>, tensor<4x16x1xi64>) -> tensor<4x16x32xf32>
// CHECK: dfg.select {{.*}} -> tensor<4x16x32xf32>
dfg.graph @twoLayers(%x: tensor<4x8x1x32xf32>, %w: tensor<4x32x64xf32>, %b: tensor<4x64xf32>, %v: tensor<4x32x64xf32>, %c: tensor<4x32xf32>, %i: tensor<4x8x2xi64>) -> tensor<4x8x2x32xf32> {
  %0 = dfg.gather_dot %x, %w, %i : (tensor<4x8x1x32xf32>, tensor<4x32x64xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x64xf32>
  %1 = dfg.gather %b, %i {dim = 0 : i64} : (tensor<4x64xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x64xf32>
  %2 = dfg.add %0, %1 : (tensor<4x8x2x64xf32>, tensor<4x8x2x64xf32>) -> tensor<4x8x2x64xf32>
  %3 = dfg.relu %2 : (tensor<4x8x2x64xf32>) -> tensor<4x8x2x64xf32>
  %4 = dfg.gather_dot %3, %v, %i {transposed} : (tensor<4x8x2x64xf32>, tensor<4x32x64xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x32xf32>
  %5 = dfg.gather %c, %i {dim = 0 : i64} : (tensor<4x32xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x32xf32>
  %6 = dfg.add %4, %5 : (tensor<4x8x2x32xf32>, tensor<4x8x2x32xf32>) -> tensor<4x8x2x32xf32>
  dfg.return %6 : tensor<4x8x2x32xf32>
}

// -----

// Tokens of one dimension are one sample. A scale that differs from row to row goes along.
// CHECK-LABEL: dfg.graph @oneSample
// CHECK-NOT: dfg.gather_dot
// CHECK: dfg.gather_elements {{.*}} : (tensor<1x6x8xf32>, tensor<1x9x1xi64>) -> tensor<1x9x8xf32>
// CHECK: dfg.dot_general {{.*}} -> tensor<3x3x5xf32>
// CHECK: dfg.gather_elements {{.*}} : (tensor<1x6x1xf32>, tensor<1x9x1xi64>) -> tensor<1x9x1xf32>
// CHECK: dfg.mul {{.*}} : (tensor<3x3x5xf32>, tensor<3x3x1xf32>) -> tensor<3x3x5xf32>
// CHECK: dfg.dot_general {{.*}} -> tensor<3x3x8xf32>
dfg.graph @oneSample(%x: tensor<3x2x8xf32>, %w: tensor<3x8x5xf32>, %v: tensor<3x5x8xf32>, %s: tensor<3x2x1xf32>, %i: tensor<3x2xi32>) -> tensor<3x2x8xf32> {
  %0 = dfg.gather_dot %x, %w, %i : (tensor<3x2x8xf32>, tensor<3x8x5xf32>, tensor<3x2xi32>) -> tensor<3x2x5xf32>
  %1 = dfg.mul %0, %s : (tensor<3x2x5xf32>, tensor<3x2x1xf32>) -> tensor<3x2x5xf32>
  %2 = dfg.gather_dot %1, %v, %i : (tensor<3x2x5xf32>, tensor<3x5x8xf32>, tensor<3x2xi32>) -> tensor<3x2x8xf32>
  dfg.return %2 : tensor<3x2x8xf32>
}

// -----

// What mixes rows is computed on rows: a sum over the choices goes back and there again.
// CHECK-LABEL: dfg.graph @mixesRows
// CHECK: dfg.dot_general {{.*}} -> tensor<3x2x3x5xf32>
// CHECK: dfg.reduce {{.*}} {dims = array<i64: 2>, {{.*}}} : (tensor<2x3x2x5xf32>) -> tensor<2x3x1x5xf32>
// CHECK: dfg.dot_general {{.*}} -> tensor<3x2x3x8xf32>
dfg.graph @mixesRows(%x: tensor<2x3x2x8xf32>, %w: tensor<3x8x5xf32>, %v: tensor<3x5x8xf32>, %i: tensor<2x3x2xi64>) -> tensor<2x3x2x8xf32> {
  %0 = dfg.gather_dot %x, %w, %i : (tensor<2x3x2x8xf32>, tensor<3x8x5xf32>, tensor<2x3x2xi64>) -> tensor<2x3x2x5xf32>
  %1 = dfg.reduce %0 {dims = array<i64: 2>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<2x3x2x5xf32>) -> tensor<2x3x1x5xf32>
  %2 = dfg.gather_dot %1, %v, %i : (tensor<2x3x1x5xf32>, tensor<3x5x8xf32>, tensor<2x3x2xi64>) -> tensor<2x3x2x8xf32>
  dfg.return %2 : tensor<2x3x2x8xf32>
}

// -----

// Rows of one dimension stay as they are.
// CHECK-LABEL: dfg.graph @flat
// CHECK: dfg.gather_dot
dfg.graph @flat(%x: tensor<6x8xf32>, %w: tensor<3x8x5xf32>, %i: tensor<6xi64>) -> tensor<6x5xf32> {
  %0 = dfg.gather_dot %x, %w, %i : (tensor<6x8xf32>, tensor<3x8x5xf32>, tensor<6xi64>) -> tensor<6x5xf32>
  dfg.return %0 : tensor<6x5xf32>
}
