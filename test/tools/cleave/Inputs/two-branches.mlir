// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two branches that meet: small enough to compute by hand. For x = [1, -2, 3, -4]:
// left = relu(x) = [1, 0, 3, 0], right = -x = [-1, 2, -3, 4], sum = left + right = [0, 2, 0, 4].
module {
  dfg.graph @main(%x: tensor<4xf32> {dfg.name = "x"}) -> (tensor<4xf32> {dfg.name = "y"}) {
    %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("left"("Relu"))
    %1 = dfg.neg %x : (tensor<4xf32>) -> tensor<4xf32> loc("right"("Neg"))
    %2 = dfg.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("sum"("Add"))
    dfg.return %2 : tensor<4xf32>
  }
}
