// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-place-homes="optimizer=momentum" | FileCheck %s --check-prefixes=CHECK,ALONE
// RUN: cleave-opt %s --train-place-homes="optimizer=momentum zero=1" | FileCheck %s --check-prefixes=CHECK,STATE
// RUN: cleave-opt %s --train-place-homes="optimizer=momentum zero=2" | FileCheck %s --check-prefixes=CHECK,STATE
// RUN: cleave-opt %s --train-place-homes="optimizer=momentum zero=3" | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: cleave-opt %s --train-place-homes --mlir-print-local-scope | FileCheck %s --check-prefix=PLAIN --implicit-check-not=state
// RUN: not cleave-opt %s --train-place-homes="optimizer=other" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: the optimizer expects sgd, {{.*}}, got "other"

dist.mesh @grid <["data" = 2, "model" = 2], devices = [0, 1, 2, 3]>
dist.mesh @uneven <["data" = [2, 1, 1]], devices = [4, 5, 6]>
dfg.parameter @w : tensor<4x8xf32> = #dfg.fill<value = 1.0>
dfg.parameter @table : tensor<4xi64> = #dfg.fill<value = 1.0>
dfg.parameter @odd : tensor<3x3xf32> = #dfg.fill<value = 1.0>
dfg.parameter @unread : tensor<4xf32> = #dfg.fill<value = 1.0>

// The first user cuts the columns of @w by "model", whatever the second one does. Replicas along "data" share, by ZeRO,
// the state, and from 3 on the parameter: its first dimension, as that divides.
// CHECK: dfg.parameter state @"w/momentum" : tensor<4x8xf32> = #dfg.fill<value = 0.000000e+00 : f64>
// CHECK-NOT: state @"table/momentum"
// CHECK: dfg.graph @main
// ALONE: dfg.read @w {dist.place = #dist.place<@grid, by = "home", split = <{d1 = ["model"]}>>}
// STATE: dfg.read @w {dist.place = #dist.place<@grid, by = "home", split = <{d1 = ["model"]}>>}
// BOTH: dfg.read @w {dist.place = #dist.place<@grid, by = "home", split = <{d0 = ["data"], d1 = ["model"]}>>}
// ALONE: dfg.read @"w/momentum" {dist.place = #dist.place<@grid, by = "optimizer", split = <{d1 = ["model"]}>>}
// STATE: dfg.read @"w/momentum" {dist.place = #dist.place<@grid, by = "optimizer", split = <{d0 = ["data"], d1 = ["model"]}>>}
// BOTH: dfg.read @"w/momentum" {dist.place = #dist.place<@grid, by = "optimizer", split = <{d0 = ["data"], d1 = ["model"]}>>}
// Integers are not trained: no state, and no replica shares them.
// CHECK: dfg.read @table {dist.place = #dist.place<@grid, by = "home">}
// An axis with shares cuts @odd: no equal parts can be said.
// CHECK: dfg.read @odd : tensor<3x3xf32>
// Nobody computes with it.
// CHECK: dfg.read @unread : tensor<4xf32>
// Plain gradient descent has no state.
// PLAIN: dfg.read @w {dist.place
dfg.graph @main(%x: tensor<2x4xf32>, %i: tensor<4xi64>, %o: tensor<3x3xf32>) -> (tensor<2x8xf32>, tensor<4xi64>, tensor<3x3xf32>, tensor<4xf32>, tensor<4x8xf32>) {
  %w = dfg.read @w : tensor<4x8xf32>
  %table = dfg.read @table : tensor<4xi64>
  %odd = dfg.read @odd : tensor<3x3xf32>
  %unread = dfg.read @unread : tensor<4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@grid, by = "test", split = <{m = ["data"], n = ["model"]}>>}
      : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %1 = dfg.add %i, %table {dist.place = #dist.place<@grid, by = "test">} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %2 = dfg.mul %o, %odd {dist.place = #dist.place<@uneven, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = dfg.relu %w {dist.place = #dist.place<@grid, by = "test", split = <{d0 = ["model"]}>>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %0, %1, %2, %unread, %3 : tensor<2x8xf32>, tensor<4xi64>, tensor<3x3xf32>, tensor<4xf32>, tensor<4x8xf32>
}
