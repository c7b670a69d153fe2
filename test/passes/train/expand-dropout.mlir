// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-expand-dropout --split-input-file | FileCheck %s

// The elements' numbers begin behind those of the samples seen before: three a sample. Kept elements are doubled.
// CHECK: dfg.parameter state @"drop/dropout" : tensor<i64> = #dfg.fill<value = 0.000000e+00 : f64>
// CHECK: dfg.graph @main(%[[X:.*]]: tensor<2x3xf32>)
// CHECK: %[[SEEN:.*]] = dfg.read @"drop/dropout"
// CHECK: %[[THREE:.*]] = dfg.constant dense<3> : tensor<i64>
// CHECK: %[[START:.*]] = dfg.mul %[[SEEN]], %[[THREE]]
// CHECK: dfg.iota {dim = 1 : i64} : () -> tensor<1x3xi64>
// CHECK: dfg.iota {dim = 0 : i64} : () -> tensor<2x1xi64>
// CHECK: %[[COUNTERS:.*]] = dfg.add %{{.*}}, %[[START]] : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
// CHECK: %[[KEY:.*]] = dfg.constant dense<[[NUMBER:[0-9]+]]> : tensor<i64>
// CHECK: %[[RANDOM:.*]] = dfg.random %[[COUNTERS]], %[[KEY]]
// CHECK: %[[HALF:.*]] = dfg.constant dense<5.000000e-01> : tensor<f32>
// CHECK: %[[KEPT:.*]] = dfg.compare %[[RANDOM]], %[[HALF]] {comparison = #dfg.comparison<greater_or_equal>}
// CHECK: %[[NEXT:.*]] = dfg.add %[[SEEN]],
// CHECK: dfg.write @"drop/dropout", %[[NEXT]]
// CHECK: %[[SCALED:.*]] = dfg.mul %[[X]],
// CHECK: dfg.select %[[KEPT]], %[[SCALED]],
dfg.graph @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = dfg.dropout %x {ratio = 0.5 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("drop"("Dropout"))
  dfg.return %0 : tensor<2x3xf32>
}

// -----

// Two operators of one node count for themselves; one that drops nothing goes.
// CHECK: dfg.parameter state @"drop/dropout_0"
// CHECK: dfg.parameter state @"drop/dropout"
// CHECK-NOT: dfg.dropout
dfg.graph @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %0 = dfg.dropout %x {ratio = 0.5 : f64} : (tensor<2xbf16>) -> tensor<2xbf16> loc("drop"("Dropout"))
  %1 = dfg.dropout %0 {ratio = 1.0 : f64} : (tensor<2xbf16>) -> tensor<2xbf16> loc("drop"("Dropout"))
  %2 = dfg.dropout %1 {ratio = 0.0 : f64} : (tensor<2xbf16>) -> tensor<2xbf16> loc("drop"("Dropout"))
  dfg.return %2 : tensor<2xbf16>
}
