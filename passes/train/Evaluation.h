// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph that evaluates a model beside the one that trains it.

#ifndef CLEAVE_PASSES_TRAIN_EVALUATION_H
#define CLEAVE_PASSES_TRAIN_EVALUATION_H

#include "dialects/dfg/Dfg.h"

namespace cleave {

/// Places the operators of `evaluation`, a forward graph of the same model as `trained`, as those of the model's nodes
/// in `trained` are: an operator of the same kind has the same place; another one of the node stands on its mesh and is
/// cut as its operands are. Fails, with a diagnostic, for an operator whose node and operands are nowhere in `trained`.
llvm::LogicalResult placeEvaluation(dfg::GraphOp evaluation, dfg::GraphOp trained);

/// Gives the reads of parameters in `evaluation` that `step` keeps the homes that they have there.
void shareParameters(dfg::GraphOp evaluation, dfg::GraphOp step);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_EVALUATION_H
