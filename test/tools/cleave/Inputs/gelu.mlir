// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two dense layers on rows of positions, with GELU between: the form with tanh.

dfg.parameter @fc1.weight : tensor<16x32xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 0.5 : f64, seed = 1>
dfg.parameter @fc1.bias : tensor<32xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 0.5 : f64, seed = 2>
dfg.parameter @fc2.weight : tensor<32x16xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 0.5 : f64, seed = 3>
dfg.parameter @fc2.bias : tensor<16xf32> = #dfg.normal<mean = 0.0 : f64, stddev = 0.5 : f64, seed = 4>
dfg.graph @main(%x: tensor<2x5x16xf32> {dfg.name = "x"}) -> (tensor<2x5x16xf32> {dfg.name = "y"}) {
  %w1 = dfg.read @fc1.weight : tensor<16x32xf32>
  %b1 = dfg.read @fc1.bias : tensor<32xf32>
  %0 = dfg.dot_general %x, %w1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x16xf32>, tensor<16x32xf32>) -> tensor<2x5x32xf32> loc("fc1")
  %1 = dfg.add %0, %b1 : (tensor<2x5x32xf32>, tensor<32xf32>) -> tensor<2x5x32xf32> loc("fc1.bias")
  %2 = dfg.gelu %1 {approximate} : (tensor<2x5x32xf32>) -> tensor<2x5x32xf32> loc("gelu")
  %w2 = dfg.read @fc2.weight : tensor<32x16xf32>
  %b2 = dfg.read @fc2.bias : tensor<16xf32>
  %3 = dfg.dot_general %2, %w2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<2x5x32xf32>, tensor<32x16xf32>) -> tensor<2x5x16xf32> loc("fc2")
  %4 = dfg.add %3, %b2 : (tensor<2x5x16xf32>, tensor<16xf32>) -> tensor<2x5x16xf32> loc("fc2.bias")
  %5 = dfg.add %4, %x : (tensor<2x5x16xf32>, tensor<2x5x16xf32>) -> tensor<2x5x16xf32> loc("residual")
  dfg.return %5 : tensor<2x5x16xf32>
}
