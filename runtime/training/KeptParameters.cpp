// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches a plan's parameters with tensors by name.

#include "runtime/training/KeptParameters.h"

#include "runtime/JoinResults.h"
#include "runtime/training/LearningRate.h"

#include <algorithm>

namespace cleave::runtime {

std::set<uint32_t> keptParameters(const Entry &entry) {
  std::set<uint32_t> kept;
  for (const Program &program : entry.programs)
    for (const State &state : program.state)
      kept.insert(state.parameter);
  return kept;
}

static bool isInPipeline(const Parameter &parameter) { return parameter.name.starts_with(pipelinePrefix); }

std::set<uint32_t> checkpointParameters(const PlanContents &plan, const Entry &entry) {
  std::set<uint32_t> needed = keptParameters(entry);
  std::erase_if(needed, [&](uint32_t parameter) { return isInPipeline(plan.parameters[parameter]); });
  return needed;
}

std::set<uint32_t> modelParameters(const PlanContents &plan, const std::set<uint32_t> &kept) {
  std::set<std::string> names;
  for (uint32_t parameter : kept)
    names.insert(plan.parameters[parameter].name);
  std::set<uint32_t> models;
  for (uint32_t parameter : kept) {
    const std::string &name = plan.parameters[parameter].name;
    std::string owner = name.substr(0, std::min(name.rfind('/'), name.size()));
    if (!isInPipeline(plan.parameters[parameter]) && (owner == name || (owner != "train" && !names.contains(owner))))
      models.insert(parameter);
  }
  return models;
}

Expected<std::vector<NamedTensor>> readParameters(const TrainContext &context, const std::set<uint32_t> &parameters) {
  std::vector<NamedTensor> tensors;
  for (uint32_t index : parameters) {
    const Parameter &parameter = context.plan->parameters[index];
    auto tensor = HostTensor::allocate(parameter.type);
    Error error = tensor ? context.executor->readState(index, *tensor) : tensor.error();
    if (Error failed = context.processes ? context.processes->agree(error) : error)
      return failed;
    if (context.processes)
      joinState(*context.processes, context.plan, context.executor->entry(), context.rankOfDevice, index, *tensor);
    if (!context.processes || context.processes->rank() == 0)
      tensors.push_back({parameter.name, *tensor});
  }
  return tensors;
}

Error restore(const PlanContents &plan, const Entry &entry, const Checkpoint &checkpoint, ValueSource &source,
              std::string &notice) {
  size_t used = 0;
  for (uint32_t index : checkpointParameters(plan, entry)) {
    const Parameter &parameter = plan.parameters[index];
    auto found = std::ranges::find(checkpoint.tensors, parameter.name, &NamedTensor::name);
    if (found == checkpoint.tensors.end())
      return makeError(Status::Failure, "checkpoint ", checkpoint.folder, " expects a tensor \"", parameter.name,
                       "\", which the plan's steps write, got none; compile with the optimizer that wrote it");
    if (found->tensor.type() != parameter.type)
      return makeError(Status::Failure, "checkpoint ", checkpoint.folder, ": tensor \"", parameter.name, "\" expects ",
                       parameter.type.text(), ", got ", found->tensor.type().text());
    source.add(parameter.name, found->tensor.bytes());
    ++used;
  }
  used += static_cast<size_t>(std::ranges::count_if(
      checkpoint.tensors, [](const NamedTensor &tensor) { return isOfLearningRate(tensor.name); }));
  // Those of replicas are theirs to take.
  if (plan.replicas)
    used += static_cast<size_t>(std::ranges::count_if(
        checkpoint.tensors, [](const NamedTensor &tensor) { return tensor.name.starts_with("replica"); }));
  if (used != checkpoint.tensors.size())
    notice = "the checkpoint has " + std::to_string(checkpoint.tensors.size() - used) +
             " tensors more than the plan's steps write; they are left out";
  return Error::success();
}

} // namespace cleave::runtime
