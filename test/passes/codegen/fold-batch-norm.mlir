// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --pass-pipeline='builtin.module(dist.program(codegen-fold-batch-norm))' | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<4x3x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @b : tensor<4x1x1xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @f : tensor<1x4x1x1xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @s : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>

// A convolution that only the normalization reads takes a scaled filter, and the sum stays behind it.
// CHECK-LABEL: dist.program @convolution
// CHECK: %[[FILTER:.*]] = dfg.mul {{.*}} : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>)
// CHECK: %[[CONV:.*]] = dfg.conv %{{.*}}, %[[FILTER]]
// CHECK: %[[SUM:.*]] = dfg.add %[[CONV]], %{{.*}} : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>)
// CHECK-NOT: dfg.batch_norm
// CHECK: dist.return %[[SUM]]
dist.program @convolution(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %s = dfg.read @s : tensor<4xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = dfg.batch_norm %0, %s, %s, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  dist.return %1 : tensor<1x4x6x6xf32>
}

// A bias between the two is scaled into the new one: one sum stays, not two.
// CHECK-LABEL: dist.program @bias
// CHECK: dfg.conv
// CHECK-COUNT-1: dfg.add {{.*}} -> tensor<1x4x6x6xf32>
// CHECK: dist.return
dist.program @bias(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %b = dfg.read @b : tensor<4x1x1xf32>
  %s = dfg.read @s : tensor<4xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = dfg.add %0, %b : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %2 = dfg.batch_norm %1, %s, %s, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  dist.return %2 : tensor<1x4x6x6xf32>
}

// A convolution that somebody else reads keeps its filter.
// CHECK-LABEL: dist.program @shared
// CHECK: %[[W:.*]] = dfg.read @w
// CHECK: dfg.conv %{{.*}}, %[[W]]
// CHECK: dfg.mul {{.*}} : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>)
dist.program @shared(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %s = dfg.read @s : tensor<4xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = dfg.batch_norm %0, %s, %s, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  dist.return %0, %1 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>
}

// Statistics that are inputs cannot be folded.
// CHECK-LABEL: dist.program @input
// CHECK: dfg.batch_norm
dist.program @input(%x: tensor<1x4x6x6xf32>, %m: tensor<4xf32>) -> tensor<1x4x6x6xf32> attributes {mesh = @d0} {
  %s = dfg.read @s : tensor<4xf32>
  %1 = dfg.batch_norm %x, %s, %s, %m, %s {epsilon = 1.0e-5 : f64} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  dist.return %1 : tensor<1x4x6x6xf32>
}

// What Caffe's models have: normalization, then a factor and a bias for each channel. One filter, one sum.
// CHECK-LABEL: dist.program @caffe
// CHECK: %[[CONV:.*]] = dfg.conv
// CHECK-NOT: dfg.mul {{.*}} -> tensor<1x4x6x6xf32>
// CHECK: %[[SUM:.*]] = dfg.add %[[CONV]], %{{.*}} -> tensor<1x4x6x6xf32>
// CHECK-NOT: -> tensor<1x4x6x6xf32>
// CHECK: dist.return %[[SUM]]
dist.program @caffe(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %b = dfg.read @b : tensor<4x1x1xf32>
  %f = dfg.read @f : tensor<1x4x1x1xf32>
  %s = dfg.read @s : tensor<4xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = dfg.batch_norm %0, %s, %s, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  %2 = dfg.mul %f, %1 : (tensor<1x4x1x1xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %3 = dfg.add %2, %b : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  dist.return %3 : tensor<1x4x6x6xf32>
}

// One factor for all is folded, too.
// CHECK-LABEL: dist.program @scalar
// CHECK: %[[FILTER:.*]] = dfg.mul {{.*}} : (tensor<4x3x3x3xf32>, tensor<1x1x1x1xf32>)
// CHECK: %[[CONV:.*]] = dfg.conv %{{.*}}, %[[FILTER]]
// CHECK: dist.return %[[CONV]]
dist.program @scalar(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %half = dfg.constant dense<0.5> : tensor<f32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = dfg.mul %0, %half : (tensor<1x4x6x6xf32>, tensor<f32>) -> tensor<1x4x6x6xf32>
  dist.return %1 : tensor<1x4x6x6xf32>
}

// A factor for each column (four of them, as there are channels), or one that is an input, stays.
// CHECK-LABEL: dist.program @columns
// CHECK: %[[W:.*]] = dfg.read @w
// CHECK: %[[CONV:.*]] = dfg.conv %{{.*}}, %[[W]]
// CHECK: %[[MUL:.*]] = dfg.mul %[[CONV]]
// CHECK: dfg.mul %[[MUL]], %arg1
dist.program @columns(%x: tensor<1x3x6x6xf32>, %i: tensor<4x1x1xf32>) -> tensor<1x4x4x4xf32> attributes {mesh = @d0} {
  %w = dfg.read @w : tensor<4x3x3x3xf32>
  %s = dfg.read @s : tensor<4xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32>
  %1 = dfg.mul %0, %s : (tensor<1x4x4x4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %2 = dfg.mul %1, %i : (tensor<1x4x4x4xf32>, tensor<4x1x1xf32>) -> tensor<1x4x4x4xf32>
  dist.return %2 : tensor<1x4x4x4xf32>
}
