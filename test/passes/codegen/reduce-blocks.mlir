// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of values that a library laid in blocks of channels, as with AVX2, take them as they lie.
// RUN: cleave-opt %s --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "x86-64-v3"}]} {
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<16x16x3x3xf32> = #dfg.fill<value = 1.0 : f64>

// Batch normalization's statistics and its gradient: nothing is reordered, or repeated in memory. A sum of sums is more
// exact than a long one.
// CHECK-LABEL: dist.program @statistics
// CHECK: %[[C:.*]] = plan.launch @onednn.convolution
// CHECK: %[[X:.*]] = plan.view %[[C]] : {{.*}} -> tensor<4x2x8x8x8xf32>
// CHECK-NEXT: %[[EACH:.*]] = dfg.reduce %[[X]] {dims = array<i64: 2, 3>, keep_dims, {{.*}} -> tensor<4x2x1x1x8xf32>
// CHECK-NEXT: %[[M:.*]] = dfg.reduce %[[EACH]] {dims = array<i64: 0>, keep_dims, {{.*}} -> tensor<1x2x1x1x8xf32>
// CHECK-NEXT: %[[P:.*]] = dfg.mul %[[M]], %[[X]] : {{.*}} -> tensor<4x2x8x8x8xf32>
// CHECK-NEXT: %[[OF:.*]] = dfg.reduce %[[P]] {dims = array<i64: 2, 3>, {{.*}} -> tensor<4x2x8xf32>
// CHECK-NEXT: %[[S:.*]] = dfg.reduce %[[OF]] {dims = array<i64: 0>, {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT: %[[R:.*]] = plan.view %[[S]] : tensor<2x8xf32> -> tensor<16xf32>
// CHECK-NEXT: dist.return %[[R]]
dist.program @statistics(%x: tensor<4x16x8x8xf32>) -> tensor<16xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<4x16x8x8xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 2, 3>, keep_dims} : (tensor<4x16x8x8xf32>) -> tensor<1x16x1x1xf32>
  %2 = dfg.broadcast %1 : (tensor<1x16x1x1xf32>) -> tensor<4x16x8x8xf32>
  %3 = dfg.mul %2, %0 : (tensor<4x16x8x8xf32>, tensor<4x16x8x8xf32>) -> tensor<4x16x8x8xf32>
  %4 = dfg.reduce %3 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 2, 3>} : (tensor<4x16x8x8xf32>) -> tensor<16xf32>
  dist.return %4 : tensor<16xf32>
}

// Where the blocked dimension goes the result is row-major; where others follow it, the result lies in blocks as well.
// CHECK-LABEL: dist.program @others
// CHECK: %[[X:.*]] = plan.view %{{.*}} -> tensor<4x2x8x8x8xf32>
// CHECK: dfg.reduce %[[X]] {dims = array<i64: 1, 4>, {{.*}} -> tensor<4x8x8xf32>
// CHECK: %[[KEPT:.*]] = dfg.reduce %[[X]] {dims = array<i64: 1, 4>, keep_dims, {{.*}} -> tensor<4x1x8x8x1xf32>
// CHECK: plan.view %[[KEPT]] : tensor<4x1x8x8x1xf32> -> tensor<4x1x8x8xf32>
// CHECK: %[[ROWS:.*]] = dfg.reduce %[[X]] {dims = array<i64: 0>, {{.*}} -> tensor<2x8x8x8xf32>
// CHECK: dfg.neg %[[ROWS]]
dist.program @others(%x: tensor<4x16x8x8xf32>) -> (tensor<4x8x8xf32>, tensor<4x1x8x8xf32>, tensor<16x8x8xf32>) attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<4x16x8x8xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x16x8x8xf32>) -> tensor<4x8x8xf32>
  %2 = dfg.reduce %0 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims} : (tensor<4x16x8x8xf32>) -> tensor<4x1x8x8xf32>
  %3 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4x16x8x8xf32>) -> tensor<16x8x8xf32>
  %4 = dfg.neg %3 : (tensor<16x8x8xf32>) -> tensor<16x8x8xf32>
  dist.return %1, %2, %4 : tensor<4x8x8xf32>, tensor<4x1x8x8xf32>, tensor<16x8x8xf32>
}
}
