// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the planner expects of its decisions, on its way past the stages that do not need it into the plan file; between
// stages a module has it as an attribute.

#ifndef CLEAVE_PASSES_PLANNER_PLANREPORT_H
#define CLEAVE_PASSES_PLANNER_PLANREPORT_H

#include "runtime/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

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

/// On a module: a dictionary like PlanReport, with names as in plan.fbs; what is as by default is left out.
inline constexpr llvm::StringLiteral reportAttrName = "plan.report";

void setReport(mlir::ModuleOp module, const PlanReport &report);

/// What setReport wrote; nothing on a module without it. Fails, with a diagnostic, where it is something else.
mlir::FailureOr<std::optional<PlanReport>> getReport(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLANREPORT_H
