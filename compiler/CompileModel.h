// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a model to a plan: the stages in order, for whoever needs a plan.

#ifndef CLEAVE_COMPILER_COMPILEMODEL_H
#define CLEAVE_COMPILER_COMPILEMODEL_H

#include "compiler/ModelReader.h"
#include "compiler/Options.h"
#include "passes/planner/PlaceOperators.h"
#include "runtime/Plan.h"

namespace cleave {

/// Seconds that a stage took.
struct StageTime {
  std::string stage;
  double seconds = 0;
};

/// The stages after which the module can be shown, in order.
inline constexpr const char *irStages[] = {"import", "graph", "place", "train", "distribute", "codegen", "schedule"};

struct CompileRequest {
  ModelOptions model;
  TargetOptions target;
  /// Binds inputs that need it; may be null.
  InputFiles *inputs = nullptr;
  /// Where the plan will be written; empty: it stays in memory.
  std::string planFile;
  /// One of irStages: stop after it.
  std::string lastStage;
  /// Names of model nodes whose results are to be outputs, too (addOutputs).
  std::vector<std::string> extraOutputs = {};
  /// With --strategy auto: how the model was placed before, which the search is to take as it is; null: it chooses.
  const Decision *decision = nullptr;
};

/// A plan and where its parameters are.
struct CompiledModel {
  std::unique_ptr<mlir::MLIRContext> context; ///< outlives what is below
  WeightsStore imported;                      ///< the bytes
  WeightsStore weights;                       ///< the weights file of a plan that is written
  std::vector<char> plan;
  std::string ir;                   ///< the module, when a last stage was asked for
  std::optional<PlanReport> report; ///< what the search expects, where there was one
  std::string strategy;
  std::vector<StageTime> times;
  std::vector<std::string> machineNotes; ///< Machine::notes
  std::string mixing;                    ///< a warning of what microbatches change; empty where they change nothing

  double totalSeconds() const;
  /// The seconds of a stage; 0 if it did not run.
  double secondsOf(llvm::StringRef stage) const;
};

/// Compiles. `messages` has had the diagnostics when the error has no message. Status::Internal when a stage fails that
/// accepts every placed model.
Expected<CompiledModel> compileModel(const CompileRequest &request, Messages &messages);

/// A verified view of the compiled plan.
Expected<runtime::Plan> openPlan(const CompiledModel &compiled);

/// Writes the plan's file and, first, that of its weights beside it, where it has some: a plan that is there has its
/// weights.
Error writePlan(const CompiledModel &compiled, const std::string &path);

} // namespace cleave

#endif // CLEAVE_COMPILER_COMPILEMODEL_H
