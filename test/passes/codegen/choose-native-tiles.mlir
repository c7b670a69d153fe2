// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-native-loops=cpu=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: cleave-opt %s --codegen-choose-native-loops=cpu=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,AVX512

// Which sums of products stay in registers. AVX2 has 16 registers of 32 bytes, AVX-512 32 of 64. Two products and two loads
// start in a cycle and a product is added four cycles later, so that 8 sums side by side are the least that keeps a core
// busy; beside these, registers hold the vectors of one operand and an element of the other.

// With AVX2 six rows of two vectors of 8: 12 sums and 3 other registers of 16 (BLIS's bli_sgemm_haswell_asm_6x16). With AVX-512 16
// columns are one vector of 16, and 12 rows of it 12 sums.
// CHECK-LABEL: plan.native_kernel @floats
// AVX2-SAME: common = #plan.common_loops<sizes = [2]>
// AVX2: linalg.fill {plan.nest = #plan.nest<splits = [<0 by 6>, <1 by 16>], outer = [<0>], inner = [<2, 3>]>}
// AVX2: plan.nest = #plan.nest<splits = [<0 by 6>, <1 by 16>, <4 by 8>], outer = [<0>], inner = [<2>], tile = <lanes = 5, copies = [3, 4], vectors = 1>>
// AVX512: plan.nest = #plan.nest<splits = [<0 by 12>, <1 by 16>], inner = [<2>], tile = <lanes = 4, copies = [3], vectors = 1>>
plan.native_kernel @floats {
^bb0(%a: tensor<12x8xf32>, %b: tensor<8x16xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  plan.yield %0 : tensor<12x16xf32>
}

// With AVX-512 fourteen rows of two vectors of 8, 28 sums and 3 others of 32 (bli_dgemm_skx_asm_16x14). AVX2 has vectors of 4:
// four rows of two are 8 sums; seven would be 14 and three others of 16.
// CHECK-LABEL: plan.native_kernel @doubles
// AVX2: tile = <
// AVX2-SAME: vectors = 1>
// AVX512: splits = [<0 by 14>, <1 by 16>, <4 by 8>], outer = [<0>], inner = [<2>], tile = <lanes = 5, copies = [3, 4], vectors = 1>
plan.native_kernel @doubles {
^bb0(%a: tensor<28x8xf64>, %b: tensor<8x16xf64>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<28x8xf64>, tensor<8x16xf64>) -> tensor<28x16xf64>
  plan.yield %0 : tensor<28x16xf64>
}

// 24 columns are three vectors of 8 and no whole number of 16: a tile for AVX2 alone.
// CHECK-LABEL: plan.native_kernel @columns_of_eights
// AVX2: tile = <
// AVX512-NOT: tile = <
// CHECK-LABEL: plan.native_kernel @odd_columns
plan.native_kernel @columns_of_eights {
^bb0(%a: tensor<12x8xf32>, %b: tensor<8x24xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<12x8xf32>, tensor<8x24xf32>) -> tensor<12x24xf32>
  plan.yield %0 : tensor<12x24xf32>
}

// Vectors lie along no other loop, so that columns of which no vectors are whole have no tile.
// CHECK-NOT: tile = <
// CHECK-LABEL: plan.native_kernel @along_the_sum
plan.native_kernel @odd_columns {
^bb0(%a: tensor<12x8xf32>, %b: tensor<8x12xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<12x8xf32>, tensor<8x12xf32>) -> tensor<12x12xf32>
  plan.yield %0 : tensor<12x12xf32>
}

// Both operands lie side by side along the sum, loop 2: its lanes are added at the end. Copies are rows and columns.
// AVX2: splits = [{{.*}}<2 by 8>], outer = [{{.*}}], inner = [<2>], tile = <lanes = 5, copies = [3, 4], vectors = {{[01]}}>
// AVX512: splits = [{{.*}}<2 by 16>]{{.*}}, inner = [<2>], tile = <lanes = 5, copies = [3, 4], vectors = {{[01]}}>
// CHECK-LABEL: plan.native_kernel @one_sum
plan.native_kernel @along_the_sum {
^bb0(%a: tensor<8x64xf32>, %b: tensor<12x64xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<8x64xf32>, tensor<12x64xf32>) -> tensor<8x12xf32>
  plan.yield %0 : tensor<8x12xf32>
}

// One row of one vector is a single sum, of which LLVM makes as much.
// CHECK-NOT: tile = <
// CHECK-LABEL: plan.native_kernel @brain_floats
plan.native_kernel @one_sum {
^bb0(%a: tensor<1x64xf32>, %b: tensor<64x8xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<1x64xf32>, tensor<64x8xf32>) -> tensor<1x8xf32>
  plan.yield %0 : tensor<1x8xf32>
}

// Products of bfloat16 are no instructions of these processors.
// CHECK-NOT: tile = <
// CHECK-LABEL: plan.native_kernel @largest
plan.native_kernel @brain_floats {
^bb0(%a: tensor<12x8xbf16>, %b: tensor<8x32xbf16>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<12x8xbf16>, tensor<8x32xbf16>) -> tensor<12x32xbf16>
  plan.yield %0 : tensor<12x32xbf16>
}

// What joins otherwise is left to LLVM.
// CHECK-NOT: tile = <
// CHECK-LABEL: plan.native_kernel @with_bias
plan.native_kernel @largest {
^bb0(%x: tensor<12x8x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>} : (tensor<12x8x16xf32>) -> tensor<12x16xf32>
  plan.yield %0 : tensor<12x16xf32>
}

// What follows a sum works on one tile after the other, too: both share the loop over tiles, and the 6 x 16 sums of a tile
// stay on the stack.
// AVX2-SAME: common = #plan.common_loops<sizes = [2]>
// AVX2: linalg.generic {{.*}}"reduction"{{.*}}outer = [<0>]{{.*}}tile = <{{.*}}stack = {{\[\[}}6, 16]]
// AVX2: linalg.generic {{.*}}plan.nest = #plan.nest<splits = [<0 by 6>, <1 by 16>], outer = [<0>], inner = [<2{{.*}}>]>
plan.native_kernel @with_bias {
^bb0(%a: tensor<12x8xf32>, %b: tensor<8x16xf32>, %c: tensor<16xf32>):
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  %1 = dfg.add %0, %c : (tensor<12x16xf32>, tensor<16xf32>) -> tensor<12x16xf32>
  plan.yield %1 : tensor<12x16xf32>
}
