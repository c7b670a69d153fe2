// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An operator that nobody knows.
module {
  dfg.graph @main(%x: tensor<4xf32> {dfg.name = "x"}) -> (tensor<4xf32> {dfg.name = "y"}) {
    %0 = dfg.opaque "Sparkle"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("glitter"("Sparkle"))
    dfg.return %0 : tensor<4xf32>
  }
}
