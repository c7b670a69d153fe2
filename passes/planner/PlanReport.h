// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the planner expects of its decisions, on its way past the stages that do not need it into the plan file.

#ifndef CLEAVE_PASSES_PLANNER_PLANREPORT_H
#define CLEAVE_PASSES_PLANNER_PLANREPORT_H

#include "runtime/Plan.h"

#include "llvm/ADT/StringMap.h"

namespace cleave {

/// What is expected of one node of the model. Seconds; -1 where nothing is known.
struct OperatorReport {
  double seconds = -1, communicationSeconds = -1;
  /// The best other split, and what a step would take with it; empty where there is none.
  std::string alternative;
  double alternativeSeconds = -1;
  uint32_t stage = 0;
};

struct PlanReport {
  /// The `mesh` of its stages is set when the plan is written, from `stageMeshes`.
  runtime::Prediction prediction;
  /// By stage: the symbol of its mesh.
  std::vector<std::string> stageMeshes;
  /// By node of the model.
  llvm::StringMap<OperatorReport> operators;
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLANREPORT_H
