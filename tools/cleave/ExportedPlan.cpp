// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers what there is to export of a plan.

#include "tools/cleave/ExportedPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <set>

namespace cleave::tool {

using namespace runtime;

static std::vector<ExportedStage> exportedStages(const Entry &entry) {
  std::vector<ExportedStage> stages;
  bool isPlanned = entry.prediction && !entry.prediction->stages.empty();
  if (isPlanned)
    for (const PlanStage &stage : entry.prediction->stages)
      stages.push_back({stage.mesh, {}});
  else
    for (const Program &program : entry.programs)
      stages.push_back({program.mesh, {}});
  for (auto [i, op] : llvm::enumerate(entry.operators)) {
    auto isIts = [&](const ExportedStage &stage) { return stage.mesh == op.mesh; };
    auto stage = !isPlanned                 ? llvm::find_if(stages, isIts)
                 : op.stage < stages.size() ? stages.begin() + op.stage
                                            : stages.end();
    if (stage != stages.end())
      stage->operators.push_back(static_cast<uint32_t>(i));
  }
  return stages;
}

ExportedPlan::ExportedPlan(const PlanContents &plan, const Entry &entry)
    : plan(plan), entry(entry), parameters(placedParameters(plan, entry)), inputs(placedInputs(plan, entry)),
      outputs(placedOutputs(plan, entry)), stages(exportedStages(entry)) {
  std::set<uint32_t> used;
  for (const ExportedStage &stage : stages)
    used.insert(stage.mesh);
  for (const Operator &op : entry.operators)
    used.insert(op.mesh);
  for (const auto *tensors : {&parameters, &inputs, &outputs})
    for (const PlacedTensor &tensor : *tensors)
      for (const Placement &placement : tensor.placements)
        used.insert(placement.mesh);
  meshes.assign(used.begin(), used.end());
  // What the compiler was told stands in the settings, what it chose in the prediction.
  for (const Setting &setting : plan.settings)
    if (setting.name == "microbatches" && llvm::StringRef(setting.value).getAsInteger(10, microbatches))
      microbatches = 1;
  if (entry.prediction) {
    microbatches = entry.prediction->microbatches;
    schedule = entry.prediction->schedule;
  }
}

std::vector<Degree> ExportedPlan::degrees() const {
  return entry.prediction ? entry.prediction->degrees : std::vector<Degree>();
}

} // namespace cleave::tool
