// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

// The same graph on a processor and on a GPU: the driver says which library is asked.

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"}]} {
dist.mesh @cpu <[], devices = [0]>
dist.mesh @gpu <[], devices = [1]>
dfg.parameter @w : tensor<16x16x3x3xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @b : tensor<16x1x1xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @m : tensor<10x64xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter @v : tensor<10xf32> = #dfg.fill<value = 1.0 : f64>

// CHECK-LABEL: dist.program @on_cpu
// CHECK: plan.launch @onednn.convolution.{{(winograd.)?[0-9]+}}
// CHECK: plan.launch @onednn.softmax.{{[0-9]+}}
// CHECK-NOT: plan.launch @cu
dist.program @on_cpu(%x: tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32> attributes {mesh = @cpu} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %b = dfg.read @b : tensor<16x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  %1 = dfg.add %0, %b : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %2 = dfg.relu %1 : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %3 = dfg.softmax %2 {dim = 1 : i64} : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  dist.return %3 : tensor<2x16x8x8xf32>
}

// Values stay row-major, and what GPUs have no library for is left to kernels of our own.
// CHECK-LABEL: dist.program @on_gpu
// CHECK-NOT: onednn
// CHECK: %[[Y:.*]] = plan.launch @[[CONV:cudnn.convolution.[0-9]+]](%arg0, %{{[^,]*}}, %{{[^,]*}}) : {{.*}} -> tensor<2x16x8x8xf32>
// CHECK-NOT: dfg.add
// CHECK-NOT: dfg.relu
// CHECK: dfg.softmax %[[Y]]
// CHECK: dist.return
dist.program @on_gpu(%x: tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32> attributes {mesh = @gpu} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %b = dfg.read @b : tensor<16x1x1xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  %1 = dfg.add %0, %b : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %2 = dfg.relu %1 : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %3 = dfg.softmax %2 {dim = 1 : i64} : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  dist.return %3 : tensor<2x16x8x8xf32>
}

// A product takes its bias and rectifier along, and reads the matrix that lies transposed where it is. The function
// behind it is not cuBLASLt's.
// CHECK-LABEL: dist.program @products
// CHECK: %[[M:.*]] = plan.view %{{.*}} : tensor<10x64xf32> -> tensor<64x10xf32, #plan.layout<"ba"
// CHECK: %[[FIRST:.*]] = plan.launch @[[RELU:cublaslt.matmul.[0-9]+]](%arg0, %[[M]], %{{[^,]*}})
// CHECK: %[[SECOND:.*]] = plan.launch @[[PLAIN:cublaslt.matmul.[0-9]+]](%arg0, %[[M]]) :
// CHECK: dfg.gelu %[[SECOND]]
dist.program @products(%x: tensor<4x64xf32>) -> (tensor<4x10xf32>, tensor<4x10xf32>) attributes {mesh = @gpu} {
  %m = dfg.read @m : tensor<10x64xf32>
  %v = dfg.read @v : tensor<10xf32>
  %0 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<10x64xf32>) -> tensor<4x10xf32>
  %1 = dfg.add %0, %v : (tensor<4x10xf32>, tensor<10xf32>) -> tensor<4x10xf32>
  %2 = dfg.relu %1 : (tensor<4x10xf32>) -> tensor<4x10xf32>
  %3 = dfg.dot_general %x, %m {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<10x64xf32>) -> tensor<4x10xf32>
  %4 = dfg.gelu %3 : (tensor<4x10xf32>) -> tensor<4x10xf32>
  dist.return %2, %4 : tensor<4x10xf32>, tensor<4x10xf32>
}

// What a processor sends to a GPU is brought into row-major order first.
// CHECK-LABEL: dist.program @sends
// CHECK: %[[C:.*]] = plan.launch @onednn.convolution
// CHECK: %[[D:.*]] = plan.launch @onednn.reorder.{{[0-9]+}}(%[[C]]) : {{.*}} -> tensor<2x16x8x8xf32>
// CHECK: dist.send %[[D]] to @gpu channel 0 : tensor<2x16x8x8xf32>
dist.program @sends(%x: tensor<2x16x8x8xf32>) attributes {mesh = @cpu} {
  %w = dfg.read @w : tensor<16x16x3x3xf32>
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  dist.send %0 to @gpu channel 0 : tensor<2x16x8x8xf32>
  dist.return
}
// CHECK-LABEL: dist.program @takes
// CHECK: dist.receive from @cpu channel 0 : tensor<2x16x8x8xf32>
dist.program @takes() -> tensor<2x16x8x8xf32> attributes {mesh = @gpu} {
  %0 = dist.receive from @cpu channel 0 : tensor<2x16x8x8xf32>
  dist.return %0 : tensor<2x16x8x8xf32>
}

// CHECK-DAG: plan.library_kernel @[[CONV]] "cudnn" "convolution" {{.*}}post_ops = [#plan.post_op<"relu"
// CHECK-DAG: plan.library_kernel @[[RELU]] "cublaslt" "matmul" {{.*}}post_ops = [#plan.post_op<"relu"
// CHECK-DAG: plan.library_kernel @[[PLAIN]] "cublaslt" "matmul"
}
