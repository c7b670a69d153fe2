// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes of the train stage.

#ifndef CLEAVE_PASSES_TRAIN_PASSES
#define CLEAVE_PASSES_TRAIN_PASSES

include "mlir/Pass/PassBase.td"

def AddLossPass : Pass<"train-add-loss", "::mlir::ModuleOp"> {
  let summary = "Append a loss to a forward graph";
  let description = [{
    Before:
    ```mlir
    dfg.graph @main(%x: tensor<8x4xf32> {dfg.name = "x"}) -> (tensor<8x4xf32> {dfg.name = "y"}) {
      %0 = dfg.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
      dfg.return %0 : tensor<8x4xf32>
    }
    ```
    After `--train-add-loss=loss=mse`:
    ```mlir
    dfg.graph @main(%x: tensor<8x4xf32> {dfg.name = "x"}, %target: tensor<8x4xf32> {dfg.name = "target"})
        -> (tensor<f32> {dfg.name = "loss"}) {
      %0 = dfg.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %1 = dfg.sub %0, %target : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %2 = dfg.mul %1, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %3 = dfg.reduce %2 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<8x4xf32>) -> tensor<f32>
      %4 = dfg.constant dense<3.125000e-02> : tensor<f32>
      %5 = dfg.mul %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      dfg.return %5 : tensor<f32>
    }
    ```
    Run it before operators are placed. The graph's only outputs are the loss and, for cross-entropy, the number of right
    answers; what only other outputs needed is removed.
  }];
  let options = [Option<"loss", "loss", "std::string", [{"cross-entropy"}],
                        "cross-entropy, mse or an output's name, then ,output=NAME ,labels=NAME ,classes=DIM">];
}

#endif // CLEAVE_PASSES_TRAIN_PASSES
