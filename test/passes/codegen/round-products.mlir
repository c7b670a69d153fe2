// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-library-kernels=tf32 --cse | FileCheck %s
// RUN: cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s --check-prefix=EXACT

// Float32 is exact unless TF32 was asked for.
// EXACT-NOT: tf32

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {
dist.mesh @cpu <[], devices = [0]>
dist.mesh @gpu <[], devices = [1]>
dfg.parameter @w : tensor<16x16x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @m : tensor<10x64xf32> = #dfg.fill<value = 1.0 : f64>

// Products and convolutions, and the gradients of both, round on GPUs; what multiplies nothing has nothing to round.
// CHECK-LABEL: dist.program @on_gpu
// CHECK: plan.launch @[[CONV:cudnn.convolution.[0-9]+]](
// CHECK: plan.launch @[[POOL:cudnn.pooling.max.[0-9]+]](
// CHECK: plan.launch @[[FILTER:cudnn.convolution_weights.[0-9]+]](
// CHECK: plan.launch @[[DATA:cudnn.deconvolution.[0-9]+]](
dist.program @on_gpu(%x: tensor<2x16x8x8xf32>) -> (tensor<2x16x4x4xf32>, tensor<16x16x3x3xf32>, tensor<2x16x8x8xf32>) attributes {mesh = @gpu} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  %1 = dfg.pool %0 {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>) -> tensor<2x16x4x4xf32>
  %2 = dfg.conv_filter_gradient %x, %0 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>, tensor<2x16x8x8xf32>) -> tensor<16x16x3x3xf32>
  %3 = dfg.conv_transpose %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  dist.return %1, %2, %3 : tensor<2x16x4x4xf32>, tensor<16x16x3x3xf32>, tensor<2x16x8x8xf32>
}

// bfloat16 has nothing to be rounded, and processors do not round.
// CHECK-LABEL: dist.program @narrow
// CHECK: plan.launch @[[WIDE:cublaslt.matmul.[0-9]+]](
// CHECK: plan.launch @[[NARROW:cublaslt.matmul.[0-9]+]](
dist.program @narrow(%x: tensor<4x64xf32>, %a: tensor<4x8xbf16>, %b: tensor<8x16xbf16>) -> (tensor<4x10xf32>, tensor<4x16xf32>) attributes {mesh = @gpu} {
  %m = dfg.read @m : tensor<10x64xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<10x64xf32>) -> tensor<4x10xf32>
  %1 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, wide} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  dist.return %0, %1 : tensor<4x10xf32>, tensor<4x16xf32>
}
// CHECK-LABEL: dist.program @on_cpu
// CHECK: plan.launch @[[CPU:onednn.matmul.[0-9]+]](
dist.program @on_cpu(%x: tensor<4x64xf32>) -> tensor<4x10xf32> attributes {mesh = @cpu} {
  %m = dfg.read @m : tensor<10x64xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<10x64xf32>) -> tensor<4x10xf32>
  dist.return %0 : tensor<4x10xf32>
}

// CHECK-DAG: plan.library_kernel @[[CONV]] {{.*}}tf32 = array<i64: 1>
// CHECK-DAG: plan.library_kernel @[[FILTER]] {{.*}}tf32 = array<i64: 1>
// CHECK-DAG: plan.library_kernel @[[DATA]] {{.*}}tf32 = array<i64: 1>
// CHECK-DAG: plan.library_kernel @[[WIDE]] {{.*}}tf32 = array<i64: 1>
// CHECK-DAG: plan.library_kernel @[[POOL]] "cudnn" "pooling.max" {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads_begin = array<i64: 0, 0>, pads_end = array<i64: 0, 0>, strides = array<i64: 2, 2>}
// CHECK-DAG: plan.library_kernel @[[NARROW]] "cublaslt" "matmul" {} {implementation
// CHECK-DAG: plan.library_kernel @[[CPU]] "onednn" "matmul" {} {implementation
}
