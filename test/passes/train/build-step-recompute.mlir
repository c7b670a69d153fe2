// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="recompute=none" | FileCheck %s --check-prefix=KEPT
// RUN: cleave-opt %s --train-build-step="recompute=selective" | FileCheck %s --check-prefix=PRODUCTS
// RUN: cleave-opt %s --train-build-step="recompute=full" | FileCheck %s --check-prefix=FULL

// Nothing is computed again.
// KEPT: dfg.exp
// KEPT-NOT: dfg.{{exp|barrier}}

// Of the product the result is kept, and seen through a barrier.
// PRODUCTS: %[[P:.*]] = dfg.dot_general
// PRODUCTS: %[[E:.*]] = dfg.exp %[[P]]
// PRODUCTS: dfg.reduce %[[E]]
// PRODUCTS: %[[AGAIN:.*]] = dfg.barrier %[[P]]
// PRODUCTS-NOT: dfg.dot_general
// PRODUCTS: %[[F:.*]] = dfg.exp %[[AGAIN]]
// PRODUCTS: dfg.mul %{{.*}}, %[[F]]

// Only what enters the stage is kept, and the weights.
// FULL: dfg.graph @train(%[[X:.*]]: tensor<2x4xf32>)
// FULL: %[[W:.*]] = dfg.read @w
// FULL: dfg.reduce
// FULL: %[[AGAIN:.*]] = dfg.barrier %[[X]]
// FULL: %[[P:.*]] = dfg.dot_general %[[AGAIN]], %[[W]]
// FULL: %[[E:.*]] = dfg.exp %[[P]]
// FULL: dfg.mul %{{.*}}, %[[E]]
// FULL: dfg.dot_general %[[AGAIN]],
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @recompute(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@d0, by = "test">} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
