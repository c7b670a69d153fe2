// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Parameters and state, with each kind of first value.
// CHECK: dfg.parameter @fc1.weight : tensor<512x2048xf32> = #dfg.file<"mlp.weights", offset = 64>
// CHECK: dfg.parameter state @bn.mean : tensor<64xf32> = #dfg.fill<value = 0.000000e+00 : f64>
// CHECK: dfg.parameter @mask : tensor<8x8xi1> = #dfg.file<"mlp.weights", offset = 0> {dfg.score_mask = #dfg.score_mask<kind = hidden, lower = -1, upper = 5, exact = true>}
// CHECK: dfg.parameter @normal : tensor<4xf32> = #dfg.normal<mean = 0.000000e+00 : f64, stddev = {{1.0+e-02}} : f64, seed = 7>
// CHECK: dfg.parameter @uniform : tensor<4xf32> = #dfg.uniform<low = {{-1.0+e-01}} : f64, high = {{1.0+e-01}} : f64, seed = 18446744073709551615>
dfg.parameter @fc1.weight : tensor<512x2048xf32> = #dfg.file<"mlp.weights", offset = 64>
dfg.parameter state @bn.mean : tensor<64xf32> = #dfg.fill<value = 0.0 : f64>
dfg.parameter @mask : tensor<8x8xi1> = #dfg.file<"mlp.weights", offset = 0> {dfg.score_mask = #dfg.score_mask<kind = hidden, upper = 5, lower = -1, exact = true>}
dfg.parameter @normal : tensor<4xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 0.01 : f64, seed = 7>
dfg.parameter @uniform : tensor<4xf32> = #dfg.uniform<low = -0.1 : f64, high = 0.1 : f64, seed = 18446744073709551615>

// A graph with named inputs and outputs.
// CHECK: dfg.graph @named(%[[X:.*]]: tensor<64x512xf32> {dfg.name = "x"}) -> (tensor<64x512xf32> {dfg.name = "y"}) {
// CHECK: %[[Y:.*]] = dfg.relu %[[X]] : (tensor<64x512xf32>) -> tensor<64x512xf32>
// CHECK: dfg.return %[[Y]] : tensor<64x512xf32>
dfg.graph @named(%x: tensor<64x512xf32> {dfg.name = "x"}) -> (tensor<64x512xf32> {dfg.name = "y"}) {
  %0 = dfg.relu %x : (tensor<64x512xf32>) -> tensor<64x512xf32>
  dfg.return %0 : tensor<64x512xf32>
}

// Reads, constants of every kind of element, and operators that nobody knows, also with no or several results.
// CHECK-LABEL: dfg.graph @leaves
// CHECK: dfg.read @fc1.weight : tensor<512x2048xf32>
// CHECK: dfg.constant dense<[1, 3, -1]> : tensor<3xi64>
// CHECK: dfg.constant dense<true> : tensor<2xi1>
// CHECK: dfg.constant dense<> : tensor<0xf32>
// CHECK: dfg.opaque "com.example.Sparkle"(%{{.*}}) {model_attributes = {depth = 3 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: dfg.opaque "com.example.Pair"() : () -> (tensor<4xf32>, tensor<?xf32>)
dfg.graph @leaves(%x: tensor<4xf32>) {
  %0 = dfg.read @fc1.weight : tensor<512x2048xf32>
  %1 = dfg.constant dense<[1, 3, -1]> : tensor<3xi64>
  %2 = dfg.constant dense<true> : tensor<2xi1>
  %3 = dfg.constant dense<> : tensor<0xf32>
  %4 = dfg.opaque "com.example.Sparkle"(%x) {model_attributes = {depth = 3 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
  %5, %6 = dfg.opaque "com.example.Pair"() : () -> (tensor<4xf32>, tensor<?xf32>)
  dfg.return
}

// A fusion with its region.
// CHECK-LABEL: dfg.graph @fusion
// CHECK: dfg.fusion %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
// CHECK: ^bb0(%[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>):
// CHECK: %[[S:.*]] = dfg.add %[[A]], %[[B]]
// CHECK: %[[R:.*]] = dfg.relu %[[S]]
// CHECK: dfg.yield %[[R]] : tensor<8xf32>
dfg.graph @fusion(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = dfg.fusion %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
    %1 = dfg.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = dfg.relu %1 : (tensor<8xf32>) -> tensor<8xf32>
    dfg.yield %2 : tensor<8xf32>
  }
  dfg.return %0 : tensor<8xf32>
}
