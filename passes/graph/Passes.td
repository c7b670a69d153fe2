// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that simplify graphs.

#ifndef CLEAVE_PASSES_GRAPH_PASSES
#define CLEAVE_PASSES_GRAPH_PASSES

include "mlir/Pass/PassBase.td"

def RemoveUnusedParametersPass : Pass<"graph-remove-unused-parameters", "::mlir::ModuleOp"> {
  let summary = "Remove parameters that nothing reads";
  let description = [{
    Before:
    ```mlir
    dfg.parameter @used : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
    dfg.parameter @unused : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
    dfg.graph @main() -> tensor<4xf32> {
      %0 = dfg.read @used : tensor<4xf32>
      dfg.return %0 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    dfg.parameter @used : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
    dfg.graph @main() -> tensor<4xf32> {
      %0 = dfg.read @used : tensor<4xf32>
      dfg.return %0 : tensor<4xf32>
    }
    ```
    Run it after dead operators are gone, whose reads count. Any mention of a parameter's name keeps it.
  }];
}

#endif // CLEAVE_PASSES_GRAPH_PASSES
