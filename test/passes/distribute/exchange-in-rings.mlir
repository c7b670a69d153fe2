// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and values of attention go around in a ring where queries are cut along positions.
//
// RUN: cleave-opt %s --dist-insert-transfers --dist-exchange-in-rings=keys=ring | FileCheck %s
// RUN: cleave-opt %s --dist-insert-transfers --dist-exchange-in-rings=keys=gather | FileCheck %s --check-prefix=GATHER
// GATHER-NOT: dist.permute

dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.mesh @three <["x" = 3], devices = [0, 1, 2]>
dist.mesh @grid <["y" = 2, "x" = 2], devices = [0, 1, 2, 3]>

// A device begins with its own keys and values. The neighbour's are on their way meanwhile; both results are joined by
// their largest scores. Positions of keys begin where the chunk does, and what is there of all keys is sliced.
// CHECK-LABEL: dist.program @causal.pair
// CHECK-NOT: all_gather
// CHECK-DAG: %[[K:.*]] = dfg.neg %arg1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-DAG: %[[V:.*]] = dfg.abs %arg1
// CHECK: %[[K1:.*]] = dist.permute %[[K]] from <[8 by ["x"], 8]> to <[8 by ["x"] shift [1], 8]> : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: %[[V1:.*]] = dist.permute %[[V]] from <[8 by ["x"], 8]> to <[8 by ["x"] shift [1], 8]>
// CHECK: dist.start <[8 by ["x"]]>
// CHECK: dfg.dot_general %{{.*}}, %[[K]] {
// CHECK: %[[BIAS:.*]] = dist.slice %{{.*}} from <[4, 8]> to <[4, 8 by ["x"]]> : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK: dfg.add %{{.*}}, %[[BIAS]]
// CHECK: %[[E0:.*]] = dfg.exp
// CHECK: dfg.dot_general %[[E0]], %[[V]]
// CHECK: dist.start <[8 by ["x"] shift [1]]>
// CHECK: dfg.dot_general %{{.*}}, %[[K1]] {
// CHECK: dist.slice %{{.*}} from <[4, 8]> to <[4, 8 by ["x"] shift [1]]>
// CHECK: dfg.dot_general %{{.*}}, %[[V1]]
// CHECK: %[[O:.*]] = dfg.div
// CHECK: dist.return %[[O]]
// GATHER-LABEL: dist.program @causal.pair
// GATHER-COUNT-2: dist.all_gather
dfg.graph @causal(%q: tensor<8x8xf32>, %k: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %none = dfg.constant dense<0xFF800000> : tensor<f32>
  %0 = dfg.neg %k {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = dfg.abs %k {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@pair, by = "t", split = <{m = ["x"]}>>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = dfg.iota {dim = 0 : i64, dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : () -> tensor<8x8xi64>
  %4 = dfg.iota {dim = 1 : i64, dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : () -> tensor<8x8xi64>
  %5 = dfg.compare %3, %4 {comparison = #dfg.comparison<greater_or_equal>, dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xi64>, tensor<8x8xi64>) -> tensor<8x8xi1>
  %6 = dfg.select %5, %2, %none {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %7 = dfg.add %6, %b {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %8 = dfg.softmax %7 {dim = 1 : i64, dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %9 = dfg.dot_general %8, %1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "t", split = <{m = ["x"]}>>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  dfg.return %9 : tensor<8x8xf32>
}

// Scores of 16 bits are joined in f32; products read what they did. What results are divided by is the sum of weights as
// the product reads them.
// CHECK-LABEL: dist.program @narrow.pair
// CHECK-NOT: all_gather
// CHECK: dist.permute %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xbf16>
// CHECK: %[[S:.*]] = dfg.dot_general {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[WIDE:.*]] = dfg.cast %[[S]] {to = f32}
// CHECK: dfg.reduce %[[WIDE]]
// CHECK: %[[E:.*]] = dfg.exp {{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[W:.*]] = dfg.cast %[[E]] {to = bf16}
// CHECK: %[[AGAIN:.*]] = dfg.cast %[[W]] {to = f32}
// CHECK: dfg.reduce %[[AGAIN]]
// CHECK: %[[O:.*]] = dfg.dot_general %[[W]], {{.*}} -> tensor<4x8xbf16>
// CHECK: dfg.cast %[[O]] {to = f32}
// CHECK: %[[R:.*]] = dfg.div {{.*}} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK: %[[OUT:.*]] = dfg.cast %[[R]] {to = bf16}
// CHECK: dist.return %[[OUT]]
dfg.graph @narrow(%q: tensor<8x8xbf16>, %k: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %0 = dfg.neg %k {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %1 = dfg.abs %k {dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@pair, by = "t", split = <{m = ["x"]}>>} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %3 = dfg.softmax %2 {dim = 1 : i64, dist.place = #dist.place<@pair, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %4 = dfg.dot_general %3, %1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "t", split = <{m = ["x"]}>>} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  dfg.return %4 : tensor<8x8xbf16>
}

// Devices with unequal numbers of keys gather them.
// CHECK-LABEL: dist.program @unequal.three
// CHECK-NOT: dist.permute
// CHECK-COUNT-2: dist.all_gather
// CHECK-NOT: dist.permute
dfg.graph @unequal(%q: tensor<6x8xf32>, %k: tensor<8x8xf32>) -> tensor<6x8xf32> {
  %0 = dfg.neg %k {dist.place = #dist.place<@three, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = dfg.abs %k {dist.place = #dist.place<@three, by = "t", split = <{d0 = ["x"]}>>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@three, by = "t", split = <{m = ["x"]}>>} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %3 = dfg.softmax %2 {dim = 1 : i64, dist.place = #dist.place<@three, by = "t", split = <{d0 = ["x"]}>>} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %4 = dfg.dot_general %3, %1 {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>, dist.place = #dist.place<@three, by = "t", split = <{m = ["x"]}>>} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  dfg.return %4 : tensor<6x8xf32>
}

// Two axes are one ring: the second one turns with each step, the first one when that has been all around. Four heads
// share two heads' keys.
// CHECK-LABEL: dist.program @grouped.grid
// CHECK: %[[K:.*]] = dfg.neg
// CHECK: %[[K1:.*]] = dist.permute %[[K]] from <[2, 8 by ["y", "x"], 8]> to <[2, 8 by ["y", "x"] shift [0, 1], 8]> : tensor<2x2x8xf32> -> tensor<2x2x8xf32>
// CHECK: %[[K2:.*]] = dist.permute %[[K1]] from <[2, 8 by ["y", "x"] shift [0, 1], 8]> to <[2, 8 by ["y", "x"] shift [1, 0], 8]>
// CHECK: dist.permute %[[K2]] from <[2, 8 by ["y", "x"] shift [1, 0], 8]> to <[2, 8 by ["y", "x"] shift [1, 1], 8]>
// CHECK-NOT: dist.all_gather
dfg.graph @grouped(%q: tensor<2x2x8x8xf32>, %k: tensor<2x8x8xf32>) -> tensor<2x2x8x8xf32> {
  %0 = dfg.neg %k {dist.place = #dist.place<@grid, by = "t", split = <{d1 = ["y", "x"]}>>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %1 = dfg.abs %k {dist.place = #dist.place<@grid, by = "t", split = <{d1 = ["y", "x"]}>>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %2 = dfg.dot_general %q, %0 {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>, dist.place = #dist.place<@grid, by = "t", split = <{m1 = ["y", "x"]}>>} : (tensor<2x2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x2x8x8xf32>
  %3 = dfg.softmax %2 {dim = 3 : i64, dist.place = #dist.place<@grid, by = "t", split = <{d2 = ["y", "x"]}>>} : (tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
  %4 = dfg.dot_general %3, %1 {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>, dist.place = #dist.place<@grid, by = "t", split = <{m1 = ["y", "x"]}>>} : (tensor<2x2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x2x8x8xf32>
  dfg.return %4 : tensor<2x2x8x8xf32>
}
