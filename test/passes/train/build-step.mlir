// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step --split-input-file | FileCheck %s
// RUN: cleave-opt %s --train-build-step --distribute --split-input-file | FileCheck %s --check-prefix=PARTS

// Forward, backward, optimizer, write; the step counts itself.
// CHECK: dfg.parameter state @"train/step" : tensor<i64>
// CHECK: dfg.graph @train(%[[X:.*]]: tensor<2x4xf32>) -> tensor<f32> attributes {dfg.samples = 2 : i64, dist.ordered}
// CHECK: dfg.write @"train/step"
// CHECK: %[[W:.*]] = dfg.read @w {dist.place = #dist.place<@d0, by = "home">}
// CHECK: %[[Y:.*]] = dfg.dot_general %[[X]], %[[W]]
// CHECK: %[[LOSS:.*]] = dfg.reduce %[[Y]]
// CHECK: %[[ONE:.*]] = dfg.constant dense<1.000000e+00>
// CHECK: %[[G:.*]] = dfg.dot_general %[[X]],
// CHECK: %[[CHANGE:.*]] = dfg.mul %[[G]],
// CHECK: %[[NEXT:.*]] = dfg.sub %[[W]], %[[CHANGE]]
// CHECK: dfg.write @w, %[[NEXT]]
// CHECK: dfg.return %[[LOSS]]
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @single(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// The gradient of what every device has is a sum over the samples of all: one reduction, which the loss shares.
// CHECK: dfg.graph @train
// CHECK: %[[G:.*]] = dfg.dot_general %{{.*}} {dist.place = #dist.place<@pair, by = "test", split = <{k = ["data"]}>>
// CHECK: dfg.mul %[[G]], %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer">}
// PARTS: dist.program @train.pair
// PARTS: dist.all_reduce {{.*}} from <[], partial sum ["data"]>, <[4, 4], partial sum ["data"]> to <[]>, <[4, 4]>
// PARTS-NOT: dist.all_reduce
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// What is cut in parts stays so: gradients, updates and parameters. Only the activation is joined. The gradient that is
// there first is used first.
// CHECK: dfg.graph @train
// CHECK: dfg.read @w {dist.place = #dist.place<@pair, by = "home", split = <{d1 = ["data"]}>>}
// CHECK: dfg.read @v {dist.place = #dist.place<@pair, by = "home", split = <{d0 = ["data"]}>>}
// CHECK: dfg.write @v, {{.*}} split = <{d0 = ["data"]}>
// CHECK: dfg.write @w, {{.*}} split = <{d1 = ["data"]}>
// PARTS: dist.program @train.pair
// PARTS-COUNT-1: dist.all_reduce
// PARTS-NOT: dist.{{all_reduce|all_gather|reduce_scatter}}
// PARTS: dist.return
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @v : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @tensor(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.read @v : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.dot_general %0, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{k = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// A parameter on two meshes has one home, the first; its gradients meet there, and it is changed once.
// CHECK: dfg.graph @train
// CHECK: dfg.read @w {dist.place = #dist.place<@d0, by = "home">}
// CHECK-NOT: dfg.read @w
// CHECK: %[[A:.*]] = dfg.dot_general %{{.*}} {dist.place = #dist.place<@d1, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>
// CHECK: %[[B:.*]] = dfg.dot_general %{{.*}} {dist.place = #dist.place<@d0, by = "test">, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>
// CHECK: dfg.add %[[A]], %[[B]] {dist.place = #dist.place<@d0, by = "gradient">}
// CHECK: dfg.write @w
// CHECK-NOT: dfg.write @w
// CHECK: dfg.return
// PARTS: dist.program @train.d0
// PARTS: %[[W:.*]] = dfg.read @w {dist.changes}
// PARTS: dist.send %[[W]] to @d1
// PARTS: dist.program @train.d1
// PARTS-NOT: dfg.read @w
// PARTS: dist.return
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @tied(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %1 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// What skips a stage goes where it is read, past the stages between, and is sent once, behind the step's learning rate.
// PARTS: dist.program @train.d0
// PARTS: dist.send %{{.*}} to @d1 channel 0 : tensor<f32>
// PARTS: dist.send %[[SKIP:.*]] to @d1 channel 1 : tensor<2x4xf32>
// PARTS: dist.send %[[SKIP]] to @d2 channel 2
// PARTS-NOT: dist.send {{.*}}tensor<2x4xf32>
// PARTS: dist.program @train.d1
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.mesh @d2 <[], devices = [2]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @v : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @skip(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.read @v : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dfg.dot_general %0, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = dfg.add %0, %1 {dist.place = #dist.place<@d2, by = "test">} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d2, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
