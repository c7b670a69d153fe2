// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the graph stage.

#include "passes/graph/Pipeline.h"

#include "passes/graph/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace cleave {

void buildGraphPipeline(OpPassManager &manager, const GraphOptions &options) {
  OpPassManager &graphs = manager.nest<dfg::GraphOp>();
  // First of all, so that what it leaves behind is removed. The products of a mixture share their indices only where
  // equal operators are one.
  if (options.expertCapacity > 0) {
    graphs.addPass(createCSEPass());
    graphs.addPass(createDispatchExpertsPass({options.expertCapacity}));
  }
  // Folding before joining: operators that compute equal constants become equal.
  graphs.addPass(createCanonicalizerPass());
  graphs.addPass(createCSEPass());
  // Behind the folds, which find constants and operators that move nothing.
  graphs.addPass(createNarrowResultsPass());
  // Last: the reads of dead operators are gone.
  manager.addPass(createRemoveUnusedParametersPass());
}

void registerGraphPipeline() {
  static PassPipelineRegistration<GraphOptions> registration(
      "simplify-graph", "Fold, join and remove operators of graphs", buildGraphPipeline);
}

} // namespace cleave
