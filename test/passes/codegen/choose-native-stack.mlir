// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-native-loops=cpu=x86-64-v3 | FileCheck %s

// What stays on the stack between the operations of a kernel: what one iteration of their common loops needs, up to 16 KiB
// a value, half of the nearest cache of the smallest processors.

// The largest element and the sum of a row are one number each: 0 of the rows, which run outside. What lies in the result,
// the exponentials, has no place of its own.
// CHECK-LABEL: plan.native_kernel @softmax
// CHECK-SAME: common = #plan.common_loops<sizes = [64]>
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}}plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>
// CHECK: math.exp
// CHECK: linalg.fill {plan.nest = #plan.nest<outer = [<0>], stack = {{\[\[}}0]]>}
// CHECK: linalg.generic {{.*}}plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = {{\[\[}}0]]>
// CHECK: arith.addf
plan.native_kernel @softmax {
^bb0(%x: tensor<64x128xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<64x128xf32>) -> tensor<64x128xf32>
  plan.yield %0 : tensor<64x128xf32>
}

// Along columns the loop that all share is the innermost: no loop is outside, and all sums are kept.
// CHECK-LABEL: plan.native_kernel @softmax_of_columns
// CHECK-SAME: common = #plan.common_loops<divided = 64, chunk = 512>
// CHECK-NOT: stack =
// CHECK-LABEL: plan.native_kernel @short_rows
plan.native_kernel @softmax_of_columns {
^bb0(%x: tensor<128x64xf32>):
  %0 = dfg.softmax %x {dim = 0 : i64} : (tensor<128x64xf32>) -> tensor<128x64xf32>
  plan.yield %0 : tensor<128x64xf32>
}

// Exponentials that are read twice and are no result: a row of 4096 is 16 KiB, and stays.
// CHECK: linalg.generic {{.*}}stack = {{\[\[}}0, 4096]]
// CHECK: math.exp
// CHECK-LABEL: plan.native_kernel @long_rows
plan.native_kernel @short_rows {
^bb0(%x: tensor<8x4096xf32>):
  %0 = dfg.exp %x : (tensor<8x4096xf32>) -> tensor<8x4096xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x4096xf32>) -> tensor<8xf32>
  %2 = dfg.reduce %0 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>} : (tensor<8x4096xf32>) -> tensor<8xf32>
  plan.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// One of 4097 is more, and lies in the scratch memory.
// CHECK-NOT: stack =
// CHECK-LABEL: plan.native_kernel @last
plan.native_kernel @long_rows {
^bb0(%x: tensor<8x4097xf32>):
  %0 = dfg.exp %x : (tensor<8x4097xf32>) -> tensor<8x4097xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<8x4097xf32>) -> tensor<8xf32>
  %2 = dfg.reduce %0 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>} : (tensor<8x4097xf32>) -> tensor<8xf32>
  plan.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
}

plan.native_kernel @last {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
