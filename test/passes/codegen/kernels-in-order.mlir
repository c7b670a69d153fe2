// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with code for AVX-512 lie channels last, and what follows them stays so.
// RUN: %if x86-64-v4 %{ cleave-opt %s --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s %}

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "x86-64-v4"}]} {
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<48x32x1x1xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @v : tensor<48x1x3x3xf32> = #dfg.fill<value = 1.0 : f64>

// The channels of groups are shuffled where they lie: no copy in another order before or behind.
// CHECK-LABEL: dist.program @shuffle
// CHECK: plan.launch @onednn.convolution
// CHECK: %[[LIES:.*]] = plan.view %{{.*}} -> tensor<1x8x8x48xf32>
// CHECK: dfg.reshape %[[LIES]] : (tensor<1x8x8x48xf32>) -> tensor<1x8x8x3x16xf32>
// CHECK: dfg.transpose %{{.*}} {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK-NOT: dfg.transpose
// CHECK: %[[JOINED:.*]] = dfg.reshape %{{.*}} : (tensor<1x8x8x16x3xf32>) -> tensor<1x8x8x48xf32>
// CHECK: %[[TAKEN:.*]] = plan.view %[[JOINED]]
// CHECK: plan.launch @onednn.convolution{{.*}}(%[[TAKEN]]
dist.program @shuffle(%x: tensor<1x32x8x8xf32>) -> tensor<1x48x8x8xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<48x32x1x1xf32>
  %v = dfg.read @v : tensor<48x1x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x32x8x8xf32>, tensor<48x32x1x1xf32>) -> tensor<1x48x8x8xf32>
  %1 = dfg.reshape %0 : (tensor<1x48x8x8xf32>) -> tensor<1x3x16x8x8xf32>
  %2 = dfg.transpose %1 {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x3x16x8x8xf32>) -> tensor<1x16x3x8x8xf32>
  %3 = dfg.reshape %2 : (tensor<1x16x3x8x8xf32>) -> tensor<1x48x8x8xf32>
  %4 = dfg.conv %3, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 48 : i64} : (tensor<1x48x8x8xf32>, tensor<48x1x3x3xf32>) -> tensor<1x48x8x8xf32>
  dist.return %4 : tensor<1x48x8x8xf32>
}

// Rows are padded where they lie, too.
// CHECK-LABEL: dist.program @padded
// CHECK: plan.launch @onednn.convolution
// CHECK: %[[LIES:.*]] = plan.view %{{.*}} -> tensor<1x8x8x48xf32>
// CHECK: dfg.pad %[[LIES]], %{{.*}} {high = array<i64: 0, 2, 0, 0>, low = array<i64: 0, 1, 0, 0>} : (tensor<1x8x8x48xf32>, tensor<f32>) -> tensor<1x11x8x48xf32>
dist.program @padded(%x: tensor<1x32x8x8xf32>) -> tensor<1x48x11x8xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<48x32x1x1xf32>
  %v = dfg.read @v : tensor<48x1x3x3xf32>
  %one = dfg.constant dense<1.0> : tensor<f32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x32x8x8xf32>, tensor<48x32x1x1xf32>) -> tensor<1x48x8x8xf32>
  %1 = dfg.pad %0, %one {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 2, 0>} : (tensor<1x48x8x8xf32>, tensor<f32>) -> tensor<1x48x11x8xf32>
  %2 = dfg.conv %1, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 48 : i64} : (tensor<1x48x11x8xf32>, tensor<48x1x3x3xf32>) -> tensor<1x48x11x8xf32>
  dist.return %2 : tensor<1x48x11x8xf32>
}

// Channels and rows that become one dimension do not lie side by side: row-major as before.
// CHECK-LABEL: dist.program @flattened
// CHECK: %[[DENSE:.*]] = dfg.transpose %{{.*}} {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x48xf32>) -> tensor<1x48x8x8xf32>
// CHECK: dfg.reshape %[[DENSE]] : (tensor<1x48x8x8xf32>) -> tensor<1x3072xf32>
dist.program @flattened(%x: tensor<1x32x8x8xf32>) -> tensor<1x3072xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<48x32x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x32x8x8xf32>, tensor<48x32x1x1xf32>) -> tensor<1x48x8x8xf32>
  %1 = dfg.reshape %0 : (tensor<1x48x8x8xf32>) -> tensor<1x3072xf32>
  %2 = dfg.exp %1 : (tensor<1x3072xf32>) -> tensor<1x3072xf32>
  dist.return %2 : tensor<1x3072xf32>
}
}
