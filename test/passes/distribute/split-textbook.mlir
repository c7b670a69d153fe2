// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The textbook's cases of operators split over a mesh, each with its exact communication.

// RUN: cleave-opt %s --distribute --split-input-file | FileCheck %s --implicit-check-not="= dist.all" --implicit-check-not="= dist.reduce_scatter" --implicit-check-not="= dist.slice" --implicit-check-not="= dist.permute" --implicit-check-not="= dist.halo"

// W by rows: local products, added by one all-reduce.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<1000x500xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @rows(%x: tensor<128x1000xf32>) -> tensor<128x500xf32> {
  %w = dfg.read @w : tensor<1000x500xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{k = ["model"]}>>}
      : (tensor<128x1000xf32>, tensor<1000x500xf32>) -> tensor<128x500xf32>
  dfg.return %0 : tensor<128x500xf32>
}
// CHECK-LABEL: dist.program @rows.pair(
// CHECK-SAME: %[[X:.*]]: tensor<128x500xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[128, 1000 by ["model"]]>})
// CHECK: %[[W:.*]] = dist.shard_of @w <[1000 by ["model"], 500]> : tensor<500x500xf32>
// CHECK: %[[P:.*]] = dfg.dot_general %[[X]], %[[W]]
// CHECK-SAME: -> tensor<128x500xf32>
// CHECK: %[[R:.*]] = dist.all_reduce %[[P]] from <[128, 500], partial sum ["model"]> to <[128, 500]>
// CHECK: dist.return %[[R]]

// -----

// W by columns: no communication, every device gives out its columns...
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<1000x500xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @columns(%x: tensor<128x1000xf32>) -> tensor<128x500xf32> {
  %w = dfg.read @w : tensor<1000x500xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["model"]}>>}
      : (tensor<128x1000xf32>, tensor<1000x500xf32>) -> tensor<128x500xf32>
  dfg.return %0 : tensor<128x500xf32>
}
// CHECK-LABEL: dist.program @columns.pair(
// CHECK-SAME: -> (tensor<128x250xf32> {dist.layout = #dist.layout<[128, 500 by ["model"]]>, dist.output = 0 : i64})
// CHECK: %[[P:.*]] = dfg.dot_general
// CHECK-SAME: -> tensor<128x250xf32>
// CHECK: dist.return %[[P]]

// -----

// ... until somebody needs all of them.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<1000x500xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @gathered(%x: tensor<128x1000xf32>) -> tensor<128x500xf32> {
  %w = dfg.read @w : tensor<1000x500xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["model"]}>>}
      : (tensor<128x1000xf32>, tensor<1000x500xf32>) -> tensor<128x500xf32>
  %1 = dfg.relu %0 {dist.place = #dist.place<@pair, by = "test">} : (tensor<128x500xf32>) -> tensor<128x500xf32>
  dfg.return %1 : tensor<128x500xf32>
}
// CHECK-LABEL: dist.program @gathered.pair(
// CHECK: %[[P:.*]] = dfg.dot_general
// CHECK: %[[G:.*]] = dist.all_gather %[[P]] from <[128, 500 by ["model"]]> to <[128, 500]>
// CHECK: dfg.relu %[[G]]

// -----

// Column, then row: one all-reduce a block, here beside a data axis that needs none.
dist.mesh @grid <["data" = 2, "model" = 2], devices = [0, 1, 2, 3]>
dfg.parameter @w1 : tensor<16x64xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<64x16xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @mlp(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %w1 = dfg.read @w1 : tensor<16x64xf32>
  %0 = dfg.dot_general %x, %w1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "test", split = <{m = ["data"], n = ["model"]}>>}
      : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1 = dfg.relu %0 {dist.place = #dist.place<@grid, by = "test", split = <{d0 = ["data"], d1 = ["model"]}>>}
      : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %w2 = dfg.read @w2 : tensor<64x16xf32>
  %2 = dfg.dot_general %1, %w2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "test", split = <{m = ["data"], k = ["model"]}>>}
      : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  dfg.return %2 : tensor<8x16xf32>
}
// CHECK-LABEL: dist.program @mlp.grid(
// CHECK: dist.shard_of @w1 <[16, 64 by ["model"]]> : tensor<16x32xf32>
// CHECK: dfg.dot_general
// CHECK-SAME: (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
// CHECK: dfg.relu
// CHECK: dist.shard_of @w2 <[64 by ["model"], 16]> : tensor<32x16xf32>
// CHECK: %[[P:.*]] = dfg.dot_general
// CHECK-SAME: (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
// CHECK: dist.all_reduce %[[P]] from <[8 by ["data"], 16], partial sum ["model"]> to <[8 by ["data"], 16]>
// CHECK: dist.return

// -----

// Attention by heads: reshapes and transposes carry the columns to the heads; one all-reduce behind the output product.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @q : tensor<64x64xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @k : tensor<64x64xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @v : tensor<64x64xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @o : tensor<64x64xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @attention(%x: tensor<6x64xf32>) -> tensor<6x64xf32> {
  %wq = dfg.read @q : tensor<64x64xf32>
  %q0 = dfg.dot_general %x, %wq {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["model"]}>>}
      : (tensor<6x64xf32>, tensor<64x64xf32>) -> tensor<6x64xf32>
  %q1 = dfg.reshape %q0 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x64xf32>) -> tensor<6x4x16xf32>
  %q2 = dfg.transpose %q1 {permutation = array<i64: 1, 0, 2>, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
  %wk = dfg.read @k : tensor<64x64xf32>
  %k0 = dfg.dot_general %x, %wk {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["model"]}>>}
      : (tensor<6x64xf32>, tensor<64x64xf32>) -> tensor<6x64xf32>
  %k1 = dfg.reshape %k0 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x64xf32>) -> tensor<6x4x16xf32>
  %k2 = dfg.transpose %k1 {permutation = array<i64: 1, 0, 2>, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
  %wv = dfg.read @v : tensor<64x64xf32>
  %v0 = dfg.dot_general %x, %wv {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{n = ["model"]}>>}
      : (tensor<6x64xf32>, tensor<64x64xf32>) -> tensor<6x64xf32>
  %v1 = dfg.reshape %v0 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x64xf32>) -> tensor<6x4x16xf32>
  %v2 = dfg.transpose %v1 {permutation = array<i64: 1, 0, 2>, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
  %s = dfg.dot_general %q2, %k2 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 2>, dist.place = #dist.place<@pair, by = "test", split = <{batch = ["model"]}>>}
      : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x6xf32>
  %p = dfg.softmax %s {dim = 2 : i64, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>}
      : (tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %h = dfg.dot_general %p, %v2 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 1>, dist.place = #dist.place<@pair, by = "test", split = <{batch = ["model"]}>>}
      : (tensor<4x6x6xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
  %h1 = dfg.transpose %h {permutation = array<i64: 1, 0, 2>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>}
      : (tensor<4x6x16xf32>) -> tensor<6x4x16xf32>
  %h2 = dfg.reshape %h1 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>}
      : (tensor<6x4x16xf32>) -> tensor<6x64xf32>
  %wo = dfg.read @o : tensor<64x64xf32>
  %r = dfg.dot_general %h2, %wo {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{k = ["model"]}>>}
      : (tensor<6x64xf32>, tensor<64x64xf32>) -> tensor<6x64xf32>
  dfg.return %r : tensor<6x64xf32>
}
// CHECK-LABEL: dist.program @attention.pair(
// CHECK: dfg.softmax
// CHECK-SAME: tensor<2x6x6xf32>
// CHECK: dist.all_reduce
// CHECK: dist.return

// -----

// A convolution by filters and by batch needs nothing; by height the rows at the seams.
dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @f : tensor<6x3x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @filters(%x: tensor<2x3x8x8xf32>) -> tensor<2x6x8x8xf32> {
  %f = dfg.read @f : tensor<6x3x3x3xf32>
  %0 = dfg.conv %x, %f {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
      dist.place = #dist.place<@pair, by = "test", split = <{out_channel = ["model"]}>>} : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x8x8xf32>
  dfg.return %0 : tensor<2x6x8x8xf32>
}
// CHECK-LABEL: dist.program @filters.pair(
// CHECK: dist.shard_of @f <[6 by ["model"], 3, 3, 3]> : tensor<3x3x3x3xf32>
// CHECK: dfg.conv
// CHECK-SAME: -> tensor<2x3x8x8xf32>
// CHECK: dist.return

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @f : tensor<6x3x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @batch(%x: tensor<2x3x8x8xf32>) -> tensor<2x6x8x8xf32> {
  %f = dfg.read @f : tensor<6x3x3x3xf32>
  %0 = dfg.conv %x, %f {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
      dist.place = #dist.place<@pair, by = "test", split = <{batch = ["model"]}>>} : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x8x8xf32>
  dfg.return %0 : tensor<2x6x8x8xf32>
}
// CHECK-LABEL: dist.program @batch.pair(
// CHECK: dfg.conv
// CHECK-SAME: (tensor<1x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x8x8xf32>
// CHECK: dist.return

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>
dfg.parameter @f : tensor<6x3x3x3xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.graph @height(%x: tensor<2x3x8x8xf32>) -> tensor<2x6x8x8xf32> {
  %f = dfg.read @f : tensor<6x3x3x3xf32>
  %0 = dfg.conv %x, %f {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
      dist.place = #dist.place<@pair, by = "test", split = <{height = ["model"]}>>} : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x8x8xf32>
  dfg.return %0 : tensor<2x6x8x8xf32>
}
// CHECK-LABEL: dist.program @height.pair(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4x8xf32>
// CHECK: %[[H:.*]] = dist.halo_exchange %[[X]] from <[2, 3, 8 by ["model"], 8]> to <[2, 3, 8 by ["model"] reach (8 step 1 before 1 extent 3), 8]> fill 0.000000e+00 : tensor<2x3x4x8xf32> -> tensor<2x3x6x8xf32>
// CHECK: dfg.conv %[[H]]
// CHECK-SAME: pads = array<i64: 0, 1, 0, 1>
// CHECK-SAME: -> tensor<2x6x4x8xf32>
// CHECK: dist.return
