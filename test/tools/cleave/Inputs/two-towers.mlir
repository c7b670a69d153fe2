// Two branches of four layers each, on one sample.
dfg.parameter @left1.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 1>
dfg.parameter @left2.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 2>
dfg.parameter @left3.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 3>
dfg.parameter @left4.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 4>
dfg.parameter @right1.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 11>
dfg.parameter @right2.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 12>
dfg.parameter @right3.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 13>
dfg.parameter @right4.weight : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.08, seed = 14>
dfg.graph @main(%x: tensor<1x128xf32> {dfg.name = "x"}) -> (tensor<1x128xf32> {dfg.name = "y"}) {
  %leftw1 = dfg.read @left1.weight : tensor<128x128xf32>
  %left1 = dfg.dot_general %x, %leftw1 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("left1"("Gemm"))
  %leftw2 = dfg.read @left2.weight : tensor<128x128xf32>
  %left2 = dfg.dot_general %left1, %leftw2 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("left2"("Gemm"))
  %leftw3 = dfg.read @left3.weight : tensor<128x128xf32>
  %left3 = dfg.dot_general %left2, %leftw3 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("left3"("Gemm"))
  %leftw4 = dfg.read @left4.weight : tensor<128x128xf32>
  %left4 = dfg.dot_general %left3, %leftw4 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("left4"("Gemm"))
  %rightw1 = dfg.read @right1.weight : tensor<128x128xf32>
  %right1 = dfg.dot_general %x, %rightw1 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("right1"("Gemm"))
  %rightw2 = dfg.read @right2.weight : tensor<128x128xf32>
  %right2 = dfg.dot_general %right1, %rightw2 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("right2"("Gemm"))
  %rightw3 = dfg.read @right3.weight : tensor<128x128xf32>
  %right3 = dfg.dot_general %right2, %rightw3 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("right3"("Gemm"))
  %rightw4 = dfg.read @right4.weight : tensor<128x128xf32>
  %right4 = dfg.dot_general %right3, %rightw4 {lhs_batch = array<i64>, rhs_batch = array<i64>,
      lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32> loc("right4"("Gemm"))
  %sum = dfg.add %left4, %right4 : (tensor<1x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32> loc("sum"("Add"))
  dfg.return %sum : tensor<1x128xf32>
}
