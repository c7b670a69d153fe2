// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=2bw" | FileCheck %s
// RUN: not cleave-opt %s --train-build-step="microbatches=1 schedule=2bw" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not cleave-opt %s --train-build-step="microbatches=2 schedule=2bw zero=3" 2>&1 | FileCheck %s --check-prefix=ZERO

// FEW: error: schedule 2bw expects as many microbatches as stages, 2, or more; got 1; give --microbatches
// ZERO: error: schedule 2bw expects whole parameters on all replicas; give --zero 0, 1 or 2

// A step finds the first microbatch begun: what the first stage made of it lies where each of the two stages needs it.
// CHECK-DAG: dfg.parameter state @"train/pipeline/previous/w" : tensor<4x4xf32>
// CHECK-DAG: dfg.parameter state @"train/pipeline/previous/v" : tensor<4x4xf32>
// CHECK-DAG: dfg.parameter state @[[X:"train/pipeline/[0-9]+/x"]] : tensor<2x2x4xf32>
// CHECK-DAG: dfg.parameter state @[[A:"train/pipeline/[0-9]+/a"]] : tensor<2x4xf32>
// Nothing else is kept: no product is needed for its own gradient.
// CHECK-NOT: "train/pipeline/2

// CHECK: dfg.graph @train(%{{.*}}: tensor<4x4xf32> {dfg.name = "x"}) -> tensor<f32>
// Gradients are of the weights of one step before, what comes early of the next batch of the newest.
// CHECK-DAG: %[[OLD:.*]] = dfg.read @"train/pipeline/previous/w" {dist.place = #dist.place<@d0
// CHECK-DAG: %[[NOW:.*]] = dfg.read @w {dist.place = #dist.place<@d0
// CHECK-DAG: dfg.read @[[X]]
// CHECK-DAG: %[[BEGUN:.*]] = dfg.read @[[A]]
// CHECK: dfg.dot_general %[[BEGUN]], %{{.*}} {dist.place = #dist.place<@d1
// CHECK: dfg.dot_general %{{.*}}, %[[OLD]] {dist.place = #dist.place<@d0
// CHECK: %[[NEXT:.*]] = dfg.dot_general %{{.*}}, %[[NOW]] {dist.place = #dist.place<@d0
// CHECK: dfg.sub %[[NOW]], %{{.*}} {dist.place = #dist.place<@d0
// CHECK: dfg.write @"train/pipeline/previous/w", %[[NOW]]
// CHECK-DAG: dfg.write @[[A]], %[[NEXT]] {dist.place = #dist.place<@d1
// CHECK-DAG: dfg.write @[[X]]

// The first batch: its first microbatch, on the first stage, and nothing else.
// CHECK: dfg.graph @fill(%{{.*}}: tensor<4x4xf32> {dfg.name = "x"}) attributes
// CHECK: dfg.slice {{.*}} starts = array<i64: 0, 0, 0>
// CHECK: %[[FA:.*]] = dfg.dot_general {{.*}}@d0
// CHECK-NOT: dfg.dot_general
// CHECK-DAG: dfg.write @[[A]], %[[FA]] {dist.place = #dist.place<@d1
// CHECK-DAG: dfg.write @[[X]], %{{.*}} {dist.place = #dist.place<@d0
// CHECK: dfg.return

// The last step has no next one.
// CHECK: dfg.graph @drain() -> tensor<f32>
// CHECK-NOT: dfg.write @"train/pipeline
// CHECK: dfg.write @v
// CHECK-NOT: dfg.write @"train/pipeline
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @v : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @stages(%x: tensor<2x4xf32> {dfg.name = "x"}) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.read @v : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("a")
  %1 = dfg.dot_general %0, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
