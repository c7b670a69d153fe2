// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=1" | FileCheck %s
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=1" --distribute | FileCheck %s --check-prefix=PARTS

// Gradients of a weight that two operators read, one of them in columns, are two sums over the microbatches, which lie as
// these gradients do. What is done to the weight before a product is undone once, for the sum. At home they are added once.
// CHECK: dfg.graph @train
// CHECK: %[[TABLE:.*]] = dfg.gather_gradient {{.*}} split = <{d1 = ["data"]}>
// CHECK-NOT: dfg.transpose {{.*}} : (tensor<4x6xf32>)
// CHECK: %[[PRODUCTS:.*]] = dfg.add %{{.*}} {dist.accumulates, dist.place = #dist.place<@pair, by = "test">} : (tensor<4x6xf32>
// CHECK: %[[HEAD:.*]] = dfg.transpose %[[PRODUCTS]] {{.*}} : (tensor<4x6xf32>)
// CHECK: %[[COLUMNS:.*]] = dfg.add %[[TABLE]], %{{.*}} {dist.accumulates, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["data"]}>>} : (tensor<6x4xf32>
// CHECK-NOT: dist.accumulates
// CHECK: dfg.add %[[COLUMNS]], %[[HEAD]] {dist.place = #dist.place<@pair, by = "gradient"{{.*}}>} : (tensor<6x4xf32>

// What was summed up over all microbatches is exchanged, not what each of them has.
// PARTS: dist.program
// PARTS-COUNT-1: dist.reduce_scatter {{.*}} tensor<6x4xf32>
// PARTS-NOT: dist.all_reduce {{.*}} tensor<6x4xf32>
// PARTS-NOT: dist.reduce_scatter {{.*}} tensor<6x4xf32>
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<6x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%tokens: tensor<2xi64>) -> tensor<f32> {
  %w = dfg.read @w : tensor<6x4xf32>
  %0 = dfg.gather %w, %tokens {dim = 0 : i64, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["data"]}>>}
      : (tensor<6x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = dfg.transpose %w {permutation = array<i64: 1, 0>, dist.place = #dist.place<@pair, by = "test">} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %3 = dfg.dot_general %1, %2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %loss = dfg.reduce %3 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x6xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
