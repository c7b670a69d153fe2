// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-widen-sums --split-input-file | FileCheck %s

// Products give their sums; reductions read f32; what only moves elements stands in between.
// CHECK: dfg.graph @sums(%[[X:.*]]: tensor<8x4xbf16>, %[[DY:.*]]: tensor<8x6xbf16>)
// CHECK: %[[W:.*]] = dfg.dot_general %[[X]], %[[DY]] {{.*}}wide{{.*}} -> tensor<4x6xf32>
// CHECK: %[[T:.*]] = dfg.transpose %[[W]] {{.*}} -> tensor<6x4xf32>
// CHECK: %[[D:.*]] = dfg.cast %[[DY]] {to = f32}
// CHECK: %[[B:.*]] = dfg.reduce %[[D]] {{.*}} -> tensor<6xf32>
// CHECK-NOT: to = f32
// CHECK: dfg.return %[[T]], %[[B]]
dfg.graph @sums(%x: tensor<8x4xbf16>, %dy: tensor<8x6xbf16>) -> (tensor<6x4xf32>, tensor<6xf32>) {
  %0 = dfg.dot_general %x, %dy {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 0>,
      rhs_contracting = array<i64: 0>} : (tensor<8x4xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<4x6xbf16>) -> tensor<6x4xbf16>
  %2 = dfg.cast %1 {to = f32} : (tensor<6x4xbf16>) -> tensor<6x4xf32>
  %3 = dfg.reduce %dy {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>} : (tensor<8x6xbf16>) -> tensor<6xbf16>
  %4 = dfg.cast %3 {to = f32} : (tensor<6xbf16>) -> tensor<6xf32>
  dfg.return %2, %4 : tensor<6x4xf32>, tensor<6xf32>
}

// -----

// The sum of a convolution's filter, and of what several positions add to one row.
// CHECK: dfg.graph @gradients
// CHECK: dfg.conv_filter_gradient {{.*}} : (tensor<1x4x9x9xbf16>, tensor<1x6x7x7xbf16>) -> tensor<6x4x3x3xf32>
// CHECK: dfg.gather_gradient {{.*}} : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<9x3xf32>
dfg.graph @gradients(%x: tensor<1x4x9x9xbf16>, %dy: tensor<1x6x7x7xbf16>, %dt: tensor<2x3xbf16>, %ids: tensor<2xi64>)
    -> (tensor<6x4x3x3xf32>, tensor<9x3xf32>) {
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x4x9x9xbf16>, tensor<1x6x7x7xbf16>) -> tensor<6x4x3x3xbf16>
  %1 = dfg.cast %0 {to = f32} : (tensor<6x4x3x3xbf16>) -> tensor<6x4x3x3xf32>
  %2 = dfg.gather_gradient %dt, %ids {dim = 0 : i64} : (tensor<2x3xbf16>, tensor<2xi64>) -> tensor<9x3xbf16>
  %3 = dfg.cast %2 {to = f32} : (tensor<9x3xbf16>) -> tensor<9x3xf32>
  dfg.return %1, %3 : tensor<6x4x3x3xf32>, tensor<9x3xf32>
}

// -----

// What others read in bfloat16, what is no sum, and what the model rounds by itself stay.
// CHECK: dfg.graph @others
// CHECK: dfg.dot_general {{.*}} -> tensor<4x4xbf16>
// CHECK: dfg.cast {{.*}} {to = f32}
// CHECK: dfg.neg {{.*}} -> tensor<4x4xbf16>
// CHECK-COUNT-2: to = f32
dfg.graph @others(%x: tensor<4x4xbf16>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = dfg.dot_general %x, %x {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = dfg.cast %0 {to = f32} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = dfg.neg %x : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %3 = dfg.cast %2 {to = f32} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %4 = dfg.cast %y {to = bf16} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %5 = dfg.cast %4 {to = f32} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  dfg.return %1, %0, %3, %5 : tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A view shows the product's sums as they are; what comes from outside, or is rounded in other places, stays, with or
// without a move.
// CHECK: dfg.graph @views(%[[X:[^:]*]]: tensor<8x4xbf16>
// CHECK: %[[W:.*]] = dfg.dot_general {{.*}}wide{{.*}} -> tensor<4x4xf32>
// CHECK: %[[V:.*]] = dfg.reshape %[[W]] : (tensor<4x4xf32>) -> tensor<16xf32>
// CHECK: %[[A:.*]] = dfg.cast %[[X]] {to = f32}
// CHECK: %[[M:.*]] = dfg.reshape %{{.*}} : (tensor<8x4xbf16>) -> tensor<32xbf16>
// CHECK: %[[B:.*]] = dfg.cast %[[M]] {to = f32}
// CHECK: %[[N:.*]] = dfg.neg %{{.*}} -> tensor<8x4xbf16>
// CHECK: %[[R:.*]] = dfg.reshape %[[N]] : (tensor<8x4xbf16>) -> tensor<32xbf16>
// CHECK: %[[C:.*]] = dfg.cast %[[R]] {to = f32}
// CHECK: dfg.return %[[V]], %[[A]], %[[B]], %[[C]]
dfg.graph @views(%x: tensor<8x4xbf16>, %y: tensor<8x4xbf16>, %z: tensor<8x4xbf16>)
    -> (tensor<16xf32>, tensor<8x4xf32>, tensor<32xf32>, tensor<32xf32>) {
  %0 = dfg.dot_general %z, %z {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 0>,
      rhs_contracting = array<i64: 0>} : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = dfg.reshape %0 : (tensor<4x4xbf16>) -> tensor<16xbf16>
  %2 = dfg.cast %1 {to = f32} : (tensor<16xbf16>) -> tensor<16xf32>
  %3 = dfg.cast %x {to = f32} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
  %4 = dfg.reshape %y : (tensor<8x4xbf16>) -> tensor<32xbf16>
  %5 = dfg.cast %4 {to = f32} : (tensor<32xbf16>) -> tensor<32xf32>
  %6 = dfg.neg %z : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %7 = dfg.reshape %6 : (tensor<8x4xbf16>) -> tensor<32xbf16>
  %8 = dfg.cast %7 {to = f32} : (tensor<32xbf16>) -> tensor<32xf32>
  dfg.return %2, %3, %5, %8 : tensor<16xf32>, tensor<8x4xf32>, tensor<32xf32>, tensor<32xf32>
}
