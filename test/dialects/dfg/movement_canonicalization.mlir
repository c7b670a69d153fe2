// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// What moves nothing goes: each of these is its operand.
// CHECK-LABEL: dfg.graph @nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[O:.*]]: tensor<1x3xf32>
// CHECK-NEXT: dfg.return %[[X]], %[[X]], %[[X]], %[[X]], %[[O]], %[[X]], %[[X]]
dfg.graph @nothing(%x: tensor<2x3xf32>, %o: tensor<1x3xf32>, %v: tensor<f32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>,
        tensor<2x3xf32>) {
  %0 = dfg.reshape %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = dfg.transpose %x {permutation = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = dfg.broadcast %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = dfg.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 3>, strides = array<i64: 1, 1>}
       : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = dfg.reverse %o {dims = array<i64: 0>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %5 = dfg.pad %x, %v {low = array<i64: 0, 0>, high = array<i64: 0, 0>}
       : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %6 = dfg.concat %x {dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  dfg.return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
      tensor<1x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// What moves something stays, though its type is its operand's.
// CHECK-LABEL: dfg.graph @something
// CHECK: dfg.transpose
// CHECK: dfg.reverse
dfg.graph @something(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = dfg.reverse %0 {dims = array<i64: 1>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  dfg.return %1 : tensor<3x3xf32>
}

// Two reshapes are one, or none.
// CHECK-LABEL: dfg.graph @reshapes
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = dfg.reshape %[[X]] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: dfg.return %[[Y]], %[[X]]
dfg.graph @reshapes(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = dfg.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = dfg.reshape %0 : (tensor<6xf32>) -> tensor<3x2xf32>
  %2 = dfg.reshape %0 : (tensor<6xf32>) -> tensor<2x3xf32>
  dfg.return %1, %2 : tensor<3x2xf32>, tensor<2x3xf32>
}

// Two transposes are one: dimension i of the result is dimension first[second[i]]; here first = (1, 2, 0), second =
// (2, 1, 0), so (0, 2, 1). A transpose and its inverse are none.
// CHECK-LABEL: dfg.graph @transposes
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: %[[Y:.*]] = dfg.transpose %[[X]] {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: dfg.return %[[Y]], %[[X]]
dfg.graph @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x4x3xf32>, tensor<2x3x4xf32>) {
  %0 = dfg.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 2, 1, 0>} : (tensor<3x4x2xf32>) -> tensor<2x4x3xf32>
  %2 = dfg.transpose %0 {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  dfg.return %1, %2 : tensor<2x4x3xf32>, tensor<2x3x4xf32>
}

// The shape arithmetic of exporters: known values move at compile time. Expected values by hand.
// CHECK-LABEL: dfg.graph @known
// CHECK-DAG: %[[S:.*]] = dfg.constant dense<[5, 3]> : tensor<2xi64>
// CHECK-DAG: %[[C:.*]] = dfg.constant dense<[2, 3, 5, 9]> : tensor<4xi64>
// CHECK-DAG: %[[G:.*]] = dfg.constant dense<[5, 2]> : tensor<2xi64>
// CHECK-DAG: %[[I:.*]] = dfg.constant dense<{{\[}}[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi64>
// CHECK-DAG: %[[T:.*]] = dfg.constant dense<{{\[}}[2, 0], [3, 0], [5, 0]]> : tensor<3x2xi64>
// CHECK: dfg.return %[[S]], %[[C]], %[[G]], %[[I]], %[[T]]
dfg.graph @known() -> (tensor<2xi64>, tensor<4xi64>, tensor<2xi64>, tensor<2x3xi64>, tensor<3x2xi64>) {
  %x = dfg.constant dense<[2, 3, 5]> : tensor<3xi64>
  %nine = dfg.constant dense<9> : tensor<1xi64>
  %zero = dfg.constant dense<0> : tensor<i64>
  %ids = dfg.constant dense<[-1, 0]> : tensor<2xi64>
  %0 = dfg.reverse %x {dims = array<i64: 0>} : (tensor<3xi64>) -> tensor<3xi64>
  %1 = dfg.slice %0 {starts = array<i64: 0>, limits = array<i64: 2>, strides = array<i64: 1>} : (tensor<3xi64>) -> tensor<2xi64>
  %2 = dfg.concat %x, %nine {dim = 0 : i64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<4xi64>
  %3 = dfg.gather %x, %ids {dim = 0 : i64} : (tensor<3xi64>, tensor<2xi64>) -> tensor<2xi64>
  %4 = dfg.iota {dim = 1 : i64} : () -> tensor<2x3xi64>
  %5 = dfg.reshape %x : (tensor<3xi64>) -> tensor<1x3xi64>
  %6 = dfg.pad %5, %zero {low = array<i64: 0, 0>, high = array<i64: 1, 0>} : (tensor<1x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %7 = dfg.transpose %6 {permutation = array<i64: 1, 0>} : (tensor<2x3xi64>) -> tensor<3x2xi64>
  dfg.return %1, %2, %3, %4, %7 : tensor<2xi64>, tensor<4xi64>, tensor<2xi64>, tensor<2x3xi64>, tensor<3x2xi64>
}

// Constants in the IR stay small: 1024 elements fold, 1025 do not.
// CHECK-LABEL: dfg.graph @large
// CHECK: dfg.broadcast %{{.*}} : (tensor<1xf32>) -> tensor<1025xf32>
// CHECK-NOT: -> tensor<1024xf32>
dfg.graph @large() -> (tensor<1024xf32>, tensor<1025xf32>) {
  %x = dfg.constant dense<2.0> : tensor<1xf32>
  %0 = dfg.broadcast %x : (tensor<1xf32>) -> tensor<1024xf32>
  %1 = dfg.broadcast %x : (tensor<1xf32>) -> tensor<1025xf32>
  dfg.return %0, %1 : tensor<1024xf32>, tensor<1025xf32>
}
