// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph stage as a whole.

#ifndef CLEAVE_PASSES_GRAPH_PIPELINE_H
#define CLEAVE_PASSES_GRAPH_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace cleave {

/// Appends the stage's passes, on a module: folds, joins equal operators of a graph, removes what nothing uses. The
/// graph's inputs and outputs stay as they are.
void buildGraphPipeline(mlir::OpPassManager &manager);

/// Makes the pipeline known to cleave-opt as `--simplify-graph`.
void registerGraphPipeline();

} // namespace cleave

#endif // CLEAVE_PASSES_GRAPH_PIPELINE_H
