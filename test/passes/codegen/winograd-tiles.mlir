// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows of 3 x 3 by Winograd's algorithm, where it takes less, with weights packed once where they are constants. The
// library has it for AVX-512; for AVX2 there are tiles of our own, for constants, to which a residual is added, too.
// RUN: cleave-opt %s --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s --check-prefix=AVX2
// RUN: %if x86-64-v4 %{ sed s/x86-64-v3/x86-64-v4/ %s | cleave-opt - --codegen-choose-processor --codegen-select-library-kernels --cse | FileCheck %s %}

// AVX2-LABEL: dist.program @constant
// AVX2: %[[PACKED:.*]] = plan.launch @onednn.winograd_weights.{{[0-9]+}}(%{{.*}}) : (tensor<128x128x3x3xf32>) -> tensor<36x128x128xf32>
// AVX2: %[[Y:.*]] = plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%{{[^,]*}}, %[[PACKED]], %{{[^,]*}})
// AVX2: plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%[[Y]], %{{[^,]*}}, %[[Y]])
// AVX2-NOT: dfg.add
// AVX2-LABEL: dist.program @shared
// AVX2: %[[ONCE:.*]] = plan.launch @onednn.winograd_weights
// AVX2: plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%{{[^,]*}}, %[[ONCE]])
// AVX2: plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%{{[^,]*}}, %[[ONCE]])
// AVX2-LABEL: dist.program @varying
// AVX2-NOT: winograd
// AVX2: dist.return

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64,
                                    chip = "x86-64-v3"}]} {
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [0]>
dist.mesh @d2 <[], devices = [0]>
dist.mesh @d3 <[], devices = [0]>
dfg.parameter @w : tensor<128x128x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @w2 : tensor<128x128x3x3xf32> = #dfg.fill<value = 2.0 : f64>
dfg.parameter @b : tensor<128x1x1xf32> = #dfg.fill<value = 1.0 : f64>

// Weights are packed once. A bias and a rectifier join; a residual connection, which the library's algorithm does not
// take, becomes a kernel of our own.
// CHECK-LABEL: dist.program @constant
// CHECK-DAG: %[[W:.*]] = dfg.read @w :
// CHECK-DAG: %[[W2:.*]] = dfg.read @w2 :
// CHECK-DAG: %[[PACKED2:.*]] = plan.launch @onednn.winograd_weights.{{[0-9]+}}(%[[W2]]) : (tensor<128x128x3x3xf32>) -> tensor<589824xf32>
// CHECK-DAG: %[[PACKED:.*]] = plan.launch @[[PACK:onednn.winograd_weights.[0-9]+]](%[[W]]) : (tensor<128x128x3x3xf32>) -> tensor<589824xf32>
// CHECK: %[[Y:.*]] = plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%{{[^,]*}}, %[[PACKED]], %{{[^,]*}})
// CHECK-NOT: dfg.relu
// CHECK: plan.launch @onednn.convolution.winograd.{{[0-9]+}}(%[[Y]], %[[PACKED2]])
// CHECK: dfg.add
dist.program @constant(%x: tensor<1x128x28x28xf32>) -> tensor<1x128x28x28xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<128x128x3x3xf32>
  %w2 = dfg.read @w2 : tensor<128x128x3x3xf32>
  %b = dfg.read @b : tensor<128x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32>
  %1 = dfg.add %0, %b : (tensor<1x128x28x28xf32>, tensor<128x1x1xf32>) -> tensor<1x128x28x28xf32>
  %2 = dfg.relu %1 : (tensor<1x128x28x28xf32>) -> tensor<1x128x28x28xf32>
  %3 = dfg.conv %2, %w2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32>
  %4 = dfg.add %3, %2 : (tensor<1x128x28x28xf32>, tensor<1x128x28x28xf32>) -> tensor<1x128x28x28xf32>
  dist.return %4 : tensor<1x128x28x28xf32>
}

// What several convolutions read, as the heads of a detector do for images of several sizes, is not packed for each: the
// library packs by the sizes of images. Our own tiles for AVX2 do not, and share it.
// CHECK-LABEL: dist.program @shared
// CHECK-NOT: winograd_weights
// CHECK: plan.launch @onednn.convolution.winograd
// CHECK: plan.launch @onednn.convolution.winograd
// CHECK: dist.return
dist.program @shared(%x: tensor<1x128x28x28xf32>, %y: tensor<1x128x40x40xf32>) -> (tensor<1x128x28x28xf32>, tensor<1x128x40x40xf32>) attributes {mesh = @d1} {
  %w = dfg.read @w : tensor<128x128x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32>
  %1 = dfg.conv %y, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x40x40xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x40x40xf32>
  dist.return %0, %1 : tensor<1x128x28x28xf32>, tensor<1x128x40x40xf32>
}

// Weights that come in may differ from call to call; they are transformed in each.
// CHECK-LABEL: dist.program @varying
// CHECK-NOT: winograd_weights
// CHECK: plan.launch @onednn.convolution.winograd.{{[0-9]+}}
// CHECK: plan.launch @onednn.convolution_weights.winograd.{{[0-9]+}}
dist.program @varying(%x: tensor<1x128x28x28xf32>, %w: tensor<128x128x3x3xf32>) -> (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) attributes {mesh = @d2} {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32>
  %1 = dfg.conv_filter_gradient %x, %0 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x128x28x28xf32>, tensor<1x128x28x28xf32>) -> tensor<128x128x3x3xf32>
  dist.return %0, %1 : tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>
}

// Of few pixels the transform of varying weights takes longer than direct code; of windows that step by 2 there is none.
// CHECK-LABEL: dist.program @direct
// CHECK-NOT: winograd
// CHECK: dist.return
dist.program @direct(%x: tensor<1x128x7x7xf32>, %w: tensor<128x128x3x3xf32>, %large: tensor<1x128x28x28xf32>) -> (tensor<1x128x7x7xf32>, tensor<1x128x14x14xf32>) attributes {mesh = @d3} {
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x7x7xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x7x7xf32>
  %1 = dfg.conv %large, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x14x14xf32>
  dist.return %0, %1 : tensor<1x128x7x7xf32>, tensor<1x128x14x14xf32>
}

// CHECK: plan.library_kernel @[[PACK]] "onednn" "winograd_weights" {data = array<i64: 1, 128, 28, 28>
}
