// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// A reduction over no dimension is its operand.
// CHECK-LABEL: dfg.graph @nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: dfg.return %[[X]]
dfg.graph @nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  dfg.return %0 : tensor<2x3xf32>
}

// Known values are reduced: the sizes' product, the largest in each row, nothing at all. Expected values by hand.
// CHECK-LABEL: dfg.graph @known
// CHECK-DAG: %[[P:.*]] = dfg.constant dense<30> : tensor<i64>
// CHECK-DAG: %[[M:.*]] = dfg.constant dense<{{\[}}[7], [9]]> : tensor<2x1xi64>
// CHECK-DAG: %[[Z:.*]] = dfg.constant dense<0> : tensor<2xi64>
// CHECK: dfg.return %[[P]], %[[M]], %[[Z]]
dfg.graph @known() -> (tensor<i64>, tensor<2x1xi64>, tensor<2xi64>) {
  %x = dfg.constant dense<[2, 3, 5]> : tensor<3xi64>
  %y = dfg.constant dense<[[1, 7], [9, -9]]> : tensor<2x2xi64>
  %z = dfg.constant dense<> : tensor<2x0xi64>
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<product>, dims = array<i64: 0>} : (tensor<3xi64>) -> tensor<i64>
  %1 = dfg.reduce %y {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims} : (tensor<2x2xi64>) -> tensor<2x1xi64>
  %2 = dfg.reduce %z {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x0xi64>) -> tensor<2xi64>
  dfg.return %0, %1, %2 : tensor<i64>, tensor<2x1xi64>, tensor<2xi64>
}
