// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/training/LearningRate.h"

#include <algorithm>
#include <cstring>

namespace cleave::runtime {

/// The numbers that the plan's steps begin with; nothing where they read none.
static std::optional<RateSchedule> scheduleOf(const PlanContents &plan) {
  RateSchedule schedule;
  for (auto [name, member] : rateParameters) {
    auto found = std::ranges::find(plan.parameters, name, &Parameter::name);
    if (found == plan.parameters.end() || found->type.element != ElementType::F64 || found->type.elementCount() != 1u)
      return std::nullopt;
    const auto *value = std::get_if<GeneratedSource>(&found->source);
    if (!value || value->distribution != Distribution::Constant)
      return std::nullopt;
    schedule.*member = value->a;
  }
  return schedule;
}

/// Replaces the numbers that the checkpoint has.
static Error readCheckpoint(const Checkpoint &checkpoint, RateSchedule &schedule) {
  for (auto [name, member] : rateParameters) {
    auto found = std::ranges::find(checkpoint.tensors, name, &NamedTensor::name);
    if (found == checkpoint.tensors.end())
      continue;
    std::span<const std::byte> bytes = found->tensor.bytes();
    if (found->tensor.type().element != ElementType::F64 || bytes.size() != sizeof(double))
      return makeError(Status::Failure, "checkpoint ", checkpoint.folder, ": tensor \"", name, "\" expects f64[], got ",
                       found->tensor.type().text());
    std::memcpy(&(schedule.*member), bytes.data(), sizeof(double));
  }
  return Error::success();
}

Expected<LearningRate> LearningRate::read(const PlanContents &plan, const Checkpoint *checkpoint,
                                          const Request &request) {
  LearningRate result;
  std::optional<RateSchedule> schedule = scheduleOf(plan);
  if (!schedule) {
    if (request.isGiven())
      return makeError(Status::Usage, request.rate ? "--learning-rate" : "--lr-schedule",
                       " expects a plan whose steps read their learning rate, got one in whose kernels it is a "
                       "constant; compile the model again");
    return result;
  }
  // Replicas that do not wait for each other make a version each while one of them makes a step.
  if (plan.replicas && plan.replicas->localSteps == 0 && !plan.replicas->areTogether())
    result.updatesPerStep = plan.replicas->count;
  if (checkpoint)
    if (Error error = readCheckpoint(*checkpoint, *schedule))
      return error;
  if (!request.schedule.empty()) {
    auto parsed = RateSchedule::parse(request.schedule, schedule->rate);
    if (!parsed)
      return parsed.error();
    schedule = parsed->stretched(result.updatesPerStep);
  }
  schedule->rate = request.rate.value_or(schedule->rate);
  if (!schedule->isValid())
    return makeError(Status::Rejected, checkpoint ? "the checkpoint " + checkpoint->folder.string() : "the plan",
                     " has a learning rate or schedule that cannot be; give --learning-rate and --lr-schedule");
  result.schedule = schedule;
  return result;
}

void LearningRate::addTo(ValueSource &source) const {
  if (schedule)
    for (auto [name, member] : rateParameters)
      source.add(std::string(name), std::as_bytes(std::span(&(*schedule.*member), 1)));
}

Expected<std::vector<NamedTensor>> LearningRate::tensors() const {
  std::vector<NamedTensor> tensors;
  if (schedule)
    for (auto [name, member] : rateParameters) {
      auto tensor = HostTensor::allocate({ElementType::F64, {}, {}});
      if (!tensor)
        return tensor.error();
      tensor->as<double>()[0] = *schedule.*member;
      tensors.push_back({std::string(name), *tensor});
    }
  return tensors;
}

std::optional<double> LearningRate::ofStep(uint64_t step) const {
  return schedule ? std::optional(schedule->at((step - 1) * updatesPerStep)) : std::nullopt;
}

bool isOfLearningRate(std::string_view name) {
  return std::ranges::any_of(rateParameters, [&](const auto &parameter) { return parameter.first == name; });
}

} // namespace cleave::runtime
