// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles with --reference.

#include "tools/cleave/ReferencePlan.h"
#include "tools/cleave/Diagnostics.h"

#include "compiler/PlanSettings.h"

#include <algorithm>

namespace cleave::tool {

std::optional<OtherArithmetic> otherArithmeticOf(const runtime::PlanContents &plan) {
  auto has = [&](const char *name) {
    return std::ranges::any_of(plan.settings, [&](const runtime::Setting &setting) { return setting.name == name; });
  };
  // The plan and its reference are both rounded, perhaps in other places.
  if (has("dtype"))
    return OtherArithmetic{"f32", 2};
  // The reference is exact. What bfloat16 rounds to 8 bits includes all that TF32 rounds to 11, or cuts off behind
  // them.
  if (has("tf32"))
    return OtherArithmetic{"bf16", 2 * 0x1p-2};
  return std::nullopt;
}

Expected<ReferencePlan> ReferencePlan::compile(const runtime::PlanContents &plan, const ModelOptions &model,
                                               const std::vector<std::string> &inputBindings,
                                               const std::vector<std::string> &extraOutputs,
                                               std::optional<std::string> elementType) {
  auto inputs = InputFiles::create(inputBindings);
  if (!inputs)
    return inputs.error();
  CompileRequest request;
  request.model = model;
  request.model.dims.clear();
  if (Error error = applySettings(plan.settings, request.model, request.target))
    return error;
  request.model.dims.insert(request.model.dims.end(), model.dims.begin(), model.dims.end());
  // A step takes several microbatches, whose size the settings say.
  if (!request.target.train)
    for (const runtime::Port &port : plan.entries.front().inputs)
      inputs->setShape(port.name, port.type.shape);
  request.target.machine = "host:1x1";
  request.target.strategy = "single";
  request.target.reference = true;
  request.target.tf32 = false;
  if (elementType)
    request.target.elementType = *elementType;
  request.inputs = &*inputs;
  request.extraOutputs = extraOutputs;
  auto compiled = compileModel(request, console());
  if (!compiled)
    return compiled.error();
  auto opened = openPlan(*compiled);
  if (!opened)
    return opened.error();
  return ReferencePlan(std::make_unique<CompiledModel>(std::move(*compiled)), *opened);
}

} // namespace cleave::tool
