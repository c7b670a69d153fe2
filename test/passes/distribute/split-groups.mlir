// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Convolutions whose groups are cut: each device has fewer of them.

// RUN: cleave-opt %s --distribute --split-input-file | FileCheck %s

dist.mesh @pair <["x" = 2], devices = [0, 1]>
dfg.graph @conv(%x: tensor<1x8x5xf32>, %w: tensor<12x2x3xf32>) -> tensor<1x12x3xf32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 4 : i64,
      dist.place = #dist.place<@pair, by = "test", split = <{group = ["x"]}>>}
      : (tensor<1x8x5xf32>, tensor<12x2x3xf32>) -> tensor<1x12x3xf32>
  dfg.return %0 : tensor<1x12x3xf32>
}
// CHECK-LABEL: dist.program @conv.pair(
// CHECK: dfg.conv
// CHECK-SAME: groups = 2 : i64
// CHECK-SAME: (tensor<1x4x5xf32>, tensor<6x2x3xf32>) -> tensor<1x6x3xf32>

// -----

dist.mesh @pair <["x" = 2], devices = [0, 1]>
dfg.graph @conv_transpose(%x: tensor<1x8x5xf32>, %w: tensor<8x3x3xf32>) -> tensor<1x12x7xf32> {
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>,
      output_padding = array<i64: 0>, groups = 4 : i64,
      dist.place = #dist.place<@pair, by = "test", split = <{group = ["x"]}>>}
      : (tensor<1x8x5xf32>, tensor<8x3x3xf32>) -> tensor<1x12x7xf32>
  dfg.return %0 : tensor<1x12x7xf32>
}
// CHECK-LABEL: dist.program @conv_transpose.pair(
// CHECK: dfg.conv_transpose
// CHECK-SAME: groups = 2 : i64
// CHECK-SAME: (tensor<1x4x5xf32>, tensor<4x3x3xf32>) -> tensor<1x6x7xf32>
