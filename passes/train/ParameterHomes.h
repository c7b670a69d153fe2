// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Homes of parameters: on which mesh, and in which parts, a training step keeps a parameter and the optimizer's state
// of it from step to step.

#ifndef CLEAVE_PASSES_TRAIN_PARAMETERHOMES_H
#define CLEAVE_PASSES_TRAIN_PARAMETERHOMES_H

#include "passes/train/GradientPlaces.h"
#include "passes/train/TrainingStep.h"

namespace cleave {

struct ParameterHome {
  mlir::FlatSymbolRefAttr mesh;
  /// As the first user takes the parameter, as it is kept, and as the optimizer works on it and keeps its state.
  dist::Layout used, kept, updated;
};

/// A parameter's home is with the first user of its read in a placed forward graph, as that takes it; of one that is
/// trained replicas share what StageOptions::zero says. Fails, with a diagnostic, where no operator uses it.
llvm::FailureOr<ParameterHome> findHome(dfg::ReadOp read, bool isTrained, const TrainingOptions &options,
                                        GradientPlaces &places);

/// Whether steps train what the graph reads: a parameter of floating-point numbers that is not state. `symbols` are the
/// module's.
bool isTrained(dfg::ReadOp read, const mlir::SymbolTable &symbols);

/// Places the reads of parameters in a placed forward graph at their homes, and declares, reads and places the
/// optimizer's state, as buildTrainingStep would. The graph stays a forward graph.
llvm::LogicalResult placeHomes(dfg::GraphOp forward, const TrainingOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_PARAMETERHOMES_H
