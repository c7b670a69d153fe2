// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds of replicas between checkpoints and epochs.

#include "runtime/training/asynchronous/ReplicaLoop.h"

#include "runtime/training/Stopwatch.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>
#include <csignal>
#include <thread>

namespace cleave::runtime {

ReplicaLoop::ReplicaLoop(const TrainContext &context, const TrainingData &data, const TrainingData *evaluation,
                         const TrainSchedule &schedule, TrainObserver &observer, const ReplicaOptions &options,
                         Messages *messages)
    : TrainLoop(context, data, evaluation, schedule, observer), options(options), replicas(*context.plan->replicas),
      entry(**context.plan.entry("train")), messages(messages), uncounted(replicas.count) {}

ReplicaLoop::~ReplicaLoop() = default;

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
  std::string next = ownStateName(replicas.count, "");
  if (std::ranges::any_of(restored, [&](const NamedTensor &tensor) { return tensor.name.starts_with(next); }))
    return makeError(Status::Failure, "the checkpoint has the state of more replicas than the plan's ", replicas.count,
                     "; compile with the --replicas that wrote it");
  for (uint32_t number = 0; number != replicas.count; ++number)
    if (Error error = add(number, parameters, restored))
      return error;
  keeper = std::make_unique<VersionKeeper>(context.plan, *context.executor, 0);
  keeper->setRecord(record ? &*record : nullptr, replay ? &*replay : nullptr);
  return keeper->readFirst();
}

Error ReplicaLoop::add(uint32_t number, ParameterSource &parameters, std::span<const NamedTensor> restored) {
  uint32_t rank = options.rankOf(number);
  if (rank != 0) {
    auto worker = std::make_unique<RemoteReplica>(context.plan, number, rank, *messages);
    remote.push_back(worker.get());
    workers.push_back(std::move(worker));
    return remote.back()->create();
  }
  auto worker = std::make_unique<LocalReplica>(context.plan, number, data, options.trialOf(number));
  if (Error error = worker->create(parameters, restored, messages != nullptr))
    return error;
  local.push_back(worker.get());
  workers.push_back(std::move(worker));
  return Error::success();
}

Error ReplicaLoop::prepareForLosses() {
  if (!options.goOn)
    return Error::success();
  for (RemoteReplica *replica : remote)
    if (Error error = replica->rememberState())
      return Error(error.status(), replica->text() + " " + error.message(), error.node());
  if (Logbook *book = Logbook::own(); book && !remote.empty()) {
    // What MPI writes to a connection that has ended must not end this process.
    std::signal(SIGPIPE, SIG_IGN);
    book->setAfterLoss(AfterLoss::GoOn);
  }
  return Error::success();
}

bool ReplicaLoop::end(int code) {
  bool isSomebodyGone = std::ranges::any_of(remote, &RemoteReplica::isGone);
  for (RemoteReplica *replica : remote)
    replica->end({code, isSomebodyGone ? 1u : 0u});
  return isSomebodyGone;
}

Error ReplicaLoop::settle() {
  if (keeper->stepsSinceExchange() != 0)
    return runRound({}, 0, 0);
  keeper->settle();
  return Error::success();
}

Expected<std::vector<NamedTensor>> ReplicaLoop::ownState() const {
  std::vector<NamedTensor> tensors;
  for (const auto &worker : workers) {
    auto own = worker->ownState();
    if (!own)
      return own.error();
    tensors.insert(tensors.end(), own->begin(), own->end());
  }
  return tensors;
}

std::vector<DeviceMemory> ReplicaLoop::memory() const {
  std::vector<DeviceMemory> all;
  for (const LocalReplica *replica : local)
    for (const DeviceMemory &memory : replica->memory())
      all.push_back(memory);
  // The keeper has arenas of its own, perhaps on devices of replicas.
  for (const DeviceMemory &memory : context.executor->memory()) {
    auto device = std::ranges::find(all, memory.device, &DeviceMemory::device);
    if (device == all.end()) {
      all.push_back(memory);
      continue;
    }
    device->plannedBytes += memory.plannedBytes;
    device->allocatedBytes += memory.allocatedBytes;
    device->liveBytes += memory.liveBytes;
  }
  return all;
}

uint64_t ReplicaLoop::batchSize() const { return static_cast<uint64_t>(replicas.count) * entry.samples; }

Error ReplicaLoop::runSteps() {
  auto correct = findNumber(entry, "correct", false), counted = findNumber(entry, "count", false);
  for (const auto *found : {&correct, &counted})
    if (!*found)
      return found->error();
  countsCorrect = correct->has_value();
  weighsLabels = counted->has_value();
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

void ReplicaLoop::note(uint32_t number, const std::vector<ReplicaOutcome> &outcomes) {
  if (!replicas.areTogether()) {
    for (const ReplicaOutcome &each : outcomes)
      count(each);
    return;
  }
  uncounted[number].insert(uncounted[number].end(), outcomes.begin(), outcomes.end());
  while (std::ranges::none_of(uncounted, &std::deque<ReplicaOutcome>::empty))
    for (auto &own : uncounted) {
      count(own.front());
      own.pop_front();
    }
}

void ReplicaLoop::count(const ReplicaOutcome &each) {
  const StepOutcome &outcome = each.outcome;
  double weight = outcome.count ? static_cast<double>(*outcome.count) : 1;
  partial.loss += outcome.loss * weight;
  if (outcome.correct)
    partial.correct = partial.correct.value_or(0) + *outcome.correct;
  if (outcome.count)
    partial.count = partial.count.value_or(0) + *outcome.count;
  partialSamples += each.samples;
  partialLabels += each.labels;
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
  for (uint32_t number = 0; number != replicas.count; ++number)
    threads.emplace_back([&, number] { work(number, order, first); });
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

void ReplicaLoop::work(uint32_t number, const BatchOrder &order, uint64_t first) {
  Replica &replica = *workers[number];
  while (auto task = keeper->begin(number)) {
    ReplicaWork work;
    static_cast<ReplicaStretch &>(work) = *task;
    if (task->fetches)
      work.version = task->version.get();
    work.exchange = [&](const Gifts &gifts) { return keeper->exchange(number, gifts); };
    for (uint64_t step = 0; step != task->steps; ++step)
      work.samples.push_back(samplesOf(order, first + task->batch + step * task->stride, replicas, entry));
    auto done = replica.run(work);
    if (!done) {
      Error error(done.error().status(), replica.text() + " " + done.error().message(), done.error().node());
      return keeper->lose(number, *task, error, options.goOn, [&] { observer.onLostReplica(error); });
    }
    // The version is others' to fill again, if nobody else reads it.
    task->version.reset();
    if (keeper->give(number, *task, replica.gifts(), [&] { note(number, *done); }))
      return;
  }
}

} // namespace cleave::runtime
