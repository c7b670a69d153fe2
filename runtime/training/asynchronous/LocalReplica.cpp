// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A replica's executor, and what its steps read and write.

#include "runtime/training/asynchronous/LocalReplica.h"

#include "runtime/training/Stopwatch.h"

#include <algorithm>
#include <numeric>
#include <thread>

namespace cleave::runtime {

/// Entries of a replica, by their numbers in its executor.
enum : uint32_t { TrainEntry, FetchEntry, GiveEntry, MergeEntry };

/// Threads that the devices of a replica compute with.
static unsigned threadsOf(const PlanContents &plan) {
  unsigned threads = 0;
  for (uint32_t device = 0; device != plan.replicas->devices; ++device)
    threads += plan.devices[device].cores;
  return threads;
}

Error LocalReplica::create(ParameterSource &parameters, std::span<const NamedTensor> restored, bool shared) {
  Error error = make(parameters, restored, shared);
  return error ? Error(error.status(), text() + ": " + error.message(), error.node()) : error;
}

Error LocalReplica::make(ParameterSource &parameters, std::span<const NamedTensor> restored, bool shared) {
  std::vector<std::string> names = {"train"};
  if (plan->replicas->localSteps != 0)
    names.insert(names.end(), {fetchEntryName, giveEntryName});
  if (plan->replicas->overlap != 0)
    names.push_back(mergeEntryName);
  values.emplace(parameters);
  if (Error error = restored.empty() ? setCounters() : restoreOwn(restored))
    return error;
  ExecutorOptions executorOptions;
  executorOptions.pin = !shared;
  executorOptions.threadsBefore = number * threadsOf(*plan);
  executorOptions.threadsBehind = (plan->replicas->count - 1 - number) * threadsOf(*plan);
  auto created = Executor::create(plan, names, *values, std::move(executorOptions));
  if (!created)
    return created.error();
  executor = std::move(*created);
  for (uint32_t entry = 0; entry != names.size(); ++entry) {
    auto made = allocateTensors(executor->entry(entry).outputs);
    if (!made)
      return made.error();
    for (size_t i = 0; i != made->size(); ++i)
      if (const Port &port = executor->entry(entry).outputs[i]; port.parameter)
        given[*port.parameter].push_back((*made)[i]);
    outputs.push_back(std::move(*made));
  }
  auto allocated = data.allocate();
  if (!allocated)
    return allocated.error();
  batch = std::move(*allocated);
  return findOutputs();
}

Error LocalReplica::findOutputs() {
  const Entry &entry = executor->entry(0);
  auto foundLoss = findNumber(entry, "loss", true), foundCorrect = findNumber(entry, "correct", false),
       foundCount = findNumber(entry, "count", false);
  for (const auto *found : {&foundLoss, &foundCorrect, &foundCount})
    if (!*found)
      return found->error();
  if (!*foundLoss)
    return makeError(Status::Rejected, "entry \"", entry.name, "\" expects an output \"loss\", got none");
  loss = **foundLoss;
  correct = *foundCorrect;
  counted = *foundCount;
  return Error::success();
}

/// Gives what the replica keeps for itself the checkpoint's values: all of it, or the replica would begin anew beside
/// others that go on.
Error LocalReplica::restoreOwn(std::span<const NamedTensor> restored) {
  for (uint32_t index : ownParameters(plan)) {
    const Parameter &parameter = plan->parameters[index];
    auto found = std::ranges::find(restored, ownStateName(number, parameter.name), &NamedTensor::name);
    if (found == restored.end())
      return makeError(Status::Failure, "expects its own \"", parameter.name,
                       "\" in the checkpoint, got none; compile with the --sync and --replicas that wrote it");
    if (found->tensor.type() != parameter.type)
      return makeError(Status::Failure, "expects ", parameter.type.text(), " for \"", parameter.name,
                       "\" in the checkpoint, got ", found->tensor.type().text());
    values->add(parameter.name, found->tensor.bytes());
  }
  return Error::success();
}

/// Dropout of each replica goes on elsewhere in the sequence of random numbers.
Error LocalReplica::setCounters() {
  if (number == 0)
    return Error::success();
  for (uint32_t index : ownParameters(plan)) {
    const Parameter &parameter = plan->parameters[index];
    if (parameter.type.element != ElementType::I64 || parameter.type.elementCount() != 1u ||
        parameter.name == "train/step")
      continue;
    constexpr unsigned apart = 40;
    auto tensor = HostTensor::allocate(parameter.type);
    if (!tensor)
      return tensor.error();
    tensor->as<int64_t>()[0] = static_cast<int64_t>(number) << apart;
    counters.push_back(*tensor);
    values->add(parameter.name, counters.back().bytes());
  }
  return Error::success();
}

Error LocalReplica::runEntry(uint32_t entry, const ParameterTensors *version) {
  std::vector<HostTensor> inputs;
  size_t next = 0;
  for (const Port &port : executor->entry(entry).inputs)
    inputs.push_back(port.parameter ? version->at(*port.parameter) : batch.inputs()[next++]);
  return executor->run(entry, std::move(inputs), outputs[entry]).error();
}

Expected<StepOutcome> LocalReplica::step(std::span<const uint64_t> samples, const ParameterTensors *version) {
  data.fill(batch, 0, samples);
  Stopwatch stopwatch;
  ++steps;
  if (trial.fails == steps)
    return makeError(Status::Failure, "fails in its step ", steps, ", as --try-replica says");
  if (Error error = runEntry(TrainEntry, version))
    return error;
  StepOutcome outcome;
  auto number = [&](uint32_t output) {
    const HostTensor &tensor = outputs[0][output];
    return loadElement(tensor.type().element, tensor.bytes().data());
  };
  outcome.loss = number(loss);
  if (correct)
    outcome.correct = static_cast<uint64_t>(number(*correct));
  if (counted)
    outcome.count = static_cast<uint64_t>(number(*counted));
  if (trial.slowdown > 1)
    std::this_thread::sleep_for(std::chrono::duration<double>(stopwatch.seconds() * (trial.slowdown - 1)));
  return outcome;
}

Error LocalReplica::runSteps(const ReplicaWork &work, uint64_t end, std::vector<ReplicaOutcome> &done) {
  while (done.size() != end) {
    const std::vector<uint64_t> &samples = work.samples[done.size()];
    auto outcome = step(samples, work.version);
    if (!outcome)
      return outcome.error();
    done.push_back({*outcome, samples.size(), batch.labels});
  }
  return Error::success();
}

Expected<std::vector<ReplicaOutcome>> LocalReplica::run(const ReplicaWork &work) {
  const bool isLocal = plan->replicas->localSteps != 0;
  Error error;
  if (work.merges)
    error = runEntry(MergeEntry, held.get());
  else if (isLocal && work.version)
    error = runEntry(FetchEntry, work.version);
  if (work.merges || work.version)
    held.reset();
  std::vector<ReplicaOutcome> done;
  if (!error)
    error = runSteps(work, work.exchangesAfter.value_or(work.samples.size()), done);
  if (!error && isLocal && (work.gives || work.exchangesAfter))
    error = runEntry(GiveEntry, nullptr);
  if (error)
    return error;
  if (!work.exchangesAfter)
    return done;
  Error exchanged;
  std::thread exchange([&] {
    auto version = work.exchange(given);
    exchanged = version.error();
    if (version)
      held = std::move(*version);
  });
  error = runSteps(work, work.samples.size(), done);
  exchange.join();
  if (error || exchanged)
    return error ? error : exchanged;
  return done;
}

Expected<std::vector<NamedTensor>> LocalReplica::ownState() {
  std::vector<NamedTensor> tensors;
  for (uint32_t index : ownParameters(plan)) {
    const Parameter &parameter = plan->parameters[index];
    auto tensor = HostTensor::allocate(parameter.type);
    if (!tensor)
      return tensor.error();
    if (Error error = executor->readState(index, *tensor))
      return error;
    tensors.push_back({ownStateName(number, parameter.name), *tensor});
  }
  return tensors;
}

} // namespace cleave::runtime
