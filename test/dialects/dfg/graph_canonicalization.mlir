// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>

// Equal reads and constants are one; what nobody uses goes, also what nobody knows, and fusions with their regions.
// CHECK-LABEL: dfg.graph @leaves
// CHECK-NEXT: %[[C:.*]] = dfg.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT: %[[W:.*]] = dfg.read @w
// CHECK-NEXT: dfg.return %[[W]], %[[W]], %[[C]], %[[C]]
dfg.graph @leaves(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = dfg.read @w : tensor<4xf32>
  %1 = dfg.read @w : tensor<4xf32>
  %2 = dfg.constant dense<1.0> : tensor<4xf32>
  %3 = dfg.constant dense<1.0> : tensor<4xf32>
  %4 = dfg.opaque "com.example.Sparkle"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %5 = dfg.fusion %x : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%y: tensor<4xf32>):
    dfg.yield %y : tensor<4xf32>
  }
  dfg.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
