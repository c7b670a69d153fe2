// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan against which others are compared: the same model on one device, every operator plain loops by itself.

#ifndef CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H
#define CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H

#include "compiler/CompileModel.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave/CompareTraining.h"

#include <optional>

namespace cleave::tool {

/// A plan in memory that can run.
class ReferencePlan {
public:
  /// Compiles `model` with the options that `plan` has been compiled with, as far as they say what is computed. What a
  /// plan for inference takes has the shapes that its inputs have there. `elementType`: the arithmetic ("f32", "bf16"),
  /// in the place of what the settings say; float32 is exact.
  static Expected<ReferencePlan> compile(const runtime::PlanContents &plan, const ModelOptions &model,
                                         const std::vector<std::string> &inputBindings,
                                         const std::vector<std::string> &extraOutputs,
                                         std::optional<std::string> elementType = std::nullopt);

  RunnablePlan runnable() { return {plan, parameters}; }

private:
  ReferencePlan(std::unique_ptr<CompiledModel> compiled, runtime::Plan plan)
      : compiled(std::move(compiled)), plan(std::move(plan)), parameters(this->compiled->imported) {}

  std::unique_ptr<CompiledModel> compiled; ///< holds the parameters
  runtime::Plan plan;
  WeightsSource parameters;
};

/// Arithmetic beside which a plan's own is judged.
struct OtherArithmetic {
  std::string elementType; ///< "f32" or "bf16"
  /// The plan may be off by so many times what results differ by from the reference's in this arithmetic.
  double share = 2;
};
/// Of a plan in bfloat16 f32; of one whose products are rounded to TF32 bfloat16; of one in exact float32 none.
std::optional<OtherArithmetic> otherArithmeticOf(const runtime::PlanContents &plan);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_REFERENCEPLAN_H
