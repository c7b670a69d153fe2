// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-normalize-contractions --canonicalize --codegen-select-library-kernels --cse | FileCheck %s

// Products of three dimensions are computed as products of two; on a GPU what follows them joins all the same.

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {
dist.mesh @cpu <[], devices = [0]>
dist.mesh @gpu <[], devices = [1]>
dfg.parameter @m : tensor<8x16xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @v : tensor<16xf32> = #dfg.fill<value = 1.0 : f64>

// A value a column, a value of the result's own shape, an activation.
// CHECK-LABEL: dist.program @on_gpu
// CHECK: %[[M:.*]] = dfg.read @m
// CHECK: %[[X:.*]] = dfg.reshape %arg0 : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
// CHECK: %[[R:.*]] = plan.view %arg1 : tensor<2x5x16xf32> -> tensor<10x16xf32>
// CHECK: %[[Y:.*]] = plan.launch @[[ALL:cublaslt.matmul.[0-9]+]](%[[X]], %[[M]], %{{.*}}, %[[R]]) : {{.*}} -> tensor<10x16xf32>
// CHECK-NEXT: %[[BACK:.*]] = dfg.reshape %[[Y]] : (tensor<10x16xf32>) -> tensor<2x5x16xf32>
// CHECK-NEXT: dist.return %[[BACK]]
dist.program @on_gpu(%x: tensor<2x5x8xf32>, %r: tensor<2x5x16xf32>) -> tensor<2x5x16xf32> attributes {mesh = @gpu} {
  %m = dfg.read @m : tensor<8x16xf32>
  %v = dfg.read @v : tensor<16xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x8xf32>, tensor<8x16xf32>) -> tensor<2x5x16xf32>
  %1 = dfg.add %0, %v : (tensor<2x5x16xf32>, tensor<16xf32>) -> tensor<2x5x16xf32>
  %2 = dfg.add %r, %1 : (tensor<2x5x16xf32>, tensor<2x5x16xf32>) -> tensor<2x5x16xf32>
  %3 = dfg.relu %2 : (tensor<2x5x16xf32>) -> tensor<2x5x16xf32>
  dist.return %3 : tensor<2x5x16xf32>
}

// What is one value a row, and what others read in between, stays behind the product.
// CHECK-LABEL: dist.program @not_joined
// CHECK: plan.launch @[[PLAIN:cublaslt.matmul.[0-9]+]](
// CHECK: dfg.add %{{.*}}, %arg1
// CHECK: plan.launch @[[PLAIN]](
// CHECK: dfg.relu
dist.program @not_joined(%x: tensor<2x5x8xf32>, %c: tensor<5x1xf32>, %z: tensor<2x5x8xf32>) -> (tensor<2x5x16xf32>, tensor<10x16xf32>, tensor<2x5x16xf32>) attributes {mesh = @gpu} {
  %m = dfg.read @m : tensor<8x16xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x8xf32>, tensor<8x16xf32>) -> tensor<2x5x16xf32>
  %1 = dfg.add %0, %c : (tensor<2x5x16xf32>, tensor<5x1xf32>) -> tensor<2x5x16xf32>
  %2 = dfg.dot_general %z, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x8xf32>, tensor<8x16xf32>) -> tensor<2x5x16xf32>
  %3 = dfg.reshape %2 : (tensor<2x5x16xf32>) -> tensor<10x16xf32>
  %4 = dfg.relu %2 : (tensor<2x5x16xf32>) -> tensor<2x5x16xf32>
  dist.return %1, %3, %4 : tensor<2x5x16xf32>, tensor<10x16xf32>, tensor<2x5x16xf32>
}

// Sums of bfloat16 that cuDNN would round are made in float32, whose operands TF32 keeps whole.
// CHECK-LABEL: dist.program @filter_gradient
// CHECK-DAG: %[[DATA:.*]] = dfg.cast %arg0 {{.*}} -> tensor<2x4x8x8xf32>
// CHECK-DAG: %[[DY:.*]] = dfg.cast %arg1 {{.*}} -> tensor<2x6x8x8xf32>
// CHECK: plan.launch @[[FILTER:cudnn.convolution_weights.[0-9]+]](%[[DATA]], %[[DY]]) : {{.*}} -> tensor<6x4x3x3xf32>
dist.program @filter_gradient(%x: tensor<2x4x8x8xbf16>, %dy: tensor<2x6x8x8xbf16>) -> tensor<6x4x3x3xf32> attributes {mesh = @gpu} {
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x4x8x8xbf16>, tensor<2x6x8x8xbf16>) -> tensor<6x4x3x3xf32>
  dist.return %0 : tensor<6x4x3x3xf32>
}

// CHECK-DAG: plan.library_kernel @[[ALL]] "cublaslt" "matmul" {{.*}}post_ops = [#plan.post_op<"binary_add", {{.*}}argument = 3>, #plan.post_op<"relu"
// CHECK-DAG: plan.library_kernel @[[PLAIN]] "cublaslt" "matmul" {} {implementation
// CHECK-DAG: plan.library_kernel @[[FILTER]] {{.*}}tf32 = array<i64: 1>
}
