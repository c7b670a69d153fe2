// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that simplify graphs.

#ifndef CLEAVE_PASSES_GRAPH_PASSES
#define CLEAVE_PASSES_GRAPH_PASSES

include "mlir/Pass/PassBase.td"

def NarrowResultsPass : Pass<"graph-narrow-results", "::cleave::dfg::GraphOp"> {
  let summary = "Compute no rows and columns that no window reads";
  let description = [{
    Windows with a stride may leave the last elements of a dimension out. What computes these, by elementwise operators
    and windows up to a product, computes the others only, and so do their gradients later. Inputs are cut where
    products need less of them; where no product gets smaller, nothing changes.

    Before:
    ```mlir
    %0 = dfg.conv %x, %w {...} : (tensor<1x20x13x13xf32>, tensor<50x20x5x5xf32>) -> tensor<1x50x9x9xf32>
    %1 = dfg.pool %0 {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, ...}
           : (tensor<1x50x9x9xf32>) -> tensor<1x50x4x4xf32>
    ```
    After:
    ```mlir
    %s = dfg.slice %x {limits = array<i64: 1, 20, 12, 12>, ...} : (tensor<1x20x13x13xf32>) -> tensor<1x20x12x12xf32>
    %0 = dfg.conv %s, %w {...} : (tensor<1x20x12x12xf32>, tensor<50x20x5x5xf32>) -> tensor<1x50x8x8xf32>
    %1 = dfg.pool %0 {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, ...}
           : (tensor<1x50x8x8xf32>) -> tensor<1x50x4x4xf32>
    ```
    Requires: a graph that is not placed yet; the slices have no `dist.place`.
    Guarantees: inputs, parameters and results of the graph keep their types; every element that a result depends on is
    computed from the same operands as before.
  }];
}

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
    Requires: dead operators are gone; their reads count as uses.
    Guarantees: every parameter whose symbol is mentioned anywhere in the module stays.
  }];
}

#endif // CLEAVE_PASSES_GRAPH_PASSES
