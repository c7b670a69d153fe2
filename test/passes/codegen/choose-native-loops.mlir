// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-native-loops=cpu=x86-64-v3 | FileCheck %s
// RUN: cleave-opt %s --codegen-choose-native-loops='cpu=x86-64-v3 reference' | FileCheck %s --check-prefix=REFERENCE

// Which loops run as one, in which order, and what threads divide. The reference keeps each operator's loops as they are.

// One operator, all in the order of memory: one loop over 64 x 64 elements, which threads divide.
// CHECK-LABEL: plan.native_kernel @elementwise
// CHECK-SAME: common = #plan.common_loops<divided = 4096>
// CHECK: loops
// CHECK: linalg.generic
// CHECK-SAME: plan.nest = #plan.nest<inner = [<0, 1 : divided>]>
// REFERENCE-LABEL: plan.native_kernel @elementwise
// REFERENCE-SAME: common = #plan.common_loops<>
// REFERENCE: plan.nest = #plan.nest<inner = [<0>, <1>]>
plan.native_kernel @elementwise {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.relu %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
}

// The bias stands still along rows: two loops, the contiguous one inside.
// CHECK-LABEL: plan.native_kernel @bias
// CHECK-SAME: common = #plan.common_loops<sizes = [64]>
// CHECK: plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>
plan.native_kernel @bias {
^bb0(%x: tensor<64x128xf32>, %b: tensor<128xf32>):
  %0 = dfg.add %x, %b : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
  plan.yield %0 : tensor<64x128xf32>
}

// Four rows keep four threads busy, 65536 columns any number: threads divide the loop inside.
// CHECK-LABEL: plan.native_kernel @bias_of_few_rows
// CHECK-SAME: common = #plan.common_loops<divided = 65536>
// CHECK: plan.nest = #plan.nest<inner = [<0>, <1 : divided>]>
plan.native_kernel @bias_of_few_rows {
^bb0(%x: tensor<4x65536xf32>, %b: tensor<65536xf32>):
  %0 = dfg.add %x, %b : (tensor<4x65536xf32>, tensor<65536xf32>) -> tensor<4x65536xf32>
  plan.yield %0 : tensor<4x65536xf32>
}

// A body that asks where it is needs a loop of its own for each index that it asks for.
// CHECK-LABEL: plan.native_kernel @indexed
// CHECK-NOT: <0, 1
// CHECK: linalg.index 1
// CHECK-LABEL: plan.native_kernel @sum_of_rows
plan.native_kernel @indexed {
^bb0(%x: tensor<64x64xi64>):
  %0 = dfg.iota {dim = 1 : i64} : () -> tensor<64x64xi64>
  %1 = dfg.add %x, %0 : (tensor<64x64xi64>, tensor<64x64xi64>) -> tensor<64x64xi64>
  plan.yield %1 : tensor<64x64xi64>
}

// The elements of a row lie side by side: the reduction is inside, and threads divide rows.
// CHECK-SAME: common = #plan.common_loops<sizes = [64]>
// CHECK: linalg.fill {plan.nest = #plan.nest<outer = [<0>]>}
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]{{.*}}plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>
plan.native_kernel @sum_of_rows {
^bb0(%x: tensor<64x128xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<64x128xf32>) -> tensor<64xf32>
  plan.yield %0 : tensor<64xf32>
}

// Here it is the elements of different sums that lie side by side: the reduction goes outside, and threads divide sums. Both
// operations go over 512 of them, 2 KiB, before the next, so that these stay in the nearest cache.
// CHECK-LABEL: plan.native_kernel @sum_of_columns
// CHECK-SAME: common = #plan.common_loops<divided = 4096, chunk = 512>
// CHECK: linalg.fill {plan.nest = #plan.nest<inner = [<0 : divided>]>}
// CHECK: linalg.generic {{.*}}["reduction", "parallel"]{{.*}}plan.nest = #plan.nest<inner = [<0>, <1 : divided>]>
plan.native_kernel @sum_of_columns {
^bb0(%x: tensor<64x4096xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<64x4096xf32>) -> tensor<4096xf32>
  plan.yield %0 : tensor<4096xf32>
}

// Written in order, read 256 bytes apart, and the other way round: squares of 32 x 32 elements, 4 KiB of 64 lines of 64
// bytes each way, which the nearest cache holds. 128 / 32 rows of squares are divided.
// CHECK-LABEL: plan.native_kernel @transpose
// CHECK-SAME: common = #plan.common_loops<sizes = [4], square = 32>
// CHECK: plan.nest = #plan.nest<outer = [<0>], inner = [<1 : squares>, <0 : in_square>, <1 : in_square>]>
// REFERENCE-LABEL: plan.native_kernel @transpose
// REFERENCE: plan.nest = #plan.nest<inner = [<0>, <1>]>
plan.native_kernel @transpose {
^bb0(%x: tensor<64x128xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<64x128xf32>) -> tensor<128x64xf32>
  plan.yield %0 : tensor<128x64xf32>
}

// Sides that 32 does not divide have a last, narrower square: 100 / 32 are 4 rows of them.
// CHECK-LABEL: plan.native_kernel @transpose_of_odd_sides
// CHECK-SAME: common = #plan.common_loops<sizes = [4], square = 32>
plan.native_kernel @transpose_of_odd_sides {
^bb0(%x: tensor<50x100xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<50x100xf32>) -> tensor<100x50xf32>
  plan.yield %0 : tensor<100x50xf32>
}

// 16 rows of 64 bytes are one line each: all of it stays in the nearest cache by itself.
// CHECK-LABEL: plan.native_kernel @transpose_of_little
// CHECK-NOT: square
// CHECK-LABEL: plan.native_kernel @parts
plan.native_kernel @transpose_of_little {
^bb0(%x: tensor<16x16xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  plan.yield %0 : tensor<16x16xf32>
}

// Parts of a result are computed where they lie in it: nothing is copied.
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-LABEL: plan.native_kernel @twice
plan.native_kernel @parts {
^bb0(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>):
  %0 = dfg.relu %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = dfg.neg %y : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = dfg.concat %0, %1 {dim = 1 : i64} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x96xf32>
  plan.yield %2 : tensor<64x96xf32>
}

// One value cannot lie in two results: the second one is a copy.
// CHECK: loops
// CHECK: %[[VALUE:.*]] = linalg.generic
// CHECK: arith.maximumf
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[VALUE]]
// CHECK-NEXT: ^bb0(%[[ELEMENT:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: linalg.yield %[[ELEMENT]]
// CHECK: plan.yield %[[VALUE]], %[[COPY]]
plan.native_kernel @twice {
^bb0(%x: tensor<8x64xf32>):
  %0 = dfg.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  plan.yield %0, %0 : tensor<8x64xf32>, tensor<8x64xf32>
}
