// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Shapes: the same elements, repeated elements, permuted dimensions.
// CHECK-LABEL: dfg.graph @shapes
// CHECK: dfg.reshape %{{.*}} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
// CHECK: dfg.reshape %{{.*}} : (tensor<0x3xi1>) -> tensor<5x0xi1>
// CHECK: dfg.reshape %{{.*}} : (tensor<i64>) -> tensor<1x1xi64>
// CHECK: dfg.broadcast %{{.*}} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: dfg.transpose %{{.*}} {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK: dfg.transpose %{{.*}} {permutation = array<i64>} : (tensor<i64>) -> tensor<i64>
dfg.graph @shapes(%x: tensor<2x3x4xf32>, %y: tensor<3x1xf32>, %e: tensor<0x3xi1>, %s: tensor<i64>) {
  %0 = dfg.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = dfg.reshape %e : (tensor<0x3xi1>) -> tensor<5x0xi1>
  %2 = dfg.reshape %s : (tensor<i64>) -> tensor<1x1xi64>
  %3 = dfg.broadcast %y : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %4 = dfg.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %5 = dfg.transpose %s {permutation = array<i64>} : (tensor<i64>) -> tensor<i64>
  dfg.return
}

// Parts of tensors, and tensors of parts.
// CHECK-LABEL: dfg.graph @parts
// CHECK: dfg.concat %{{.*}}, %{{.*}} {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
// CHECK: dfg.slice %{{.*}} {limits = array<i64: 2, 4>, starts = array<i64: 0, 1>, strides = array<i64: 1, 2>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
// CHECK: dfg.slice %{{.*}} {limits = array<i64: 1, 4>, starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<0x4xf32>
// CHECK: dfg.reverse %{{.*}} {dims = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: dfg.pad %{{.*}}, %{{.*}} {high = array<i64: 0, 2>, low = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
// CHECK: dfg.gather %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<1000x64xf32>, tensor<2x8xi64>) -> tensor<2x8x64xf32>
// CHECK: dfg.iota {dim = 1 : i64} : () -> tensor<2x3xi64>
dfg.graph @parts(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>, %zero: tensor<f32>, %table: tensor<1000x64xf32>, %ids: tensor<2x8xi64>) {
  %0 = dfg.concat %a, %b {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %1 = dfg.slice %b {limits = array<i64: 2, 4>, starts = array<i64: 0, 1>, strides = array<i64: 1, 2>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %2 = dfg.slice %b {limits = array<i64: 1, 4>, starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<0x4xf32>
  %3 = dfg.reverse %a {dims = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = dfg.pad %a, %zero {high = array<i64: 0, 2>, low = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
  %5 = dfg.gather %table, %ids {dim = 0 : i64} : (tensor<1000x64xf32>, tensor<2x8xi64>) -> tensor<2x8x64xf32>
  %6 = dfg.iota {dim = 1 : i64} : () -> tensor<2x3xi64>
  dfg.return
}
