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

def DispatchExpertsPass : Pass<"graph-dispatch-experts", "::cleave::dfg::GraphOp"> {
  let summary = "Bring the tokens of each expert together";
  let description = [{
    Every sample has `capacity` times as many places for each expert as its tokens would take if they went to all experts
    alike. Tokens take the places of their expert in their order; those that find none get zero from it. Products by
    indices become one batch of products an expert, and so does what lies between them. Where experts are on devices of
    their own and samples on theirs, both ways between the two are exchanges of all with all, which distribution finds.

    Before:
    ```mlir
    %0 = dfg.gather_dot %x, %w, %i : (tensor<4x8x1x32xf32>, tensor<4x32x64xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x64xf32>
    %1 = dfg.relu %0 : (tensor<4x8x2x64xf32>) -> tensor<4x8x2x64xf32>
    %2 = dfg.gather_dot %1, %v, %i : (tensor<4x8x2x64xf32>, tensor<4x64x32xf32>, tensor<4x8x2xi64>) -> tensor<4x8x2x32xf32>
    ```
    After, with a capacity of 1.5 (6 places for the 16 tokens of a sample at each of 4 experts):
    ```mlir
    %p = dfg.transpose %taken {permutation = array<i64: 1, 0, 2, 3>}
           : (tensor<4x4x6x32xf32>) -> tensor<4x4x6x32xf32>
    %0 = dfg.dot_general %p, %w {...} : (tensor<4x4x6x32xf32>, tensor<4x32x64xf32>) -> tensor<4x4x6x64xf32>
    %1 = dfg.relu %0 : (tensor<4x4x6x64xf32>) -> tensor<4x4x6x64xf32>
    %q = dfg.dot_general %1, %v {...} : (tensor<4x4x6x64xf32>, tensor<4x64x32xf32>) -> tensor<4x4x6x32xf32>
    %2 = dfg.select %kept, %given, %zero : (tensor<4x16x1xi1>, tensor<4x16x32xf32>, tensor<f32>) -> tensor<4x16x32xf32>
    ```
    Requires: a graph that is not placed yet. Products whose indices have one dimension, or more than three, stay.
    Guarantees: no result changes where no expert is chosen by more tokens of a sample than it has places; with a
    capacity of as many as there are experts that is always so.
  }];
  let options = [Option<"capacity", "capacity", "double", "1.0", "places of an expert, of its equal share of tokens">];
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
