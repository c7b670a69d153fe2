// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan against which others are compared: the same model on one device, every operator plain loops by itself.

#ifndef CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H
#define CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H

#include "tools/cleave/CompareTraining.h"
#include "tools/cleave/CompileModel.h"
#include "tools/cleave/PlanWeights.h"

namespace cleave::tool {

/// A plan in memory that can run.
class ReferencePlan {
public:
  /// Compiles `model` with the options that `plan` has been compiled with, as far as they say what is computed. What a
  /// plan for inference takes has the shapes that its inputs have there. `wide`: in f32, whatever the settings say.
  static Expected<ReferencePlan> compile(const runtime::PlanContents &plan, const ModelOptions &model,
                                         const std::vector<std::string> &inputBindings,
                                         const std::vector<std::string> &extraOutputs, bool wide);

  RunnablePlan runnable() { return {plan, parameters}; }

private:
  ReferencePlan(std::unique_ptr<CompiledModel> compiled, runtime::Plan plan)
      : compiled(std::move(compiled)), plan(std::move(plan)), parameters(this->compiled->imported) {}

  std::unique_ptr<CompiledModel> compiled; ///< holds the parameters
  runtime::Plan plan;
  WeightsSource parameters;
};

/// Whether the plan's arithmetic is narrower than f32.
bool isNarrow(const runtime::PlanContents &plan);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H
