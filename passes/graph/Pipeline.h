// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph stage as a whole.

#ifndef CLEAVE_PASSES_GRAPH_PIPELINE_H
#define CLEAVE_PASSES_GRAPH_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace cleave {

/// What the stage may change.
struct GraphOptions : mlir::PassPipelineOptions<GraphOptions> {
  Option<double> expertCapacity{
      *this, "expert-capacity",
      llvm::cl::desc(
          "places that a sample has at each expert, of the experts' equal share of its tokens; 0: as many as "
          "come"),
      llvm::cl::init(0.0)};
};

/// Appends the stage's passes, on a module: folds, joins equal operators of a graph, removes what nothing uses. The
/// graph's inputs and outputs stay as they are.
void buildGraphPipeline(mlir::OpPassManager &manager, const GraphOptions &options = GraphOptions());

/// Makes the pipeline known to cleave-opt as `--simplify-graph`.
void registerGraphPipeline();

} // namespace cleave

#endif // CLEAVE_PASSES_GRAPH_PIPELINE_H
