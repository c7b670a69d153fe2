// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// Zeros around an image are the padding of a convolution, besides its own.
// CHECK-LABEL: dfg.graph @convolution
// CHECK-NOT: dfg.pad
// CHECK: dfg.conv %arg0, %arg1 {{.*}}pads = array<i64: 1, 1, 2, 0>
dfg.graph @convolution(%x: tensor<1x2x8x8xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x9x7xf32> {
  %zero = dfg.constant dense<0.0> : tensor<f32>
  %0 = dfg.pad %x, %zero {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 0>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x8xf32>
  %1 = dfg.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 1, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x7xf32>
  dfg.return %1 : tensor<1x4x9x7xf32>
}

// Other numbers, and channels of zeros, are no padding of a window.
// CHECK-LABEL: dfg.graph @others
// CHECK: dfg.pad
// CHECK: dfg.pad
// CHECK: dfg.conv {{.*}}pads = array<i64: 0, 0, 0, 0>
// CHECK: dfg.conv {{.*}}pads = array<i64: 0, 0, 0, 0>
dfg.graph @others(%x: tensor<1x2x8x8xf32>, %w: tensor<4x2x3x3xf32>, %v: tensor<4x3x3x3xf32>) -> (tensor<1x4x8x6xf32>, tensor<1x4x6x6xf32>) {
  %zero = dfg.constant dense<0.0> : tensor<f32>
  %one = dfg.constant dense<1.0> : tensor<f32>
  %0 = dfg.pad %x, %one {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 0>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x8xf32>
  %1 = dfg.pad %x, %zero {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 1, 0, 0>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x3x8x8xf32>
  %2 = dfg.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x8x6xf32>
  %3 = dfg.conv %1, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  dfg.return %2, %3 : tensor<1x4x8x6xf32>, tensor<1x4x6x6xf32>
}

// An average counts the zeros; one that has a padding of its own which it does not count stays.
// CHECK-LABEL: dfg.graph @average
// CHECK: dfg.pool %arg0 {count_include_pad, {{.*}}pads = array<i64: 1, 1, 1, 1>
// CHECK: %[[PADDED:.*]] = dfg.pad
// CHECK: dfg.pool %[[PADDED]] {dilations
dfg.graph @average(%x: tensor<1x2x8x8xf32>) -> (tensor<1x2x8x8xf32>, tensor<1x2x10x10xf32>) {
  %zero = dfg.constant dense<0.0> : tensor<f32>
  %0 = dfg.pad %x, %zero {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x10xf32>
  %1 = dfg.pool %0 {kind = #dfg.pool_kind<average>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x10xf32>) -> tensor<1x2x8x8xf32>
  %2 = dfg.pad %1, %zero {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x10xf32>
  %3 = dfg.pool %2 {kind = #dfg.pool_kind<average>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x10xf32>) -> tensor<1x2x10x10xf32>
  dfg.return %1, %3 : tensor<1x2x8x8xf32>, tensor<1x2x10x10xf32>
}

// Beside a maximum the least number is padding, zeros are not, and neither is what whole windows see.
// CHECK-LABEL: dfg.graph @largest
// CHECK-DAG: dfg.pool %arg0 {{.*}}pads = array<i64: 1, 1, 1, 1>
// CHECK-DAG: %[[ZEROS:.*]] = dfg.pad %arg0, {{.*}}low = array<i64: 0, 0, 1, 1>
// CHECK-DAG: dfg.pool %[[ZEROS]]
// CHECK-DAG: %[[WIDE:.*]] = dfg.pad %arg0, {{.*}}low = array<i64: 0, 0, 3, 3>
// CHECK-DAG: dfg.pool %[[WIDE]]
dfg.graph @largest(%x: tensor<1x2x8x8xf32>) -> (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x12x12xf32>) {
  %least = dfg.constant dense<0xFF800000> : tensor<f32>
  %zero = dfg.constant dense<0.0> : tensor<f32>
  %0 = dfg.pad %x, %least {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x10xf32>
  %1 = dfg.pool %0 {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x10xf32>) -> tensor<1x2x8x8xf32>
  %2 = dfg.pad %x, %zero {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x10x10xf32>
  %3 = dfg.pool %2 {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x10x10xf32>) -> tensor<1x2x8x8xf32>
  %4 = dfg.pad %x, %least {low = array<i64: 0, 0, 3, 3>, high = array<i64: 0, 0, 3, 3>} : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x14x14xf32>
  %5 = dfg.pool %4 {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x14x14xf32>) -> tensor<1x2x12x12xf32>
  dfg.return %1, %3, %5 : tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x12x12xf32>
}
