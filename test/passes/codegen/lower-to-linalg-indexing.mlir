// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg --split-input-file | FileCheck %s

// Positions that all lines share are read where their only line is.
// CHECK: affine_map<(d0, d1) -> (0, d1)>
// CHECK-LABEL: dfg.graph @gather_elements
// CHECK: arith.select
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: linalg.index 0
// CHECK: tensor.extract
dfg.graph @gather_elements(%x: tensor<4x9xf32>, %i: tensor<1x3xi32>) -> tensor<4x3xf32> {
  %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x9xf32>, tensor<1x3xi32>) -> tensor<4x3xf32>
  dfg.return %0 : tensor<4x3xf32>
}

// -----

// One position needs no sorting: its element's updates are searched and joined.
// CHECK-LABEL: dfg.graph @scatter_elements
// CHECK-NOT: arith.remui
// CHECK: linalg.generic
// CHECK: scf.for
// CHECK: linalg.generic
// CHECK: scf.for
// CHECK: arith.addf
dfg.graph @scatter_elements(%x: tensor<9x8xf32>, %i: tensor<1x1xi64>, %u: tensor<1x8xf32>) -> tensor<9x8xf32> {
  %0 = dfg.scatter_elements %x, %i, %u {dim = 0 : i64, reduction = #dfg.reduce_kind<sum>}
       : (tensor<9x8xf32>, tensor<1x1xi64>, tensor<1x8xf32>) -> tensor<9x8xf32>
  dfg.return %0 : tensor<9x8xf32>
}

// -----

// The sum so far is handed on along the line; the exclusive result is what it was before.
// CHECK-LABEL: dfg.graph @cumulative_sum
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: ^bb0(%[[X:.*]]: f32, %[[SUM:.*]]: f32, %{{.*}}: f32)
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]], %[[X]]
// CHECK: linalg.yield %[[NEXT]], %[[SUM]]
dfg.graph @cumulative_sum(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {
  %0 = dfg.cumulative_sum %x {dim = 1 : i64, exclusive} : (tensor<4x9xf32>) -> tensor<4x9xf32>
  dfg.return %0 : tensor<4x9xf32>
}

// -----

// Five elements are merged in runs of one, two and four.
// CHECK-LABEL: dfg.graph @arg_sort
// CHECK-COUNT-3: arith.remui
// CHECK-NOT: arith.remui
dfg.graph @arg_sort(%x: tensor<5xi32>) -> tensor<5xi64> {
  %0 = dfg.arg_sort %x {dim = 0 : i64} : (tensor<5xi32>) -> tensor<5xi64>
  dfg.return %0 : tensor<5xi64>
}
