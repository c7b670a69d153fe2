// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// A layout with blocks and one without (the kernels below show them).
#blocked = #plan.layout<"aBcd16b", padded = [1, 64, 56, 56], strides = [200704, 50176, 896, 16], blocks = [16], dims = [1]>
#turned = #plan.layout<"ba", padded = [8, 4], strides = [1, 8]>

// A kernel of ours, before and after it is compiled.
// CHECK: plan.native_kernel @relu.0 {
// CHECK: ^bb0(%[[X:.*]]: tensor<8xf32>):
// CHECK: %[[Y:.*]] = dfg.relu %[[X]]
// CHECK: plan.yield %[[Y]] : tensor<8xf32>
// CHECK: plan.native_kernel @relu.1 attributes {object = @native, parallel_extent = 8 : i64, scratch_bytes = 64 : i64, symbol = "relu_1"} {
plan.native_kernel @relu.0 {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
plan.native_kernel @relu.1 attributes {object = @native, symbol = "relu_1", parallel_extent = 8 : i64, scratch_bytes = 64 : i64} {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}

// A library's kernel, with and without fused operations.
// CHECK: plan.library_kernel @lrn.0 "onednn" "lrn" {alpha = {{1.0+e-04}} : f64, size = array<i64: 5>} : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
// CHECK: plan.library_kernel @reorder.0 "onednn" "reorder" {} {implementation = "jit:uni", post_ops = [#plan.post_op<"leaky_relu", alpha = {{1.0+e-01}} : f64, beta = 0.000000e+00 : f64, argument = -1>], scratch_bytes = 16 : i64} : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32, #plan.layout<"aBcd16b", padded = [1, 64, 56, 56], strides = [200704, 50176, 896, 16], blocks = [16], dims = [1]>>
plan.library_kernel @lrn.0 "onednn" "lrn" {size = array<i64: 5>, alpha = 1.0e-4 : f64}
    : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
plan.library_kernel @reorder.0 "onednn" "reorder" {}
    {implementation = "jit:uni", scratch_bytes = 16 : i64,
     post_ops = [#plan.post_op<"leaky_relu", alpha = 1.0e-01 : f64, beta = 0.0 : f64, argument = -1>]}
    : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32, #blocked>

// Native code.
// CHECK: plan.object @native triple = "x86_64-pc-linux-gnu" cpu = "skylake-avx512" features = ["avx2"] image = "\7FELF"
plan.object @native triple = "x86_64-pc-linux-gnu" cpu = "skylake-avx512" features = ["avx2"] image = "\7FELF"

// Launches and views on tensors.
// CHECK-LABEL: dist.program @launches
// CHECK: plan.launch @relu.0(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: plan.launch @reorder.0(%{{.*}}) : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32, #plan.layout<"aBcd16b", padded = [1, 64, 56, 56], strides = [200704, 50176, 896, 16], blocks = [16], dims = [1]>>
// CHECK: plan.view %{{.*}} : tensor<8xf32> -> tensor<2x4xf32>
// CHECK: plan.view %{{.*}} : tensor<4x8xf32> -> tensor<8x4xf32, #plan.layout<"ba", padded = [8, 4], strides = [1, 8]>>
dist.mesh @d0 <[], devices = [0]>
dist.program @launches(%x: tensor<8xf32>, %y: tensor<1x64x56x56xf32>, %z: tensor<4x8xf32>) attributes {mesh = @d0} {
  %0 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = plan.launch @reorder.0(%y) : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32, #blocked>
  %2 = plan.view %x : tensor<8xf32> -> tensor<2x4xf32>
  %3 = plan.view %z : tensor<4x8xf32> -> tensor<8x4xf32, #turned>
  dist.return
}
