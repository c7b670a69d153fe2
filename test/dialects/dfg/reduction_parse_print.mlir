// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Reductions of all kinds, kept or dropped dimensions.
// CHECK-LABEL: dfg.graph @reduce
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<product>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<max>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<min>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>} : (tensor<4x8xf32>) -> tensor<f32>
// CHECK: dfg.reduce %{{.*}} {dims = array<i64: 0>, kind = #dfg.reduce_kind<max>} : (tensor<4xi1>) -> tensor<i1>
// CHECK: dfg.arg_reduce %{{.*}} {dim = 1 : i64, keep_dims, kind = #dfg.arg_kind<max>} : (tensor<4x8xf32>) -> tensor<4x1xi64>
// CHECK: dfg.arg_reduce %{{.*}} {dim = 0 : i64, kind = #dfg.arg_kind<min>, last} : (tensor<4x8xf32>) -> tensor<8xi64>
dfg.graph @reduce(%x: tensor<4x8xf32>, %p: tensor<4xi1>) {
  %0 = dfg.reduce %x {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %1 = dfg.reduce %x {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<product>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %2 = dfg.reduce %x {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<max>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %3 = dfg.reduce %x {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<min>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %4 = dfg.reduce %x {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>} : (tensor<4x8xf32>) -> tensor<f32>
  %5 = dfg.reduce %p {dims = array<i64: 0>, kind = #dfg.reduce_kind<max>} : (tensor<4xi1>) -> tensor<i1>
  %6 = dfg.arg_reduce %x {dim = 1 : i64, keep_dims, kind = #dfg.arg_kind<max>} : (tensor<4x8xf32>) -> tensor<4x1xi64>
  %7 = dfg.arg_reduce %x {dim = 0 : i64, kind = #dfg.arg_kind<min>, last} : (tensor<4x8xf32>) -> tensor<8xi64>
  dfg.return
}

// Normalizations.
// CHECK-LABEL: dfg.graph @normalize
// CHECK: dfg.softmax %{{.*}} {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: dfg.log_softmax %{{.*}} {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: dfg.layer_norm %{{.*}} {dims = array<i64: 2>, epsilon = {{1.0+e-05}} : f64} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
// CHECK: dfg.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {epsilon = {{1.0+e-05}} : f64} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
// CHECK: dfg.lrn %{{.*}} {alpha = {{1.0+e-04}} : f64, beta = 7.500000e-01 : f64, k = 1.000000e+00 : f64, size = 5 : i64} : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
dfg.graph @normalize(%x: tensor<4x8xf32>, %y: tensor<4x8x16xf32>, %z: tensor<1x8x4x4xf32>, %c: tensor<8xf32>) {
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dfg.log_softmax %x {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = dfg.layer_norm %y {dims = array<i64: 2>, epsilon = 1.0e-5 : f64} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %3 = dfg.batch_norm %z, %c, %c, %c, %c {epsilon = 1.0e-5 : f64} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  %4 = dfg.lrn %z {alpha = 1.0e-4 : f64, beta = 0.75 : f64, k = 1.0 : f64, size = 5 : i64} : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  dfg.return
}
