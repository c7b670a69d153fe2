// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two dense layers side by side, of which the second counts for little and starts at zero: what it gives is no part of
// the loss yet, and its gradient is some 0.001 of the first's.
module {
  dfg.parameter @large : tensor<6x5xf32> = #dfg.normal<mean = 0.0, stddev = 0.5, seed = 1>
  dfg.parameter @small : tensor<6x5xf32> = #dfg.fill<value = 0.0 : f64>
  dfg.graph @main(%x: tensor<12x6xf32> {dfg.name = "x"}) -> (tensor<12x5xf32> {dfg.name = "y"}) {
    %large = dfg.read @large : tensor<6x5xf32>
    %small = dfg.read @small : tensor<6x5xf32>
    %share = dfg.constant dense<0.001> : tensor<12x6xf32>
    %0 = dfg.dot_general %x, %large {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<12x6xf32>, tensor<6x5xf32>) -> tensor<12x5xf32> loc("large"("Gemm"))
    %1 = dfg.mul %x, %share : (tensor<12x6xf32>, tensor<12x6xf32>) -> tensor<12x6xf32> loc("share"("Mul"))
    %2 = dfg.dot_general %1, %small {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<12x6xf32>, tensor<6x5xf32>) -> tensor<12x5xf32> loc("small"("Gemm"))
    %3 = dfg.add %0, %2 : (tensor<12x5xf32>, tensor<12x5xf32>) -> tensor<12x5xf32> loc("sum"("Add"))
    dfg.return %3 : tensor<12x5xf32>
  }
}
