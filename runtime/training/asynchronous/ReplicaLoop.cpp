// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds of replicas between checkpoints and epochs.

#include "runtime/training/asynchronous/ReplicaLoop.h"

#include "runtime/training/Stopwatch.h"

#include <algorithm>
#include <numeric>
#include <thread>

namespace cleave::runtime {

/// A replica's devices, and what its steps read and write.
class ReplicaLoop::Replica {
public:
  Replica(Plan plan, uint32_t number, ReplicaTrial trial) : plan(std::move(plan)), number(number), trial(trial) {}

  static constexpr const char *prefix = "replica";
  std::string nameOf(const std::string &parameter) const { return prefix + std::to_string(number) + "/" + parameter; }

  Error create(ParameterSource &parameters, std::span<const NamedTensor> restored, ExecutorOptions executorOptions,
               const TrainingData &data) {
    std::vector<std::string> names = {"train"};
    if (plan->replicas->localSteps != 0)
      names.insert(names.end(), {fetchEntryName, giveEntryName});
    values.emplace(parameters);
    if (restored.empty())
      setCounters();
    else if (Error error = restoreOwn(restored))
      return error;
    auto created = Executor::create(plan, names, *values, std::move(executorOptions));
    if (!created)
      return created.error();
    executor = std::move(*created);
    std::vector<uint32_t> all(names.size());
    std::iota(all.begin(), all.end(), 0u);
    for (uint32_t entry : all) {
      auto made = allocateTensors(executor->entry(entry).outputs);
      if (!made)
        return made.error();
      for (size_t i = 0; i != made->size(); ++i)
        if (const Port &port = executor->entry(entry).outputs[i]; port.parameter)
          gifts[*port.parameter].push_back((*made)[i]);
      outputs.push_back(std::move(*made));
    }
    auto allocated = data.allocate();
    if (!allocated)
      return allocated.error();
    batch = std::move(*allocated);
    return findOutputs();
  }

  Error findOutputs() {
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
  Error restoreOwn(std::span<const NamedTensor> restored) {
    for (uint32_t index : ownParameters()) {
      const Parameter &parameter = plan->parameters[index];
      auto found = std::ranges::find(restored, nameOf(parameter.name), &NamedTensor::name);
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
  void setCounters() {
    if (number == 0)
      return;
    for (uint32_t index : ownParameters()) {
      const Parameter &parameter = plan->parameters[index];
      if (parameter.type.element != ElementType::I64 || parameter.type.elementCount() != 1u ||
          parameter.name == "train/step")
        continue;
      constexpr unsigned apart = 40;
      auto &counter = counters.emplace_back(HostTensor());
      auto tensor = HostTensor::allocate(parameter.type);
      if (!tensor)
        continue;
      counter = *tensor;
      counter.as<int64_t>()[0] = static_cast<int64_t>(number) << apart;
      values->add(parameter.name, counter.bytes());
    }
  }

  /// What steps and exchanges keep and no version brings.
  std::set<uint32_t> ownParameters() const {
    std::set<uint32_t> kept = keptParameters(**plan.entry("train"));
    if (plan->replicas->localSteps == 0)
      return kept;
    kept.merge(keptParameters(**plan.entry(giveEntryName)));
    for (uint32_t brought : keptParameters(**plan.entry(fetchEntryName)))
      kept.erase(brought);
    return kept;
  }

  Error run(uint32_t entry, const ParameterTensors *version) {
    std::vector<HostTensor> inputs;
    size_t next = 0;
    for (const Port &port : executor->entry(entry).inputs)
      inputs.push_back(port.parameter ? version->at(*port.parameter) : batch.inputs()[next++]);
    auto ticket = executor->submit(entry, std::move(inputs), outputs[entry]);
    if (!ticket)
      return ticket.error();
    return executor->wait(*ticket).error();
  }

  Expected<StepOutcome> step(const TrainingData &data, std::span<const uint64_t> samples,
                             const ParameterTensors *version) {
    data.fill(batch, 0, samples);
    Stopwatch stopwatch;
    ++steps;
    if (trial.fails == steps)
      return makeError(Status::Failure, "fails in its step ", steps, ", as --try-replica says");
    if (Error error = run(0, version))
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

  /// "replica 2 (cpu2)".
  std::string text() const {
    uint32_t first = number * plan->replicas->devices, count = plan->replicas->devices;
    std::string devices = plan->devices[first].name;
    if (count > 1)
      devices += " to " + plan->devices[first + count - 1].name;
    return "replica " + std::to_string(number) + " (" + devices + ")";
  }

  const Plan plan;
  const uint32_t number;
  const ReplicaTrial trial;
  std::optional<ValueSource> values;
  std::vector<HostTensor> counters;
  std::unique_ptr<Executor> executor;
  Batch batch;
  std::vector<std::vector<HostTensor>> outputs; ///< by entry
  Gifts gifts;                                  ///< those of the outputs that are
  /// Positions of outputs of "train".
  uint32_t loss = 0;
  std::optional<uint32_t> correct, counted;
  uint64_t steps = 0;
};

ReplicaLoop::ReplicaLoop(const TrainContext &context, const TrainingData &data, const TrainingData *evaluation,
                         const TrainSchedule &schedule, TrainObserver &observer, const ReplicaOptions &options)
    : TrainLoop(context, data, evaluation, schedule, observer), options(options), replicas(*context.plan->replicas) {}

ReplicaLoop::~ReplicaLoop() = default;

/// Threads that the devices of a replica compute with.
static unsigned threadsOf(const PlanContents &plan) {
  unsigned threads = 0;
  for (uint32_t device = 0; device != plan.replicas->devices; ++device)
    threads += plan.devices[device].cores;
  return threads;
}

Error ReplicaLoop::create(ParameterSource &parameters, std::span<const NamedTensor> restored, uint64_t seed) {
  RecordedRun run{replicas, seed};
  if (!options.replayFile.empty()) {
    auto read = SyncRecord::read(options.replayFile);
    if (!read)
      return read.error();
    run.replicas.devices = 0;
    if (read->run != run)
      return makeError(Status::Failure,
                       "--replay expects the record of a run with this plan's replicas and this --seed, "
                       "got another in \"",
                       options.replayFile, "\"");
    replay = std::move(*read);
  }
  if (!options.recordFile.empty()) {
    auto opened = RecordWriter::open(options.recordFile, run);
    if (!opened)
      return opened.error();
    record.emplace(std::move(*opened));
  }
  // One more than there are would lose what it kept.
  std::string next = Replica::prefix + std::to_string(replicas.count) + "/";
  if (std::ranges::any_of(restored, [&](const NamedTensor &tensor) { return tensor.name.starts_with(next); }))
    return makeError(Status::Failure, "the checkpoint has the state of more replicas than the plan's ", replicas.count,
                     "; compile with the --replicas that wrote it");
  unsigned threads = threadsOf(*context.plan);
  for (uint32_t number = 0; number != replicas.count; ++number) {
    auto trial = options.trials.find(number);
    auto worker = std::make_unique<Replica>(context.plan.ofReplica(number), number,
                                            trial == options.trials.end() ? ReplicaTrial() : trial->second);
    ExecutorOptions executorOptions;
    executorOptions.threadsBefore = number * threads;
    executorOptions.threadsBehind = (replicas.count - 1 - number) * threads;
    if (Error error = worker->create(parameters, restored, std::move(executorOptions), data))
      return Error(error.status(), worker->text() + ": " + error.message(), error.node());
    workers.push_back(std::move(worker));
  }
  keeper = std::make_unique<VersionKeeper>(context.plan, *context.executor, 0);
  keeper->setRecord(record ? &*record : nullptr, replay ? &*replay : nullptr);
  return keeper->readFirst();
}

Error ReplicaLoop::settle() { return keeper->stepsSinceExchange() == 0 ? Error::success() : runRound({}, 0, 0); }

Expected<std::vector<NamedTensor>> ReplicaLoop::ownState() const {
  std::vector<NamedTensor> tensors;
  for (const auto &worker : workers)
    for (uint32_t index : worker->ownParameters()) {
      const Parameter &parameter = context.plan->parameters[index];
      auto tensor = HostTensor::allocate(parameter.type);
      if (!tensor)
        return tensor.error();
      if (Error error = worker->executor->readState(index, *tensor))
        return error;
      tensors.push_back({worker->nameOf(parameter.name), *tensor});
    }
  return tensors;
}

std::vector<DeviceMemory> ReplicaLoop::memory() const {
  std::vector<DeviceMemory> all;
  for (const auto &worker : workers)
    for (const DeviceMemory &memory : worker->executor->memory())
      all.push_back(memory);
  // The keeper's arenas are on the first replica's devices.
  for (const DeviceMemory &memory : context.executor->memory())
    for (DeviceMemory &device : all)
      if (device.device == memory.device) {
        device.plannedBytes += memory.plannedBytes;
        device.allocatedBytes += memory.allocatedBytes;
        device.liveBytes += memory.liveBytes;
      }
  return all;
}

uint64_t ReplicaLoop::batchSize() const {
  return static_cast<uint64_t>(replicas.count) * workers.front()->executor->entry().samples;
}

Error ReplicaLoop::runSteps() {
  countsCorrect = workers.front()->correct.has_value();
  weighsLabels = workers.front()->counted.has_value();
  auto order = data.rest(position.seed, position.epoch, position.sample);
  if (!order)
    return order.error();
  order->batches.resize(order->batches.size() - order->batches.size() % replicas.count);
  uint64_t all = order->batches.size() / replicas.count, next = 0;
  stepsOfEpoch = position.epochSteps + all;
  seconds = 0;
  while (next != all && (!schedule.steps || position.steps < *schedule.steps) && !isStopped()) {
    uint64_t count = all - next;
    if (schedule.steps)
      count = std::min(count, *schedule.steps - position.steps);
    if (schedule.checkpointEvery != 0)
      count = std::min(count, schedule.checkpointEvery - position.steps % schedule.checkpointEvery);
    uint64_t before = position.steps;
    Stopwatch stopwatch;
    if (Error error = runRound(*order, next * replicas.count, count * replicas.count))
      return error;
    seconds += stopwatch.seconds();
    next += position.steps - before;
    bool isCut = position.steps - before != count;
    // The record's end is the run's.
    if (isCut && replay)
      schedule.steps = position.steps;
    if (position.steps != before && isDue(position.steps))
      if (Error error = checkpoint())
        return error;
  }
  epochIsOver = next == all;
  return Error::success();
}

void ReplicaLoop::note(const StepOutcome &outcome, uint64_t samples, uint64_t labels) {
  double weight = outcome.count ? static_cast<double>(*outcome.count) : 1;
  partial.loss += outcome.loss * weight;
  if (outcome.correct)
    partial.correct = partial.correct.value_or(0) + *outcome.correct;
  if (outcome.count)
    partial.count = partial.count.value_or(0) + *outcome.count;
  partialSamples += samples;
  partialLabels += labels;
  if (++partialSteps != replicas.count)
    return;
  double weights = partial.count ? static_cast<double>(*partial.count) : static_cast<double>(replicas.count);
  partial.loss /= std::max(1.0, weights);
  count(partial, partialSamples, partialLabels);
  partial = {};
  partialSteps = partialSamples = partialLabels = 0;
}

Error ReplicaLoop::runRound(const BatchOrder &order, uint64_t first, uint64_t count) {
  if (Error error = keeper->beginRound(position.epoch, position.sample, count, [this] { return !isStopped(); }))
    return error;
  std::vector<std::thread> threads;
  for (const auto &worker : workers)
    threads.emplace_back([&, replica = worker.get()] { work(*replica, order, first); });
  for (std::thread &thread : threads)
    thread.join();
  return keeper->failure();
}

/// A replica's samples of a batch. Those that step together take what devices of a synchronous step take: a part of
/// each microbatch, so that both compute the same.
static std::vector<uint64_t> samplesOf(const BatchOrder &order, uint64_t batch, const Replicas &replicas,
                                       const Entry &entry) {
  const BatchOrder::Item &item = order.batches[batch];
  std::span<const uint64_t> own = order.samplesOf(item);
  uint64_t microbatches = entry.prediction ? entry.prediction->microbatches : 1;
  if (!replicas.areTogether() || microbatches < 2 || item.count % microbatches != 0)
    return {own.begin(), own.end()};
  uint64_t part = item.count / microbatches, replica = batch % replicas.count;
  uint64_t step = item.begin - replica * item.count;
  std::vector<uint64_t> samples;
  for (uint64_t microbatch = 0; microbatch != microbatches; ++microbatch) {
    uint64_t begin = step + (microbatch * replicas.count + replica) * part;
    for (uint64_t sample = begin; sample != begin + part; ++sample)
      samples.push_back(order.samples[sample]);
  }
  return samples;
}

void ReplicaLoop::work(Replica &replica, const BatchOrder &order, uint64_t first) {
  struct Done {
    StepOutcome outcome;
    uint64_t samples, labels;
  };
  auto lose = [&](const ReplicaTask &task, const Error &error) {
    Error named(error.status(), replica.text() + " " + error.message(), error.node());
    keeper->lose(replica.number, task, named, options.goOn, [&] { observer.onLostReplica(named); });
  };
  const bool isLocal = replicas.localSteps != 0;
  std::vector<Done> done;
  while (auto task = keeper->begin(replica.number)) {
    done.clear();
    if (isLocal && task->takes)
      if (Error error = replica.run(1, task->version.get()))
        return lose(*task, error);
    for (uint64_t step = 0; step != task->steps; ++step) {
      std::vector<uint64_t> samples =
          samplesOf(order, first + task->batch + step * task->stride, replicas, replica.executor->entry());
      auto outcome = replica.step(data, samples, task->version.get());
      if (!outcome)
        return lose(*task, outcome.error());
      done.push_back({*outcome, samples.size(), replica.batch.labels});
    }
    if (isLocal && task->gives)
      if (Error error = replica.run(2, nullptr))
        return lose(*task, error);
    // The version is others' to fill again, if nobody else reads it.
    task->version.reset();
    if (keeper->give(replica.number, *task, replica.gifts, [&] {
          for (const Done &each : done)
            note(each.outcome, each.samples, each.labels);
        }))
      return;
  }
}

} // namespace cleave::runtime
