// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Reads and writes at given positions; positions of size one are shared by all lines.
// CHECK-LABEL: dfg.graph @elements
// CHECK: dfg.gather_elements %{{.*}}, %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
// CHECK: dfg.gather_elements %{{.*}}, %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>, tensor<1x3xi32>) -> tensor<4x3xf32>
// CHECK: dfg.scatter_elements %{{.*}}, %{{.*}}, %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
// CHECK: dfg.scatter_elements %{{.*}}, %{{.*}}, %{{.*}} {dim = 1 : i64, reduction = #dfg.reduce_kind<sum>} : (tensor<4x9xf32>, tensor<1x3xi32>, tensor<4x3xf32>) -> tensor<4x9xf32>
dfg.graph @elements(%x: tensor<4x9xf32>, %i: tensor<4x2xi64>, %s: tensor<1x3xi32>) {
  %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  %1 = dfg.gather_elements %x, %s {dim = 1 : i64} : (tensor<4x9xf32>, tensor<1x3xi32>) -> tensor<4x3xf32>
  %2 = dfg.scatter_elements %x, %i, %0 {dim = 1 : i64}
       : (tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  %3 = dfg.scatter_elements %x, %s, %1 {dim = 1 : i64, reduction = #dfg.reduce_kind<sum>}
       : (tensor<4x9xf32>, tensor<1x3xi32>, tensor<4x3xf32>) -> tensor<4x9xf32>
  dfg.return
}

// Orders and sums along a dimension.
// CHECK-LABEL: dfg.graph @lines
// CHECK: dfg.cumulative_sum %{{.*}} {dim = 0 : i64} : (tensor<4x9xf32>) -> tensor<4x9xf32>
// CHECK: dfg.cumulative_sum %{{.*}} {dim = 0 : i64, exclusive} : (tensor<4x9xf32>) -> tensor<4x9xf32>
// CHECK: dfg.arg_sort %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>) -> tensor<4x9xi64>
// CHECK: dfg.arg_sort %{{.*}} {descending, dim = 1 : i64} : (tensor<4x9xf32>) -> tensor<4x9xi64>
dfg.graph @lines(%x: tensor<4x9xf32>) {
  %0 = dfg.cumulative_sum %x {dim = 0 : i64} : (tensor<4x9xf32>) -> tensor<4x9xf32>
  %1 = dfg.cumulative_sum %x {dim = 0 : i64, exclusive} : (tensor<4x9xf32>) -> tensor<4x9xf32>
  %2 = dfg.arg_sort %x {dim = 1 : i64} : (tensor<4x9xf32>) -> tensor<4x9xi64>
  %3 = dfg.arg_sort %x {dim = 1 : i64, descending} : (tensor<4x9xf32>) -> tensor<4x9xi64>
  dfg.return
}
