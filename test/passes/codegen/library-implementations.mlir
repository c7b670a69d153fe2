// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the library's code is worth, by its implementations' names. They differ from processor to processor.
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @groups : tensor<60x60x1x1xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @to16 : tensor<16x16x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @to20 : tensor<20x16x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @to24 : tensor<24x16x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @from40 : tensor<16x40x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @wide : tensor<64x512xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @square : tensor<512x512xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
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

// The library has nothing but plain loops for pooling of row-major images on this processor: ours are better.
// CHECK-LABEL: dist.program @pooled
// CHECK-NOT: plan.launch
// CHECK: dfg.pool
// CHECK: dist.return
dist.program @pooled(%x: tensor<1x20x57x57xf32>) -> tensor<1x20x28x28xf32> attributes {mesh = @d0} {
  %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x20x57x57xf32>) -> tensor<1x20x28x28xf32>
  dist.return %0 : tensor<1x20x28x28xf32>
}

// The same for values side by side. In whole blocks of channels they are row-major values of one dimension more.
// CHECK-LABEL: dist.program @joined
// CHECK: %[[A:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}{{.*}} -> tensor<1x16x8x8xf32, #plan.layout<"aBcd8b"
// CHECK: %[[B:.*]] = plan.launch @onednn.convolution.{{[0-9]+}}{{.*}} -> tensor<1x24x8x8xf32, #plan.layout<"aBcd8b"
// CHECK: %[[AA:.*]] = plan.view %[[A]] : {{.*}} -> tensor<1x2x8x8x8xf32>
// CHECK: %[[BB:.*]] = plan.view %[[B]] : {{.*}} -> tensor<1x3x8x8x8xf32>
// CHECK: %[[AB:.*]] = dfg.concat %[[AA]], %[[BB]] {dim = 1 : i64} : {{.*}} -> tensor<1x5x8x8x8xf32>
// CHECK: plan.view %[[AB]] : tensor<1x5x8x8x8xf32> -> tensor<1x40x8x8xf32, #plan.layout<"aBcd8b"
// CHECK: plan.launch @onednn.convolution
dist.program @joined(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> attributes {mesh = @d0} {
  %a = dfg.read @to16 : tensor<16x16x3x3xf32>
  %b = dfg.read @to24 : tensor<24x16x3x3xf32>
  %c = dfg.read @from40 : tensor<16x40x3x3xf32>
  %0 = dfg.conv %x, %a {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = dfg.conv %0, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x8x8xf32>
  %2 = dfg.concat %0, %1 {dim = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<1x24x8x8xf32>) -> tensor<1x40x8x8xf32>
  %3 = dfg.conv %2, %c {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x40x8x8xf32>, tensor<16x40x3x3xf32>) -> tensor<1x16x8x8xf32>
  dist.return %3 : tensor<1x16x8x8xf32>
}

// Elementwise operators compute on whole blocks, too, and join each other: a factor a channel lies in blocks as it is, one
// a pixel gets a dimension of size 1.
// CHECK-LABEL: dist.program @scaled
// CHECK: %[[C:.*]] = plan.launch @onednn.convolution
// CHECK-DAG: %[[CC:.*]] = plan.view %[[C]] : {{.*}} -> tensor<1x2x8x8x8xf32>
// CHECK-DAG: %[[S:.*]] = plan.view %arg1 : tensor<16x1x1xf32> -> tensor<1x2x1x1x8xf32>
// CHECK-DAG: %[[P:.*]] = plan.view %arg2 : tensor<1x1x8x8xf32> -> tensor<1x1x8x8x1xf32>
// CHECK-DAG: %[[SIN:.*]] = dfg.sin %[[CC]] : (tensor<1x2x8x8x8xf32>) -> tensor<1x2x8x8x8xf32>
// CHECK-DAG: %[[M:.*]] = dfg.mul %[[SIN]], %[[S]]
// CHECK: %[[N:.*]] = dfg.mul %[[M]], %[[P]]
// CHECK: plan.view %[[N]] : tensor<1x2x8x8x8xf32> -> tensor<1x16x8x8xf32, #plan.layout<"aBcd8b"
// CHECK: plan.launch @onednn.convolution
dist.program @scaled(%x: tensor<1x16x8x8xf32>, %s: tensor<16x1x1xf32>, %p: tensor<1x1x8x8xf32>) -> tensor<1x24x8x8xf32> attributes {mesh = @d0} {
  %a = dfg.read @to16 : tensor<16x16x3x3xf32>
  %b = dfg.read @to24 : tensor<24x16x3x3xf32>
  %0 = dfg.conv %x, %a {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = dfg.sin %0 : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %2 = dfg.mul %1, %s : (tensor<1x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %3 = dfg.mul %2, %p : (tensor<1x16x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x16x8x8xf32>
  %4 = dfg.conv %3, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x8x8xf32>
  dist.return %4 : tensor<1x24x8x8xf32>
}

// Channels that do not fill their blocks: padding must stay zero, so what is added to them is not computed on blocks.
// CHECK-LABEL: dist.program @padded
// CHECK: plan.launch @onednn.convolution
// CHECK-NOT: tensor<1x3x8x8x8xf32>
// CHECK: dfg.cos {{.*}} tensor<1x20x8x8xf32>
// CHECK: dist.return
dist.program @padded(%x: tensor<1x16x8x8xf32>) -> tensor<1x20x8x8xf32> attributes {mesh = @d0} {
  %w = dfg.read @to20 : tensor<20x16x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<20x16x3x3xf32>) -> tensor<1x20x8x8xf32>
  %1 = dfg.cos %0 : (tensor<1x20x8x8xf32>) -> tensor<1x20x8x8xf32>
  dist.return %1 : tensor<1x20x8x8xf32>
}

// Rows of 2 KiB meet in the cache: the library's product of row-major weights gets them with a cache line in between,
// once, whether they lie transposed or not.
// CHECK-LABEL: dist.program @product
// CHECK-DAG: plan.launch @onednn.reorder.{{[0-9]+}}(%{{.*}}) : (tensor<64x512xf32>) -> tensor<64x512xf32, #plan.layout<"ab", padded = [64, 512], strides = [528, 1]>>
// CHECK-DAG: plan.launch @onednn.reorder.{{[0-9]+}}(%{{.*}}) : (tensor<512x512xf32, #plan.layout<"ba"{{.*}}>>) -> tensor<512x512xf32, #plan.layout<"ab", padded = [512, 512], strides = [528, 1]>>
dist.program @product(%x: tensor<4x64xf32>) -> tensor<4x512xf32> attributes {mesh = @d0} {
  %a = dfg.read @wide : tensor<64x512xf32>
  %b = dfg.read @square : tensor<512x512xf32>
  %0 = dfg.dot_general %x, %a {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x64xf32>, tensor<64x512xf32>) -> tensor<4x512xf32>
  %1 = dfg.dot_general %0, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x512xf32>, tensor<512x512xf32>) -> tensor<4x512xf32>
  dist.return %1 : tensor<4x512xf32>
}
}
