// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step --split-input-file | FileCheck %s
// RUN: cleave-opt %s --train-build-step --distribute --split-input-file | FileCheck %s --check-prefix=PARTS

// A recurrence of two steps: the weight's gradient is one product over the rows of both, that of the activation whose
// slices are read a concatenation.
// CHECK-LABEL: dfg.graph @train
// CHECK: %[[X:.*]] = dfg.dot_general %{{.*}}, %{{.*}} -> tensor<2x16xf32>
// CHECK: %[[X0:.*]] = dfg.slice %[[X]]
// CHECK: %[[H:.*]] = dfg.dot_general %[[X0]], %{{.*}} -> tensor<2x8xf32>
// CHECK-NOT: dfg.dot_general {{.*}} -> tensor<8x8xf32>
// CHECK-NOT: dfg.pad
// CHECK-DAG: %[[ACTIVATION:.*]] = dfg.concat %{{.*}}, %{{.*}} {dim = 1 : i64, dist.place = #dist.place<@d0, by = "test">} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
// CHECK-DAG: %[[ROWS:.*]] = dfg.concat {{.*}} {dim = 0 : i64, {{.*}}} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
// CHECK-DAG: dfg.dot_general {{.*}}lhs_contracting = array<i64: 0, 1>, {{.*}}rhs_contracting = array<i64: 0, 1>}{{.*}} -> tensor<8x8xf32>
// CHECK-NOT: accumulates
// CHECK: dfg.return
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @v : tensor<4x16xf32> = #dfg.fill<value = 1.0>
dfg.parameter @w : tensor<8x8xf32> = #dfg.fill<value = 1.0>
dfg.graph @single(%x: tensor<2x4xf32>) -> tensor<f32> {
  %v = dfg.read @v : tensor<4x16xf32>
  %w = dfg.read @w : tensor<8x8xf32>
  %0 = dfg.dot_general %x, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
  %x0 = dfg.slice %0 {starts = array<i64: 0, 0>, limits = array<i64: 2, 8>, strides = array<i64: 1, 1>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x16xf32>) -> tensor<2x8xf32>
  %x1 = dfg.slice %0 {starts = array<i64: 0, 8>, limits = array<i64: 2, 16>, strides = array<i64: 1, 1>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x16xf32>) -> tensor<2x8xf32>
  %h1 = dfg.dot_general %x0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %s1 = dfg.add %h1, %x1 {dist.place = #dist.place<@d0, by = "test">} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %h2 = dfg.dot_general %s1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %loss = dfg.reduce %h2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x8xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// Samples are cut, rows are not: each device stacks its own samples, and the gradient is joined once.
// CHECK-LABEL: dfg.graph @train
// CHECK: dfg.dot_general {{.*}}dist.place = #dist.place<@pair, by = "test", split = <{[[K:.*]] = ["data"]}>>, lhs_batch = array<i64>, lhs_contracting = array<i64: 0, 1>
// PARTS: dist.program @train.pair
// PARTS: dfg.concat {{.*}} : (tensor<1x1x8xf32>, tensor<1x1x8xf32>) -> tensor<2x1x8xf32>
// PARTS: dist.all_reduce
// PARTS-NOT: dist.all_
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<8x8xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%x: tensor<2x8xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<8x8xf32>
  %h1 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %h2 = dfg.dot_general %h1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %loss = dfg.reduce %h2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x8xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// Large operands: to add products of 8 samples moves fewer bytes than to copy what they are made of.
// CHECK-LABEL: dfg.graph @train
// CHECK: dfg.add {{.*}}dist.accumulates{{.*}} -> tensor<4x4xf32>
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @many(%x: tensor<8x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %h1 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %h2 = dfg.dot_general %h1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = dfg.reduce %h2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<8x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
