// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits that a fixed strategy finds in the graph itself.

#ifndef CLEAVE_PASSES_PLANNER_SPLITBYSTRATEGY_H
#define CLEAVE_PASSES_PLANNER_SPLITBYSTRATEGY_H

#include "passes/planner/GraphSplits.h"

namespace cleave {

/// Data parallelism: cuts the batch of every input that has one by the axis, and lets the operators follow. An input's
/// batch is its first dimension that goes through all operators along parallel factors, else its first one. An input
/// that only meets what is cut already (a mask, a position) stays whole. Returns the inputs whose batch is one sample.
llvm::SmallVector<mlir::BlockArgument> splitBatch(GraphSplits &splits, dfg::GraphOp graph, llvm::StringRef axis);

/// Tensor parallelism, as Megatron-LM has it (Shoeybi et al. 2019), found in the graph: an operator with weights is
/// split by columns, so that its result comes in parts, and the next one with weights by rows where its input still
/// comes in these parts, so that it ends in a sum of partial results; then by columns again.
///
///   factor of the weights that             split by it
///   the result has and the input lacks     columns: n of a product, out_channel of a convolution, width of a table
///   input and weights sum over             rows: k, in_channel; when the input is cut along it
///   only the weights have, summed over     rows of a table (the vocabulary of an embedding)
///
/// What stands between follows its operands: elementwise operators, attention by its heads.
void splitLayers(GraphSplits &splits, llvm::StringRef axis);

/// Cuts every operator along its factors in turn, whatever communication that brings: for tests.
void splitEverything(GraphSplits &splits);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_SPLITBYSTRATEGY_H
