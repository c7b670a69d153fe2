// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --graph-narrow-results --split-input-file | FileCheck %s

// The last row and column of both convolutions fall under no window: 9 -> 8, so 13 -> 12 pooled from 26 -> 24.
// CHECK-LABEL: dfg.graph @chain
// CHECK: %[[X:.*]] = dfg.slice %{{.*}} {limits = array<i64: 2, 1, 26, 26>, starts = array<i64: 0, 0, 0, 0>
// CHECK: dfg.conv %[[X]], {{.*}} -> tensor<2x20x24x24xf32>
// CHECK: dfg.add {{.*}} (tensor<2x20x24x24xf32>, tensor<20x1x1xf32>) -> tensor<2x20x24x24xf32>
// CHECK: dfg.relu {{.*}} -> tensor<2x20x24x24xf32>
// CHECK: dfg.pool {{.*}} (tensor<2x20x24x24xf32>) -> tensor<2x20x12x12xf32>
// CHECK: dfg.conv {{.*}} (tensor<2x20x12x12xf32>, tensor<50x20x5x5xf32>) -> tensor<2x50x8x8xf32>
// CHECK: dfg.relu {{.*}} -> tensor<2x50x8x8xf32>
// CHECK: dfg.pool {{.*}} (tensor<2x50x8x8xf32>) -> tensor<2x50x4x4xf32>
dfg.graph @chain(%x: tensor<2x1x28x28xf32>, %w: tensor<20x1x3x3xf32>, %b: tensor<20x1x1xf32>,
                 %v: tensor<50x20x5x5xf32>) -> tensor<2x50x4x4xf32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<2x1x28x28xf32>, tensor<20x1x3x3xf32>) -> tensor<2x20x26x26xf32>
  %1 = dfg.add %0, %b : (tensor<2x20x26x26xf32>, tensor<20x1x1xf32>) -> tensor<2x20x26x26xf32>
  %2 = dfg.relu %1 : (tensor<2x20x26x26xf32>) -> tensor<2x20x26x26xf32>
  %3 = dfg.pool %2 {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<2x20x26x26xf32>) -> tensor<2x20x13x13xf32>
  %4 = dfg.conv %3, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<2x20x13x13xf32>, tensor<50x20x5x5xf32>) -> tensor<2x50x9x9xf32>
  %5 = dfg.relu %4 : (tensor<2x50x9x9xf32>) -> tensor<2x50x9x9xf32>
  %6 = dfg.pool %5 {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<2x50x9x9xf32>) -> tensor<2x50x4x4xf32>
  dfg.return %6 : tensor<2x50x4x4xf32>
}

// -----

// What somebody else reads is computed as a whole, and a cut would save nothing without a product.
// CHECK-LABEL: dfg.graph @kept
// CHECK-NOT: dfg.slice
// CHECK: dfg.return
dfg.graph @kept(%x: tensor<1x3x13x13xf32>, %w: tensor<8x3x5x5xf32>)
    -> (tensor<1x8x9x9xf32>, tensor<1x8x4x4xf32>, tensor<1x3x6x6xf32>) {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<1x3x13x13xf32>, tensor<8x3x5x5xf32>) -> tensor<1x8x9x9xf32>
  %1 = dfg.pool %0 {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<1x8x9x9xf32>) -> tensor<1x8x4x4xf32>
  %2 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<1x3x13x13xf32>) -> tensor<1x3x6x6xf32>
  dfg.return %0, %1, %2 : tensor<1x8x9x9xf32>, tensor<1x8x4x4xf32>, tensor<1x3x6x6xf32>
}

// -----

// Padding behind the input does not become smaller with it.
// CHECK-LABEL: dfg.graph @padded
// CHECK-NOT: dfg.slice
// CHECK: dfg.conv {{.*}} -> tensor<1x8x9x9xf32>
dfg.graph @padded(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) -> tensor<1x8x4x4xf32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
       : (tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x9x9xf32>
  %1 = dfg.pool %0 {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<1x8x9x9xf32>) -> tensor<1x8x4x4xf32>
  dfg.return %1 : tensor<1x8x4x4xf32>
}
