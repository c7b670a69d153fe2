// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="recompute=offload" --split-input-file | FileCheck %s

// What gradients read of the forward pass moves to the host's memory where it is made, and comes back where it is read.
// What enters the stage stays, and what no gradient reads does not move.
// CHECK-LABEL: dfg.graph @train(%{{.*}}: tensor<2x4xf32>)
// CHECK: %[[P:.*]] = dfg.dot_general
// CHECK-NOT: dfg.offload
// CHECK: %[[E:.*]] = dfg.exp %[[P]]
// CHECK-NEXT: %[[KEPT:.*]] = dfg.offload %[[E]] {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
// CHECK: dfg.reduce %[[E]]
// CHECK: %[[BACK:.*]] = dfg.fetch %[[KEPT]] {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
// CHECK-NEXT: dfg.mul %{{.*}}, %[[BACK]]
// CHECK-NOT: dfg.{{offload|fetch|exp}}
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>,
      dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// Scores of 64 x 64 are in memory, and move as all else does; what shows the bytes of another value moves as that does.
// CHECK-LABEL: dfg.graph @train(
// CHECK: %[[Q:.*]] = dfg.exp
// CHECK-NEXT: %[[KEPT:.*]] = dfg.offload %[[Q]]
// CHECK: %[[QUERIES:.*]] = dfg.reshape %[[Q]]
// CHECK-NOT: dfg.offload
// CHECK: dfg.dot_general %[[QUERIES]], %[[QUERIES]]
// CHECK: %[[P:.*]] = dfg.softmax
// CHECK-NEXT: %[[WEIGHTS:.*]] = dfg.offload %[[P]]
// CHECK-DAG: %[[BACK:.*]] = dfg.fetch %[[KEPT]]
// CHECK-DAG: dfg.reshape %[[BACK]]
// CHECK-DAG: dfg.fetch %[[WEIGHTS]]
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<64x8xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<64x8xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<64x8xf32>
  %0 = dfg.mul %x, %w {dist.place = #dist.place<@d0, by = "test">} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@d0, by = "test">} : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %q = dfg.reshape %1 {dist.place = #dist.place<@d0, by = "test">} : (tensor<64x8xf32>) -> tensor<1x64x8xf32>
  %s = dfg.dot_general %q, %q {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 2>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x64x8xf32>, tensor<1x64x8xf32>) -> tensor<1x64x64xf32>
  %p = dfg.softmax %s {dim = 2 : i64, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x64x64xf32>) -> tensor<1x64x64xf32>
  %r = dfg.dot_general %p, %q {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 1>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x64x64xf32>, tensor<1x64x8xf32>) -> tensor<1x64x8xf32>
  %e = dfg.tanh %r {dist.place = #dist.place<@d0, by = "test">} : (tensor<1x64x8xf32>) -> tensor<1x64x8xf32>
  %loss = dfg.reduce %e {dims = array<i64: 0, 1, 2>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x64x8xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// Scores of 4096 x 4096 are never all in memory: attention's gradient is found with it, and what it reads stays.
// CHECK-LABEL: dfg.graph @train(
// CHECK-NOT: dfg.offload
// CHECK: dfg.softmax
// CHECK-NOT: dfg.offload
// CHECK: %[[T:.*]] = dfg.tanh
// CHECK-NEXT: %[[MOVED:.*]] = dfg.offload %[[T]]
// CHECK-NOT: dfg.offload
// CHECK: dfg.fetch %[[MOVED]]
// CHECK-NOT: dfg.{{fetch|offload}}
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4096x8xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<4096x8xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4096x8xf32>
  %0 = dfg.mul %x, %w {dist.place = #dist.place<@d0, by = "test">} : (tensor<4096x8xf32>, tensor<4096x8xf32>) -> tensor<4096x8xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@d0, by = "test">} : (tensor<4096x8xf32>) -> tensor<4096x8xf32>
  %q = dfg.reshape %1 {dist.place = #dist.place<@d0, by = "test">} : (tensor<4096x8xf32>) -> tensor<1x4096x8xf32>
  %s = dfg.dot_general %q, %q {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 2>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x4096x8xf32>, tensor<1x4096x8xf32>) -> tensor<1x4096x4096xf32>
  %p = dfg.softmax %s {dim = 2 : i64, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x4096x4096xf32>) -> tensor<1x4096x4096xf32>
  %r = dfg.dot_general %p, %q {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 1>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x4096x4096xf32>, tensor<1x4096x8xf32>) -> tensor<1x4096x8xf32>
  %e = dfg.tanh %r {dist.place = #dist.place<@d0, by = "test">} : (tensor<1x4096x8xf32>) -> tensor<1x4096x8xf32>
  %loss = dfg.reduce %e {dims = array<i64: 0, 1, 2>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<1x4096x8xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
