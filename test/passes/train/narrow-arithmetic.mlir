// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-narrow-arithmetic --split-input-file | FileCheck %s

// A product gains, what follows it follows, a sum does not; a parameter is rounded where it is used, a constant once
// for all.
// CHECK: dfg.graph @follow(%[[X:.*]]: tensor<8x4xf32>) -> tensor<f32>
// CHECK: %[[W:.*]] = dfg.read @w : tensor<4x4xf32>
// CHECK: %[[XN:.*]] = dfg.cast %[[X]] {to = bf16}
// CHECK: %[[WN:.*]] = dfg.cast %[[W]] {to = bf16}
// CHECK: %[[Y:.*]] = dfg.dot_general %[[XN]], %[[WN]] {{.*}} -> tensor<8x4xbf16>
// CHECK: %[[HALF:.*]] = dfg.constant dense<5.000000e-01> : tensor<bf16>
// CHECK: %[[Z:.*]] = dfg.mul %[[Y]], %[[HALF]] : (tensor<8x4xbf16>, tensor<bf16>) -> tensor<8x4xbf16>
// CHECK: %[[S:.*]] = dfg.softmax %[[Z]] {{.*}} -> tensor<8x4xbf16>
// CHECK: %[[SW:.*]] = dfg.cast %[[S]] {to = f32}
// CHECK: %[[SUM:.*]] = dfg.reduce %[[SW]] {{.*}} : (tensor<8x4xf32>) -> tensor<f32>
// CHECK: dfg.return %[[SUM]]
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @follow(%x: tensor<8x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %half = dfg.constant dense<0.5> : tensor<f32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = dfg.mul %0, %half : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %2 = dfg.softmax %1 {dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = dfg.reduce %2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>} : (tensor<8x4xf32>) -> tensor<f32>
  dfg.return %3 : tensor<f32>
}

// -----

// What also reads something in f32 stays f32, and so does what is made of parameters alone; outputs keep their type.
// A value that is made in f32 is rounded once.
// CHECK: dfg.graph @mixed(%[[X:.*]]: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: %[[W:.*]] = dfg.read @w
// CHECK: %[[V:.*]] = dfg.neg %[[W]] : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[VN:.*]] = dfg.cast %[[V]] {to = bf16}
// CHECK: %[[E:.*]] = dfg.exp %[[X]] : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[EN:.*]] = dfg.cast %[[E]] {to = bf16}
// CHECK: %[[Y:.*]] = dfg.dot_general %[[EN]], %[[VN]] {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[YW:.*]] = dfg.cast %[[Y]] {to = f32}
// CHECK: %[[A:.*]] = dfg.add %[[YW]], %[[E]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[Z:.*]] = dfg.dot_general %[[EN]], %[[EN]] {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[ZW:.*]] = dfg.cast %[[Z]] {to = f32}
// CHECK: dfg.return %[[A]], %[[ZW]]
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @mixed(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = dfg.read @w : tensor<4x4xf32>
  %v = dfg.neg %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = dfg.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = dfg.dot_general %e, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dfg.add %0, %e : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = dfg.dot_general %e, %e {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Statistics of a normalization stay f32; words are rounded as the table is; other types are none of its business.
// CHECK: dfg.graph @table(%[[IDS:.*]]: tensor<2x3xi64>, %[[D:.*]]: tensor<2x3xf64>)
// CHECK: %[[T:.*]] = dfg.cast %{{.*}} {to = bf16} : (tensor<9x3xf32>) -> tensor<9x3xbf16>
// CHECK: %[[Y:.*]] = dfg.gather %[[T]], %[[IDS]] {{.*}} -> tensor<2x3x3xbf16>
// CHECK: dfg.batch_norm %[[Y]], {{.*}} : (tensor<2x3x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x3xbf16>
// CHECK: dfg.neg %[[D]] : (tensor<2x3xf64>) -> tensor<2x3xf64>
dfg.parameter @t : tensor<9x3xf32> = #dfg.fill<value = 1.0>
dfg.parameter @one : tensor<3xf32> = #dfg.fill<value = 1.0>
dfg.graph @table(%ids: tensor<2x3xi64>, %d: tensor<2x3xf64>) -> (tensor<2x3x3xf32>, tensor<2x3xf64>) {
  %t = dfg.read @t : tensor<9x3xf32>
  %one = dfg.read @one : tensor<3xf32>
  %0 = dfg.gather %t, %ids {dim = 0 : i64} : (tensor<9x3xf32>, tensor<2x3xi64>) -> tensor<2x3x3xf32>
  %1 = dfg.batch_norm %0, %one, %one, %one, %one {epsilon = 1.0e-5 : f64}
      : (tensor<2x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x3xf32>
  %2 = dfg.neg %d : (tensor<2x3xf64>) -> tensor<2x3xf64>
  dfg.return %1, %2 : tensor<2x3x3xf32>, tensor<2x3xf64>
}

// -----

// In a placed graph a parameter is rounded where its user needs it, cut as that needs it, and what goes to other
// devices is rounded before.
// CHECK: dfg.cast %{{.*}} {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["x"]}>>, to = bf16} : (tensor<4x4xf32>)
// CHECK: dfg.dot_general {{.*}} split = <{n = ["x"]}>{{.*}} -> tensor<8x4xbf16>
// CHECK: %[[E:.*]] = dfg.exp
// CHECK: dfg.cast %[[E]] {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["x"]}>>, to = bf16}
// CHECK: dfg.dot_general {{.*}}@other
// CHECK: dfg.cast %{{.*}} {dist.place = #dist.place<@other, by = "test">, to = f32}
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.mesh @other <[], devices = [1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @placed(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["x"]}>>}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["x"]}>>}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = dfg.dot_general %1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@other, by = "test">}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  dfg.return %2 : tensor<8x4xf32>
}
