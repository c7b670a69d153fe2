// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the library's code is worth, by its implementations' names. They differ from processor to processor.
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @groups : tensor<60x60x1x1xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @b : tensor<60x1x1xf32> = #dfg.fill<value = 1.0 : f64>

// A convolution by way of a matrix product takes bias and rectifier, but interprets an addition of two images.
// CHECK-LABEL: dist.program @residual
// CHECK: %[[C:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK: %[[SUM:.*]] = dfg.add %[[C]], %arg1
// CHECK: dfg.relu %[[SUM]]
dist.program @residual(%x: tensor<1x240x7x7xf32>, %y: tensor<1x60x7x7xf32>) -> tensor<1x60x7x7xf32> attributes {mesh = @d0} {
  %w = dfg.read @groups : tensor<60x60x1x1xf32>
  %b = dfg.read @b : tensor<60x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64} : (tensor<1x240x7x7xf32>, tensor<60x60x1x1xf32>) -> tensor<1x60x7x7xf32>
  %1 = dfg.add %0, %b : (tensor<1x60x7x7xf32>, tensor<60x1x1xf32>) -> tensor<1x60x7x7xf32>
  %2 = dfg.add %1, %y : (tensor<1x60x7x7xf32>, tensor<1x60x7x7xf32>) -> tensor<1x60x7x7xf32>
  %3 = dfg.relu %2 : (tensor<1x60x7x7xf32>) -> tensor<1x60x7x7xf32>
  dist.return %3 : tensor<1x60x7x7xf32>
}

// CHECK-LABEL: dist.program @rectified
// CHECK: plan.launch @onednn.convolution
// CHECK-NOT: dfg.relu
// CHECK: dist.return
dist.program @rectified(%x: tensor<1x240x7x7xf32>) -> tensor<1x60x7x7xf32> attributes {mesh = @d0} {
  %w = dfg.read @groups : tensor<60x60x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64} : (tensor<1x240x7x7xf32>, tensor<60x60x1x1xf32>) -> tensor<1x60x7x7xf32>
  %1 = dfg.relu %0 : (tensor<1x60x7x7xf32>) -> tensor<1x60x7x7xf32>
  dist.return %1 : tensor<1x60x7x7xf32>
}
}
