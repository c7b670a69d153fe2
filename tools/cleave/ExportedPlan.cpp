// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers what there is to export of a plan.

#include "tools/cleave/ExportedPlan.h"

#include "compiler/SettingDefaults.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <set>

namespace cleave::tool {

using namespace runtime;

static std::vector<ExportedStage> exportedStages(const Entry &entry) {
  std::vector<ExportedStage> stages;
  bool isPlanned = entry.prediction && !entry.prediction->stages.empty();
  if (isPlanned)
    for (const PlanStage &stage : entry.prediction->stages)
      stages.push_back({stage.mesh, {}, {}, &stage});
  else
    for (const Program &program : entry.programs)
      stages.push_back({program.mesh, {}, {}, nullptr});
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

/// Gives each of the model's parameters to the stage of the first operator that reads it.
static void addParameters(std::vector<ExportedStage> &stages, const PlanContents &plan, const Entry &entry,
                          llvm::ArrayRef<PlacedTensor> parameters) {
  std::vector<ExportedStage *> stageOf(entry.operators.size());
  for (ExportedStage &stage : stages)
    for (uint32_t op : stage.operators)
      stageOf[op] = &stage;
  std::vector<ExportedStage *> home(plan.parameters.size());
  for (auto [op, stage] : llvm::zip_equal(entry.operators, stageOf))
    for (uint32_t parameter : op.parameters)
      if (!home[parameter])
        home[parameter] = stage;
  llvm::StringMap<ExportedStage *> byName;
  for (auto [parameter, stage] : llvm::zip_equal(plan.parameters, home))
    byName[parameter.name] = stage;
  for (auto [i, tensor] : llvm::enumerate(parameters))
    if (ExportedStage *stage = byName.lookup(tensor.name); stage && tensor.role == TensorRole::Model)
      stage->parameters.push_back(i);
}

/// Strategies other than the search cut by the axes of their one mesh.
static std::vector<Degree> degreesOf(const PlanContents &plan, const Entry &entry,
                                     llvm::ArrayRef<ExportedStage> stages) {
  if (entry.prediction && !entry.prediction->degrees.empty())
    return entry.prediction->degrees;
  std::vector<Degree> degrees;
  if ((plan.strategy == "data" || plan.strategy == "tensor") && stages.size() == 1)
    for (const Axis &axis : plan.meshes[stages.front().mesh].axes)
      degrees.push_back({axis.name, axis.size});
  return degrees;
}

static uint64_t batchOf(const PlanContents &plan, const Entry &entry) {
  uint64_t batch = entry.samples;
  if (batch == 0 && !entry.inputs.empty() && !entry.inputs.front().type.shape.empty())
    batch = static_cast<uint64_t>(entry.inputs.front().type.shape.front());
  // The entry of a decision has as many samples as the planner wanted to cost.
  for (const Setting &setting : plan.settings)
    if (setting.name == "batch" && entry.isDecision())
      llvm::StringRef(setting.value).getAsInteger(10, batch);
  return batch;
}

ExportedPlan::ExportedPlan(const PlanContents &plan, const Entry &entry)
    : plan(plan), entry(entry), parameters(placedParameters(plan, entry)), inputs(placedInputs(plan, entry)),
      outputs(placedOutputs(plan, entry)), stages(exportedStages(entry)), batch(batchOf(plan, entry)),
      degrees(degreesOf(plan, entry, stages)), settings(completeSettings(plan.settings)),
      hyperparameters(hyperparametersOf(plan.settings)) {
  addParameters(stages, plan, entry, parameters);
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
    chunks = entry.prediction->chunks;
  }
}

std::vector<std::pair<uint32_t, size_t>> ExportedPlan::splitPoints() const {
  std::vector<std::pair<uint32_t, size_t>> points;
  for (auto [number, stage] : llvm::enumerate(stages))
    for (uint32_t op : stage.operators)
      if (entry.isDecision() || op == stage.operators.front())
        points.emplace_back(op, number);
  llvm::sort(points);
  // Of operators in a row in one stage the first; the model begins with the first of all.
  points.erase(std::unique(points.begin(), points.end(), [](auto &a, auto &b) { return a.second == b.second; }),
               points.end());
  if (!points.empty())
    points.erase(points.begin());
  return points;
}

bool ExportedPlan::placesParameters() const {
  return !entry.isDecision() || llvm::all_of(entry.operators, [](const Operator &op) {
    return op.parameterBytes == 0 || !op.parameters.empty();
  });
}

} // namespace cleave::tool
