// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

// cuDNN gives what it sums of bfloat16 in bfloat16. Who wants sums in float32 gets them of operands in float32, where TF32
// rounds nothing off; other products stay as they are.

module attributes {dist.devices = [{name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {
dist.mesh @gpu <[], devices = [0]>
dfg.parameter @w : tensor<16x16x3x3xbf16> = #dfg.fill<value = 1.0 : f64>

// CHECK-LABEL: dist.program @gradient(
// CHECK-SAME: %[[X:.*]]: tensor<2x16x8x8xbf16>, %[[Y:.*]]: tensor<2x16x8x8xbf16>)
// CHECK-DAG: %[[WIDE_X:.*]] = dfg.cast %[[X]] {to = f32} : (tensor<2x16x8x8xbf16>) -> tensor<2x16x8x8xf32>
// CHECK-DAG: %[[WIDE_Y:.*]] = dfg.cast %[[Y]] {to = f32} : (tensor<2x16x8x8xbf16>) -> tensor<2x16x8x8xf32>
// CHECK: plan.launch @[[FILTER:cudnn.convolution_weights.[0-9]]](%[[WIDE_X]], %[[WIDE_Y]])
// CHECK-NOT: dfg.conv_filter_gradient
dist.program @gradient(%x: tensor<2x16x8x8xbf16>, %y: tensor<2x16x8x8xbf16>) -> tensor<16x16x3x3xf32> attributes {mesh = @gpu} {
  %0 = dfg.conv_filter_gradient %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xbf16>, tensor<2x16x8x8xbf16>) -> tensor<16x16x3x3xf32>
  dist.return %0 : tensor<16x16x3x3xf32>
}

// CHECK-LABEL: dist.program @narrow
// CHECK-NOT: dfg.cast
// CHECK: plan.launch @[[NARROW:cudnn.convolution.[0-9]]](
dist.program @narrow(%x: tensor<2x16x8x8xbf16>) -> tensor<2x16x8x8xbf16> attributes {mesh = @gpu} {
  %w = dfg.read @w : tensor<16x16x3x3xbf16>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<2x16x8x8xbf16>
  dist.return %0 : tensor<2x16x8x8xbf16>
}

// CHECK-DAG: plan.library_kernel @[[FILTER]] {{.*}}tf32 = array<i64: 1>
// CHECK-DAG: plan.library_kernel @[[NARROW]] "cudnn" "convolution" {{.*}}pads_end = array<i64: 1, 1>, strides = array<i64: 1, 1>}
}
