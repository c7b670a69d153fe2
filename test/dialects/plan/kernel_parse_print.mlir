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

// A kernel between the decision about its loops and their writing: every kind of decision. What says nothing is left out.
// CHECK-LABEL: plan.native_kernel @loops attributes {common = #plan.common_loops<sizes = [3, 8], squared = 1, square = 32, blocks = 4, operations_in_blocks = 2>} {
// CHECK: } loops {
// CHECK: linalg.fill {plan.nest = #plan.nest<>}
// CHECK: plan.nest = #plan.nest<splits = [<0 by 2>, <1 by 4>], outer = [<0>, <1>], inner = [<2>, <1 : squares>, <1, 0 : in_square>], tile = <lanes = 4, copies = [3], vectors = 1>, stack = {{\[\[}}0, 4], []]>
plan.native_kernel @loops attributes {common = #plan.common_loops<operations_in_blocks = 2, sizes = [3, 8], squared = 1, square = 32, blocks = 4>} {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.fill {plan.nest = #plan.nest<>} ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.fill {plan.nest = #plan.nest<splits = [<0 by 2>, <1 by 4>], outer = [<0>, <1>], inner = [<2>, <1 : squares>, <1, 0 : in_square>], tile = <lanes = 4, copies = [3], vectors = 1>, stack = [[0, 4], []]>}
      ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  plan.yield %1 : tensor<8xf32>
}

// Blocks of which each row needs some, by bounds on either side or on both.
// CHECK-LABEL: plan.native_kernel @band attributes {common = #plan.common_loops<sizes = [3, 8], blocks = 4, operations_in_blocks = 2, band = <level = 1, unit = 32, columns = 512, lower = 0, upper = 299>>} {
plan.native_kernel @band attributes {common = #plan.common_loops<sizes = [3, 8], blocks = 4, operations_in_blocks = 2, band = <level = 1, unit = 32, columns = 512, upper = 299, lower = 0>>} {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// Loops that threads divide inside.
// CHECK-LABEL: plan.native_kernel @divided attributes {common = #plan.common_loops<divided = 8, chunk = 2>} {
// CHECK: plan.nest = #plan.nest<inner = [<0 : divided>]>
plan.native_kernel @divided attributes {common = #plan.common_loops<divided = 8, chunk = 2>} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill {plan.nest = #plan.nest<inner = [<0 : divided>]>} ins(%zero : f32) outs(%x : tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}

// The launches of a kernel on a GPU: every kind of decision, and none.
// CHECK-LABEL: plan.native_kernel @gpu_launches attributes {driver = "cuda", mappings = [
// CHECK-SAME: #plan.gpu_mapping<outer = [8, 4], inner = [64], blocks = 4, groups = 8, lanes = 2, along = inner, width = 4, splits = 2, combines = true, unrolled = true, ahead = [2, 1], squares = <across = 0, side = 32, padding = 1>, beside = true>,
// CHECK-SAME: #plan.gpu_mapping<blocks = 1>
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0, 2>], inner = [<3>], phase = 1, stores = [0, 2], staged = [1], aligned = 2, reads_fill = true>, #plan.gpu_step<launch = 1>]
// CHECK: plan.steps = []
plan.native_kernel @gpu_launches attributes {driver = "cuda", mappings = [
    #plan.gpu_mapping<beside = true, outer = [8, 4], inner = [64], blocks = 4, groups = 8, lanes = 2, along = inner, width = 4, splits = 2, combines = true, unrolled = true, ahead = [2, 1], squares = <across = 0, side = 32, padding = 1>>,
    #plan.gpu_mapping<blocks = 1, along = outer, beside = false>]} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0, 2>], inner = [<3>], phase = 1, stores = [0, 2], staged = [1], aligned = 2, reads_fill = true>, #plan.gpu_step<launch = 1>]}
      ins(%zero : f32) outs(%x : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  plan.yield %1 : tensor<8xf32>
}
