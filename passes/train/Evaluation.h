// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graphs beside another of the same model: the one that evaluates it, those for other lengths of sequences or batches.

#ifndef CLEAVE_PASSES_TRAIN_EVALUATION_H
#define CLEAVE_PASSES_TRAIN_EVALUATION_H

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Places the operators of `graph`, a forward graph of the same model as `placed`, as those of the model's nodes in
/// `placed` are: an operator of the same kind has the same place; another one of the node stands on its mesh and is cut
/// as its operands are. `placed` may be in another module, with the same meshes. Fails, with a diagnostic, for an
/// operator whose node and operands are nowhere in `placed`.
llvm::LogicalResult placeLike(dfg::GraphOp graph, dfg::GraphOp placed);

/// Gives the reads of parameters in `evaluation` that `step` keeps the homes that they have there.
void shareParameters(dfg::GraphOp evaluation, dfg::GraphOp step);

/// Moves the graphs of `part`, the same model for sequences of another length or another batch, into `whole`:
/// parameters, optimizer state and meshes are those that `whole` has. Fails, with a diagnostic, where `part` has a
/// parameter that `whole` lacks or has with another type, first value or home, or another mesh of the same name.
llvm::LogicalResult joinSteps(mlir::ModuleOp whole, mlir::ModuleOp part);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_EVALUATION_H
