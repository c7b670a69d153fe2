// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=gpipe" | FileCheck %s --check-prefixes=CHECK,GPIPE
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=1f1b" | FileCheck %s --check-prefixes=CHECK,ALTERNATE
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=zb-h1" | FileCheck %s --check-prefixes=CHECK,BEHIND

// Each microbatch is a slice of the samples. The second stage, by the order of its losses (F), gradients of its input (I)
// and of its weights (W):
// CHECK: dfg.graph @train(%[[X:.*]]: tensor<4x4xf32>)
// CHECK: dfg.write @"train/step"
// CHECK: dfg.reshape %[[X]] {{.*}} -> tensor<2x2x4xf32>
// CHECK: dfg.slice {{.*}} limits = array<i64: 1, 2, 4>, starts = array<i64: 0, 0, 0>
// CHECK: dfg.slice {{.*}} limits = array<i64: 2, 2, 4>, starts = array<i64: 1, 0, 0>

// F F I W I W
// GPIPE: %[[F0:.*]] = dfg.reduce %{{.*}}@d1
// GPIPE: %[[F1:.*]] = dfg.reduce %{{.*}}@d1
// GPIPE: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// GPIPE: %[[W0:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>
// GPIPE: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// GPIPE: %[[W1:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>

// F I W F I W
// ALTERNATE: %[[F0:.*]] = dfg.reduce %{{.*}}@d1
// ALTERNATE: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// ALTERNATE: %[[W0:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>
// ALTERNATE: %[[F1:.*]] = dfg.reduce %{{.*}}@d1
// ALTERNATE: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// ALTERNATE: %[[W1:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>

// F I F I W W
// BEHIND: %[[F0:.*]] = dfg.reduce %{{.*}}@d1
// BEHIND: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// BEHIND: %[[F1:.*]] = dfg.reduce %{{.*}}@d1
// BEHIND: dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>
// BEHIND: %[[W0:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>
// BEHIND: %[[W1:.*]] = dfg.dot_general %{{.*}}@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>

// Gradients are summed up where they are made, and changed once; the loss is the mean.
// CHECK: dfg.add %[[W0]], %[[W1]] {dist.accumulates, dist.place = #dist.place<@d1, by = "test">}
// CHECK-COUNT-2: dfg.write
// CHECK: %[[SUM:.*]] = dfg.add %[[F0]], %[[F1]]
// CHECK: %[[HALF:.*]] = dfg.constant dense<5.000000e-01>
// CHECK: %[[MEAN:.*]] = dfg.mul %[[SUM]], %[[HALF]]
// CHECK: dfg.return %[[MEAN]]
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @v : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @stages(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.read @v : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.dot_general %0, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
