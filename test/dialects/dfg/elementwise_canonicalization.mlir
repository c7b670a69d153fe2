// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// A conversion to the same type is none; one to another stays.
// CHECK-LABEL: dfg.graph @cast
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = dfg.cast %[[X]] {to = f64}
// CHECK-NEXT: dfg.return %[[X]], %[[Y]]
dfg.graph @cast(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf64>) {
  %0 = dfg.cast %x {to = f32} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.cast %x {to = f64} : (tensor<4xf32>) -> tensor<4xf64>
  dfg.return %0, %1 : tensor<4xf32>, tensor<4xf64>
}

// Known values fold, broadcast and all: (1, 2) + (10; 20) = (11, 12; 21, 22), and so on. Expected values by hand.
// CHECK-LABEL: dfg.graph @known
// CHECK-DAG: %[[S:.*]] = dfg.constant dense<{{\[}}[11, 12], [21, 22]]> : tensor<2x2xi64>
// CHECK-DAG: %[[D:.*]] = dfg.constant dense<[-3, 0]> : tensor<2xi64>
// CHECK-DAG: %[[M:.*]] = dfg.constant dense<[1, 0]> : tensor<2xi64>
// CHECK-DAG: %[[P:.*]] = dfg.constant dense<[true, false]> : tensor<2xi1>
// CHECK-DAG: %[[C:.*]] = dfg.constant dense<[2, -2]> : tensor<2xi32>
// CHECK-DAG: %[[F:.*]] = dfg.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: dfg.return %[[S]], %[[D]], %[[M]], %[[P]], %[[C]], %[[F]]
dfg.graph @known() -> (tensor<2x2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi1>, tensor<2xi32>, tensor<2xf32>) {
  %a = dfg.constant dense<[1, 2]> : tensor<2xi64>
  %b = dfg.constant dense<[[10], [20]]> : tensor<2x1xi64>
  %c = dfg.constant dense<[-7, 5]> : tensor<2xi64>
  %d = dfg.constant dense<[2, 0]> : tensor<2xi64>
  %f = dfg.constant dense<[2.9, -2.9]> : tensor<2xf32>
  %g = dfg.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %0 = dfg.add %a, %b : (tensor<2xi64>, tensor<2x1xi64>) -> tensor<2x2xi64>
  // Towards zero; by zero gives 0.
  %1 = dfg.div %c, %d : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  // With the divisor's sign; by zero gives 0.
  %2 = dfg.mod %c, %d : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %3 = dfg.compare %c, %d {comparison = #dfg.comparison<less>} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
  // Towards zero.
  %4 = dfg.cast %f {to = i32} : (tensor<2xf32>) -> tensor<2xi32>
  %5 = dfg.reciprocal %g : (tensor<2xf32>) -> tensor<2xf32>
  dfg.return %0, %1, %2, %3, %4, %5 : tensor<2x2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi1>, tensor<2xi32>, tensor<2xf32>
}

// What is not known stays, in the order that commutation prefers: constants last.
// CHECK-LABEL: dfg.graph @unknown
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>)
// CHECK: %[[C:.*]] = dfg.constant
// CHECK: dfg.add %[[X]], %[[C]]
dfg.graph @unknown(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = dfg.constant dense<1.0> : tensor<2xf32>
  %0 = dfg.add %c, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  dfg.return %0 : tensor<2xf32>
}

// What an operator would repeat itself is not repeated before, unless it is what gives the result its shape.
// CHECK-LABEL: dfg.graph @repeats
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[Y:.*]]: tensor<3x1xf32>
// CHECK: %[[KEPT:.*]] = dfg.broadcast %[[Y]] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[SUM:.*]] = dfg.add %[[X]], %[[Y]] : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[PRODUCT:.*]] = dfg.mul %[[Y]], %[[KEPT]] : (tensor<3x1xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[NEGATIVE:.*]] = dfg.neg %[[KEPT]] : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK: dfg.return %[[SUM]], %[[PRODUCT]], %[[NEGATIVE]]
dfg.graph @repeats(%x: tensor<2x3x4xf32>, %y: tensor<3x1xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %0 = dfg.broadcast %y : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %1 = dfg.add %x, %0 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %2 = dfg.mul %0, %0 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %3 = dfg.neg %0 : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  dfg.return %1, %2, %3 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
