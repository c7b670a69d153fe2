// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// REQUIRES: cleave-opt
// RUN: cleave-opt %s --canonicalize --split-input-file | FileCheck %s

// Movements that move nothing go; what remains of two is one.
// CHECK-LABEL: dfg.graph @identities
// CHECK-NEXT: %[[R:.*]] = dfg.reshape %arg0 : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: dfg.return %arg0, %[[R]], %arg0, %arg0, %arg0, %arg0
dfg.graph @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = dfg.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = dfg.reshape %0 : (tensor<6xf32>) -> tensor<2x3xf32>
  %2 = dfg.reshape %0 : (tensor<6xf32>) -> tensor<3x2xf32>
  %3 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %4 = dfg.transpose %3 {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %5 = dfg.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = dfg.cast %x {to = f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = dfg.broadcast %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  dfg.return %1, %2, %4, %5, %6, %7 : tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Small constants fold by evaluation, with the dialect's integer division: towards zero, and by zero to 0.
// CHECK-LABEL: dfg.graph @constants
// CHECK: dfg.constant dense<[-3, 0]> : tensor<2xi32>
dfg.graph @constants() -> (tensor<2xi32>) {
  %0 = dfg.constant dense<[-7, 7]> : tensor<2xi32>
  %1 = dfg.constant dense<[2, 0]> : tensor<2xi32>
  %2 = dfg.div %0, %1 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  dfg.return %2 : tensor<2xi32>
}

// -----

// Large results stay operators, so that the IR stays small.
// CHECK-LABEL: dfg.graph @large
// CHECK: dfg.broadcast
dfg.graph @large() -> (tensor<100x100xf32>) {
  %0 = dfg.constant dense<1.0> : tensor<f32>
  %1 = dfg.broadcast %0 : (tensor<f32>) -> tensor<100x100xf32>
  dfg.return %1 : tensor<100x100xf32>
}

// -----

// 16-bit elements are computed in float and rounded once: 2049 is no half, its even neighbour is 2048.
// CHECK-LABEL: dfg.graph @half
// CHECK: dfg.constant dense<2.048000e+03> : tensor<f16>
// CHECK: dfg.constant dense<6.550400e+04> : tensor<f16>
// CHECK: dfg.constant dense<0x7C00> : tensor<f16>
// CHECK: dfg.constant dense<1.000000e+00> : tensor<bf16>
dfg.graph @half() -> (tensor<f16>, tensor<f16>, tensor<f16>, tensor<bf16>) {
  %0 = dfg.constant dense<2048.0> : tensor<f16>
  %1 = dfg.constant dense<1.0> : tensor<f16>
  %2 = dfg.add %0, %1 : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %3 = dfg.constant dense<65519.0> : tensor<f64>
  %4 = dfg.cast %3 {to = f16} : (tensor<f64>) -> tensor<f16>
  %5 = dfg.constant dense<65520.0> : tensor<f64>
  %6 = dfg.cast %5 {to = f16} : (tensor<f64>) -> tensor<f16>
  %7 = dfg.constant dense<1.00390625> : tensor<f32>
  %8 = dfg.cast %7 {to = bf16} : (tensor<f32>) -> tensor<bf16>
  dfg.return %2, %4, %6, %8 : tensor<f16>, tensor<f16>, tensor<f16>, tensor<bf16>
}
