// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stages leave in a module for later ones, besides the module itself: with it a dump is all that the rest of a
// compilation needs. The planner's report is there, too (passes/planner/PlanReport.h).

#ifndef CLEAVE_COMPILER_STAGESTATE_H
#define CLEAVE_COMPILER_STAGESTATE_H

#include "compiler/Options.h"

#include "runtime/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// On a module: a string, how operators got their devices, as "auto".
inline constexpr llvm::StringLiteral strategyAttrName = "plan.strategy";
/// On a module: an array of strings, name and value in turns: the settings of the plan (PlanSettings.h).
inline constexpr llvm::StringLiteral settingsAttrName = "plan.settings";
/// On a module with a training step: a dictionary of its `microbatches` and the name of their `schedule`.
inline constexpr llvm::StringLiteral stepAttrName = "plan.step";

void setStrategy(mlir::ModuleOp module, llvm::StringRef strategy);
/// Empty where none is said.
std::string getStrategy(mlir::ModuleOp module);

void setSettings(mlir::ModuleOp module, llvm::ArrayRef<runtime::Setting> settings);
/// None where none are said. Status::Rejected where the attribute is something else.
Expected<std::vector<runtime::Setting>> getSettings(mlir::ModuleOp module);

/// What is said of a step, for its prediction.
struct StepFacts {
  uint32_t microbatches = 1;
  std::string schedule;
};

void setStep(mlir::ModuleOp module, const StepFacts &step);
/// One microbatch where nothing is said. Status::Rejected where the attribute is something else.
Expected<StepFacts> getStep(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_STAGESTATE_H
