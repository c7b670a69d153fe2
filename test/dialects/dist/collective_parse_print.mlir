// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s

dist.mesh @grid <["a" = 2, "b" = 3], devices = [0, 1, 2, 3, 4, 5]>
dfg.parameter @w : tensor<7x36xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>

// CHECK-LABEL: dist.program @parts(
// CHECK-SAME: %{{.*}}: tensor<4x8x2xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[7 by ["a"], 8, 4 by ["b"]]>}
dist.program @parts(%x: tensor<4x8x2xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[7 by ["a"], 8, 4 by ["b"]]>})
    attributes {mesh = @grid} {
  // A dimension that is a product: three times nine columns of which an axis takes three each.
  // CHECK: dist.shard_of @w <[7, 4 * 9 by ["b"]]> : tensor<7x12xf32>
  %0 = dist.shard_of @w <[7, 4 * 9 by ["b"]]> : tensor<7x12xf32>
  // Two axes cut one after the other: seven into blocks of four, those into blocks of two.
  // CHECK: dist.shard_of @w <[7 by ["a", "b"], 36]> : tensor<2x36xf32>
  %1 = dist.shard_of @w <[7 by ["a", "b"], 36]> : tensor<2x36xf32>
  // CHECK: dist.start <[7 by ["a", "b"], 36]> dim 0 part 0 : tensor<i64>
  %2 = dist.start <[7 by ["a", "b"], 36]> dim 0 part 0 : tensor<i64>
  // CHECK: dist.extent <[7, 4 * 9 by ["b"]]> dim 1 part 1 : tensor<i64>
  %3 = dist.extent <[7, 4 * 9 by ["b"]]> dim 1 part 1 : tensor<i64>
  dist.return
}

// CHECK-LABEL: dist.program @collectives(
dist.program @collectives(%x: tensor<8x6xf32>) attributes {mesh = @grid} {
  // CHECK: dist.all_reduce %{{.*}} from <[8, 6], partial sum ["a", "b"]> to <[8, 6]> : tensor<8x6xf32> -> tensor<8x6xf32>
  %0 = dist.all_reduce %x from <[8, 6], partial sum ["a", "b"]> to <[8, 6]> : tensor<8x6xf32> -> tensor<8x6xf32>
  // CHECK: dist.reduce_scatter %{{.*}} from <[8, 6], partial max ["a"]> to <[8 by ["a"], 6]>
  %1 = dist.reduce_scatter %x from <[8, 6], partial max ["a"]> to <[8 by ["a"], 6]> : tensor<8x6xf32> -> tensor<4x6xf32>
  // CHECK: dist.all_to_all %{{.*}} from <[8 by ["a"], 6]> to <[8, 6 by ["a"]]>
  %2 = dist.all_to_all %1 from <[8 by ["a"], 6]> to <[8, 6 by ["a"]]> : tensor<4x6xf32> -> tensor<8x3xf32>
  // CHECK: dist.all_gather %{{.*}} from <[8, 6 by ["a"]]> to <[8, 6]>
  %3 = dist.all_gather %2 from <[8, 6 by ["a"]]> to <[8, 6]> : tensor<8x3xf32> -> tensor<8x6xf32>
  // CHECK: dist.slice %{{.*}} from <[8, 6]> to <[8, 6 by ["b"]]>
  %4 = dist.slice %3 from <[8, 6]> to <[8, 6 by ["b"]]> : tensor<8x6xf32> -> tensor<8x2xf32>
  // CHECK: dist.permute %{{.*}} from <[8, 6 by ["b"]]> to <[8 by ["b", "a"], 6]>
  %5 = dist.permute %4 from <[8, 6 by ["b"]]> to <[8 by ["b", "a"], 6]> : tensor<8x2xf32> -> tensor<2x6xf32>
  // CHECK: dist.permute %{{.*}} from <[8 by ["b", "a"], 6]> to <[8 by ["b", "a"] shift [2, 1], 6]> : tensor<2x6xf32> -> tensor<2x6xf32>
  %8 = dist.permute %5 from <[8 by ["b", "a"], 6]> to <[8 by ["b", "a"] shift [2, 1], 6]> : tensor<2x6xf32> -> tensor<2x6xf32>
  // CHECK: dist.all_reduce %{{.*}}, %{{.*}} from <[8, 6], partial sum ["a"]>, <[2, 8], partial sum ["a"]> to <[8, 6]>, <[2, 8]> : tensor<8x6xf32>, tensor<2x8xf32> -> tensor<8x6xf32>, tensor<2x8xf32>
  %y = dfg.reshape %4 : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %7:2 = dist.all_reduce %x, %y from <[8, 6], partial sum ["a"]>, <[2, 8], partial sum ["a"]> to <[8, 6]>, <[2, 8]>
      : tensor<8x6xf32>, tensor<2x8xf32> -> tensor<8x6xf32>, tensor<2x8xf32>
  // CHECK: dist.halo_exchange %{{.*}} from <[8 by ["a"], 6]> to <[8 by ["a"] reach (4 step 2 before 1 extent 3), 6]> fill 0.000000e+00
  %6 = dist.halo_exchange %1 from <[8 by ["a"], 6]> to <[8 by ["a"] reach (4 step 2 before 1 extent 3), 6]> fill 0.0
      : tensor<4x6xf32> -> tensor<5x6xf32>
  dist.return
}
