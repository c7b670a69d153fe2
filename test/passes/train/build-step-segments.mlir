// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step | FileCheck %s
// RUN: cleave-opt %s --train-build-step | FileCheck %s --check-prefix=GONE

// Segments are computed again one at a time, each before its gradients, from what entered it; the middle one keeps all.
// CHECK: dfg.graph @train(%[[X:.*]]: tensor<2x4xf32>)
// CHECK: %[[A:.*]] = dfg.exp
// CHECK: %[[B:.*]] = dfg.sigmoid %[[A]]
// CHECK: %[[C:.*]] = dfg.tanh
// CHECK: %[[D:.*]] = dfg.exp %[[C]]
// CHECK: dfg.reduce %[[D]]
// The last segment.
// CHECK: %[[C2:.*]] = dfg.barrier %[[C]]
// CHECK-NOT: dfg.{{sigmoid|tanh}}
// CHECK: %[[D2:.*]] = dfg.exp %[[C2]]
// CHECK: dfg.mul %{{.*}}, %[[D2]]
// The one before keeps what it made.
// CHECK-NOT: dfg.{{exp|sigmoid|tanh}}
// CHECK: dfg.mul %[[C]], %[[C]]
// The first one.
// CHECK-NOT: dfg.tanh
// CHECK: %[[X2:.*]] = dfg.barrier %[[X]]
// CHECK: %[[P2:.*]] = dfg.dot_general %[[X2]]
// CHECK: %[[A2:.*]] = dfg.exp %[[P2]]
// CHECK: %[[B2:.*]] = dfg.sigmoid %[[A2]]
// CHECK-NOT: dfg.{{exp|tanh}}

// GONE-NOT: dist.recompute
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @segments(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">,
      dist.recompute = #dist.recompute<0, "full">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@d0, by = "test">} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = dfg.sigmoid %1 {dist.place = #dist.place<@d0, by = "test">, dist.recompute = #dist.recompute<0, "full">}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = dfg.tanh %2 {dist.place = #dist.place<@d0, by = "test">, dist.recompute = #dist.recompute<1, "none">}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = dfg.exp %3 {dist.place = #dist.place<@d0, by = "test">, dist.recompute = #dist.recompute<2, "full">}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %4 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
