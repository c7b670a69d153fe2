// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weight stashing: what a stage has begun before its update keeps the weights that it was begun with, all else takes the
// newest. The first of two stages begins one microbatch early, the last none.
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=pipedream" | FileCheck %s
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=pipedream" | FileCheck %s --check-prefix=LAST

// CHECK-DAG: dfg.parameter state @"train/pipeline/previous/w" : tensor<4x4xf32>
// No gradient needs the first layer's weights again, and the last stage has no delay.
// LAST-NOT: "train/pipeline/previous/u"
// LAST-NOT: "train/pipeline/previous/v"

// CHECK: dfg.graph @train(
// CHECK-DAG: %[[OLD:.*]] = dfg.read @"train/pipeline/previous/w" {dist.place = #dist.place<@d0
// CHECK-DAG: %[[NOW:.*]] = dfg.read @w {dist.place = #dist.place<@d0
// The second microbatch is begun and ended in this step, with the newest weights; the gradient of the first one's is of
// those that it was begun with.
// CHECK: dfg.dot_general %{{.*}}, %[[NOW]] {dist.place = #dist.place<@d0
// CHECK: dfg.dot_general %{{.*}}, %[[OLD]] {dist.place = #dist.place<@d0
// CHECK: dfg.dot_general %{{.*}}, %[[NOW]] {dist.place = #dist.place<@d0
// CHECK: dfg.sub %[[NOW]], %{{.*}} {dist.place = #dist.place<@d0
// CHECK: dfg.write @"train/pipeline/previous/w", %[[NOW]]
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @u : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @v : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @stages(%x: tensor<2x4xf32> {dfg.name = "x"}) -> tensor<f32> {
  %u = dfg.read @u : tensor<4x4xf32>
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.read @v : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %u {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("a")
  %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("b")
  %2 = dfg.dot_general %1, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
