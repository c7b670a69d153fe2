// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How partial sums, padding and positions are treated.

// RUN: cleave-opt %s --distribute --split-input-file | FileCheck %s

// Two partial products that are added are joined once; what needs only a part gets it by a reduce-scatter.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<64x16xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<64x16xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @delayed(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %w1 = dfg.read @w1 : tensor<64x16xf32>
  %0 = dfg.dot_general %x, %w1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{k = ["model"]}>>}
      : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %w2 = dfg.read @w2 : tensor<64x16xf32>
  %1 = dfg.dot_general %y, %w2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{k = ["model"]}>>}
      : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %2 = dfg.add %0, %1 {dist.place = #dist.place<@pair, by = "test">} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = dfg.neg %2 {dist.place = #dist.place<@pair, by = "test">} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %4 = dfg.relu %3 {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  dfg.return %4 : tensor<8x16xf32>
}
// CHECK-LABEL: dist.program @delayed.pair(
// CHECK-NOT: dist.all_reduce
// CHECK: %[[S:.*]] = dfg.add
// CHECK: %[[N:.*]] = dfg.neg %[[S]]
// CHECK: dist.reduce_scatter %[[N]] from <[8, 16], partial sum ["model"]> to <[8 by ["model"], 16]>
// CHECK-NEXT: dfg.relu
// CHECK-SAME: tensor<4x16xf32>
// CHECK-NEXT: dist.return

// -----

// Two users of one layout share its communication.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.graph @shared(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = dfg.exp %x {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = dfg.relu %0 {dist.place = #dist.place<@pair, by = "test">} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = dfg.neg %0 {dist.place = #dist.place<@pair, by = "test">} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  dfg.return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}
// CHECK-LABEL: dist.program @shared.pair(
// CHECK: %[[G:.*]] = dist.all_gather
// CHECK-NOT: dist.all_gather
// CHECK: dfg.relu %[[G]]
// CHECK: dfg.neg %[[G]]

// -----

// A softmax along a cut dimension whose blocks are uneven: two small all-reduces, on masked parts.
dist.mesh @three <["x" = 3], devices = [0, 1, 2]>
dfg.graph @softmax(%x: tensor<7x10xf32>) -> tensor<7x10xf32> {
  %0 = dfg.softmax %x {dim = 1 : i64, dist.place = #dist.place<@three, by = "test", split = <{d1 = ["x"]}>>}
      : (tensor<7x10xf32>) -> tensor<7x10xf32>
  dfg.return %0 : tensor<7x10xf32>
}
// CHECK-LABEL: dist.program @softmax.three(
// CHECK-SAME: %[[X:.*]]: tensor<7x4xf32>
// CHECK: %[[E:.*]] = dist.extent <[10 by ["x"]]> dim 0 part 0
// CHECK: %[[M:.*]] = dfg.mask %[[X]], %[[E]] {dims = array<i64: 1>, fill = 0xFFF0000000000000 : f64
// CHECK: %[[L:.*]] = dfg.reduce %[[M]] {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<max>}
// CHECK: dist.all_reduce %[[L]] from <[7, 1], partial max ["x"]> to <[7, 1]>
// CHECK: dfg.exp
// CHECK: dfg.mask %{{.*}}, %[[E]] {dims = array<i64: 1>, fill = 0.000000e+00 : f64
// CHECK: dist.all_reduce %{{.*}} from <[7, 1], partial sum ["x"]> to <[7, 1]>
// CHECK: dfg.div

// -----

// Padding that is zero already is not masked: inputs and parameters come so.
dist.mesh @three <["x" = 3], devices = [0, 1, 2]>
dfg.parameter @w : tensor<10x4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @zeros(%x: tensor<2x10xf32>) -> tensor<2x4xf32> {
  %w = dfg.read @w : tensor<10x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@three, by = "test", split = <{k = ["x"]}>>}
      : (tensor<2x10xf32>, tensor<10x4xf32>) -> tensor<2x4xf32>
  dfg.return %0 : tensor<2x4xf32>
}
// CHECK-LABEL: dist.program @zeros.three(
// CHECK-NOT: dfg.mask
// CHECK: dist.all_reduce

// -----

// A table cut by rows: positions that another device has give zero.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @table : tensor<16x8xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @embedding(%i: tensor<5xi64>) -> tensor<5x8xf32> {
  %t = dfg.read @table : tensor<16x8xf32>
  %0 = dfg.gather %t, %i {dim = 0 : i64, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>}
      : (tensor<16x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  dfg.return %0 : tensor<5x8xf32>
}
// CHECK-LABEL: dist.program @embedding.pair(
// CHECK: %[[T:.*]] = dist.shard_of @table <[16 by ["model"], 8]>
// CHECK: %[[S:.*]] = dist.start <[16 by ["model"]]> dim 0 part 0
// CHECK: dfg.sub %{{.*}}, %[[S]]
// CHECK: dfg.gather %[[T]]
// CHECK: %[[R:.*]] = dfg.select
// CHECK: dist.all_reduce %[[R]] from <[5, 8], partial sum ["model"]> to <[5, 8]>

// -----

// Between two meshes the pieces go straight from owner to user.
dist.mesh @front <["x" = 2], devices = [0, 1]>
dist.mesh @back <["y" = 3], devices = [2, 3, 4]>
dfg.graph @stages(%x: tensor<7x4xf32>) -> tensor<7x4xf32> {
  %0 = dfg.exp %x {dist.place = #dist.place<@front, by = "test", split = <{d0 = ["x"]}>>} : (tensor<7x4xf32>) -> tensor<7x4xf32>
  %1 = dfg.relu %0 {dist.place = #dist.place<@back, by = "test", split = <{d0 = ["y"]}>>} : (tensor<7x4xf32>) -> tensor<7x4xf32>
  dfg.return %1 : tensor<7x4xf32>
}
// CHECK-LABEL: dist.program @stages.front(
// CHECK: dist.send %{{.*}} to @back channel 0 from <[7 by ["x"], 4]> to <[7 by ["y"], 4]> : tensor<4x4xf32>
// CHECK-LABEL: dist.program @stages.back(
// CHECK: dist.receive from @front channel 0 from <[7 by ["x"], 4]> to <[7 by ["y"], 4]> : tensor<3x4xf32>

// -----

// What a collective moves arrives with zeros for padding, whatever the operand had there: a sum needs no mask.
dist.mesh @three <["x" = 3], devices = [0, 1, 2]>
dfg.graph @moved(%x: tensor<7x10xf32>) -> tensor<7xf32> {
  %0 = dfg.exp %x {dist.place = #dist.place<@three, by = "test", split = <{d0 = ["x"]}>>} : (tensor<7x10xf32>) -> tensor<7x10xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>,
      dist.place = #dist.place<@three, by = "test", split = <{d1 = ["x"]}>>} : (tensor<7x10xf32>) -> tensor<7xf32>
  dfg.return %1 : tensor<7xf32>
}
// CHECK-LABEL: dist.program @moved.three(
// CHECK: dfg.exp
// CHECK: dist.all_to_all
// CHECK-NOT: dfg.mask
// CHECK: dfg.reduce
