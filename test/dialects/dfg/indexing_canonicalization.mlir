// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// Positions from the end count from the start, positions outside move to the edge when reading, and are dropped when
// writing; the last update of an element counts.
// CHECK-LABEL: dfg.graph @elements
// CHECK-DAG: dense<{{\[}}{{\[}}13, 11, 13], [23, 21, 23]]>
// CHECK-DAG: dense<{{\[}}{{\[}}11, 3, 13], [21, 3, 23]]>
// CHECK-DAG: dense<{{\[}}{{\[}}11, 15, 13], [21, 25, 23]]>
dfg.graph @elements() -> (tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>) {
  %x = dfg.constant dense<[[11, 12, 13], [21, 22, 23]]> : tensor<2x3xi32>
  %i = dfg.constant dense<[[-1, 0, 7]]> : tensor<1x3xi64>
  %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<2x3xi32>, tensor<1x3xi64>) -> tensor<2x3xi32>
  %j = dfg.constant dense<[[1, -2, 3]]> : tensor<1x3xi64>
  %u = dfg.constant dense<[[1, 3, 5], [1, 3, 5]]> : tensor<2x3xi32>
  %v = dfg.constant dense<[[1, 2, 9], [1, 2, 9]]> : tensor<2x3xi32>
  %1 = dfg.scatter_elements %x, %j, %u {dim = 1 : i64}
       : (tensor<2x3xi32>, tensor<1x3xi64>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = dfg.scatter_elements %x, %j, %v {dim = 1 : i64, reduction = #dfg.reduce_kind<sum>}
       : (tensor<2x3xi32>, tensor<1x3xi64>, tensor<2x3xi32>) -> tensor<2x3xi32>
  dfg.return %0, %1, %2 : tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>
}

// Sums and orders along a line; equal elements stay in their order.
// CHECK-LABEL: dfg.graph @lines
// CHECK-DAG: dense<[5, 7, 12, 14]>
// CHECK-DAG: dense<[0, 5, 7, 12]>
// CHECK-DAG: dense<[1, 3, 0, 2]>
// CHECK-DAG: dense<[0, 2, 1, 3]>
dfg.graph @lines() -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi64>, tensor<4xi64>) {
  %x = dfg.constant dense<[5, 2, 5, 2]> : tensor<4xi32>
  %0 = dfg.cumulative_sum %x {dim = 0 : i64} : (tensor<4xi32>) -> tensor<4xi32>
  %1 = dfg.cumulative_sum %x {dim = 0 : i64, exclusive} : (tensor<4xi32>) -> tensor<4xi32>
  %2 = dfg.arg_sort %x {dim = 0 : i64} : (tensor<4xi32>) -> tensor<4xi64>
  %3 = dfg.arg_sort %x {dim = 0 : i64, descending} : (tensor<4xi32>) -> tensor<4xi64>
  dfg.return %0, %1, %2, %3 : tensor<4xi32>, tensor<4xi32>, tensor<4xi64>, tensor<4xi64>
}
