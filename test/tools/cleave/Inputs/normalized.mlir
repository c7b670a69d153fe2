// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two dense layers with what is another operator in training between them: batch normalization with running statistics,
// and dropout.
module {
  dfg.parameter @first : tensor<6x8xf32> = #dfg.normal<mean = 0.0, stddev = 0.5, seed = 1>
  dfg.parameter @second : tensor<8x5xf32> = #dfg.normal<mean = 0.0, stddev = 0.5, seed = 2>
  dfg.parameter @scale : tensor<8xf32> = #dfg.normal<mean = 1.0, stddev = 0.1, seed = 3>
  dfg.parameter @shift : tensor<8xf32> = #dfg.normal<mean = 0.0, stddev = 0.1, seed = 4>
  dfg.parameter state @mean : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  dfg.parameter state @variance : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.graph @main(%x: tensor<12x6xf32> {dfg.name = "x"}) -> (tensor<12x5xf32> {dfg.name = "y"}) {
    %first = dfg.read @first : tensor<6x8xf32>
    %second = dfg.read @second : tensor<8x5xf32>
    %scale = dfg.read @scale : tensor<8xf32>
    %shift = dfg.read @shift : tensor<8xf32>
    %mean = dfg.read @mean : tensor<8xf32>
    %variance = dfg.read @variance : tensor<8xf32>
    %0 = dfg.dot_general %x, %first {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<12x6xf32>, tensor<6x8xf32>) -> tensor<12x8xf32> loc("fc1"("Gemm"))
    %1 = dfg.batch_norm %0, %scale, %shift, %mean, %variance {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<12x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<12x8xf32> loc("norm"("BatchNormalization"))
    %2 = dfg.dropout %1 {ratio = 0.4 : f64} : (tensor<12x8xf32>) -> tensor<12x8xf32> loc("drop"("Dropout"))
    %3 = dfg.dot_general %2, %second {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<12x8xf32>, tensor<8x5xf32>) -> tensor<12x5xf32> loc("fc2"("Gemm"))
    dfg.return %3 : tensor<12x5xf32>
  }
}
