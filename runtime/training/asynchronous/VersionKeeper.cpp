// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Waiting, and the runs of "apply".

#include "runtime/training/asynchronous/VersionKeeper.h"

#include <algorithm>

namespace cleave::runtime {

static uint64_t bytesOf(const ParameterTensors &tensors) {
  uint64_t bytes = 0;
  for (const auto &[parameter, tensor] : tensors)
    bytes += tensor.bytes().size();
  return bytes;
}

static uint64_t bytesOf(const Gifts &gifts) {
  uint64_t bytes = 0;
  for (const auto &[parameter, tensors] : gifts)
    for (const HostTensor &tensor : tensors)
      bytes += tensor.bytes().size();
  return bytes;
}

VersionKeeper::VersionKeeper(const Plan &plan, Executor &executor, uint32_t apply)
    : plan(plan), replicas(*plan->replicas), executor(executor), entry(apply), clocks(replicas.count, replicas.bound),
      together(replicas.count),
      cycles(replicas.count, LocalCycle(std::max<uint64_t>(1, replicas.localSteps), replicas.overlap)) {}

Error VersionKeeper::readFirst() {
  auto first = allocate();
  if (!first)
    return first.error();
  for (auto &[parameter, tensor] : **first)
    if (Error error = executor.readState(parameter, tensor))
      return error;
  newest = std::move(*first);
  return Error::success();
}

Expected<std::shared_ptr<ParameterTensors>> VersionKeeper::allocate() {
  for (const auto &tensors : pool)
    if (tensors.use_count() == 1)
      return tensors;
  auto tensors = std::make_shared<ParameterTensors>();
  for (const Port &port : executor.entry(entry).outputs) {
    auto tensor = HostTensor::allocate(port.type);
    if (!tensor)
      return tensor.error();
    (*tensors)[*port.parameter] = std::move(*tensor);
  }
  pool.push_back(tensors);
  return tensors;
}

Error VersionKeeper::beginRound(uint64_t epoch, uint64_t sample, uint64_t count, std::function<bool()> goOn) {
  std::lock_guard lock(mutex);
  mayGoOn = std::move(goOn);
  batches = count;
  onlyExchanges = count == 0;
  handed = finished = number = arrived = inFlight = 0;
  returned.clear();
  older.clear();
  clocks.restart();
  repeated.reset();
  if (record)
    record->round(epoch, sample, count);
  if (!replay)
    return Error::success();
  if (replay->rounds.empty()) {
    batches = 0;
    return Error::success();
  }
  repeated = std::move(replay->rounds.front());
  replay->rounds.pop_front();
  if (repeated->epoch != epoch || repeated->sample != sample || repeated->batches != count)
    return makeError(Status::Failure, "--replay expects the run of its record, which went on in epoch ",
                     repeated->epoch + 1, " behind ", repeated->sample, " samples with ", repeated->batches,
                     " batches, got epoch ", epoch + 1, ", ", sample, " and ", count);
  // Of a replica that failed, or a run that was killed, no version came of the last beginnings.
  for (uint32_t replica = 0; replica != replicas.count; ++replica) {
    auto made = static_cast<size_t>(replicas.areTogether() ? repeated->applied.size()
                                                           : std::ranges::count(repeated->applied, replica));
    auto &begins = repeated->begins[replica];
    begins.resize(std::min(begins.size(), made));
    for (const RecordedRound::Begin &begin : begins)
      older[begin.version] = nullptr;
  }
  if (older.contains(0))
    older[0] = newest;
  leaveAsRecorded();
  return Error::success();
}

void VersionKeeper::leaveAsRecorded() {
  while (repeated && !repeated->losses.empty() && repeated->losses.front().version <= number) {
    clocks.leave(repeated->losses.front().replica);
    repeated->losses.pop_front();
  }
}

std::optional<RecordedRound::Begin> VersionKeeper::recorded(uint32_t replica) const {
  const auto &begins = repeated->begins[replica];
  return begins.empty() ? std::nullopt : std::optional(begins.front());
}

/// Whether there is nothing left to do for the replica, or never will be.
bool VersionKeeper::isOver(uint32_t replica) const {
  if (ended || clocks.hasLeft(replica))
    return true;
  if (replay)
    return !repeated || !recorded(replica);
  // Replicas that step together begin as many steps each.
  uint64_t given = replicas.areTogether() ? clocks.at(replica) * replicas.count : handed;
  if (onlyExchanges)
    return cycles[replica].stepsSinceExchange() == 0;
  if (replicas.areTogether())
    return given >= batches || (handed <= given && !mayGoOn());
  // A batch that is on its way may come back. A step of the run is one of as many batches as there are replicas.
  bool isLast = given >= batches || (given % replicas.count == 0 && !mayGoOn());
  return isLast && returned.empty() && inFlight == 0;
}

bool VersionKeeper::mayBegin(uint32_t replica) const {
  // Those whose exchanges overlap have waited for each other when they got the version.
  if (replicas.overlap == 0 && !clocks.mayBegin(replica))
    return false;
  if (!replay && !replicas.areTogether() && returned.empty() &&
      (handed >= batches || (handed % replicas.count == 0 && !mayGoOn())))
    return false;
  return !replay || recorded(replica)->version <= number;
}

ReplicaTask VersionKeeper::take(uint32_t replica) {
  ReplicaTask task;
  task.number = number;
  task.version = newest;
  if (replay) {
    RecordedRound::Begin begin = *recorded(replica);
    repeated->begins[replica].pop_front();
    task.batch = begin.batch;
    task.number = begin.version;
    if (auto old = older.find(begin.version); old != older.end())
      task.version = old->second;
    bool isRead = std::ranges::any_of(repeated->begins, [&](const auto &begins) {
      return std::ranges::any_of(begins, [&](const auto &other) { return other.version == begin.version; });
    });
    if (!isRead)
      older.erase(begin.version);
  }
  if (replicas.areTogether()) {
    uint64_t from = clocks.at(replica);
    static_cast<ReplicaStretch &>(task) =
        onlyExchanges ? cycles[replica].drain() : cycles[replica].next(batches / replicas.count - from);
    task.stride = replicas.count;
    task.batch = from * replicas.count + replica;
    handed = std::max(handed, (from + task.steps) * replicas.count);
  } else if (!replay) {
    if (returned.empty()) {
      task.batch = handed++;
    } else {
      task.batch = returned.back();
      returned.pop_back();
    }
  }
  ++inFlight;
  if (task.fetches)
    exchangedBytes += bytesOf(*task.version);
  uint64_t ahead = clocks.ahead(replica);
  ages.ahead.resize(std::max<size_t>(ages.ahead.size(), ahead + 1));
  ++ages.ahead[ahead];
  if (record)
    record->begin(replica, task.batch, task.number);
  return task;
}

std::optional<ReplicaTask> VersionKeeper::begin(uint32_t replica) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return isOver(replica) || mayBegin(replica); });
  if (isOver(replica))
    return std::nullopt;
  return take(replica);
}

Error VersionKeeper::apply(std::span<const Given> gifts) {
  const Entry &applied = executor.entry(entry);
  std::map<uint32_t, size_t> seen;
  std::vector<HostTensor> inputs, outputs;
  for (const Port &port : applied.inputs) {
    size_t index = seen[*port.parameter]++, parts = gifts.front().gifts->at(*port.parameter).size();
    inputs.push_back(gifts[index / parts].gifts->at(*port.parameter)[index % parts]);
  }
  auto next = allocate();
  if (!next)
    return next.error();
  for (const Port &port : applied.outputs)
    outputs.push_back((*next)->at(*port.parameter));
  if (auto times = executor.run(entry, std::move(inputs), std::move(outputs)); !times)
    return times.error();
  newest = std::move(*next);
  ++number;
  ++made;
  for (const Given &given : gifts)
    if (given.onApplied)
      (*given.onApplied)();
  if (auto old = older.find(number); old != older.end())
    old->second = newest;
  return record ? record->check() : Error::success();
}

void VersionKeeper::fail(const Error &error) {
  if (!ended)
    ended = error;
  changed.notify_all();
}

Error VersionKeeper::meet(std::unique_lock<std::mutex> &lock, uint32_t replica, const Given &given, bool makesVersion,
                          const std::function<void()> &onMet) {
  uint64_t mine = meetings;
  together[replica] = given;
  if (++arrived != replicas.count) {
    changed.wait(lock, [&] { return ended || meetings != mine; });
    return meetings != mine ? Error::success() : ended;
  }
  arrived = 0;
  Error error = ended;
  if (!error && makesVersion)
    error = apply(together);
  if (error) {
    fail(error);
    return error;
  }
  onMet();
  ages.versions.resize(std::max<size_t>(ages.versions.size(), 1));
  ages.versions[0] += replicas.count;
  if (record)
    record->apply(0);
  ++meetings;
  changed.notify_all();
  return Error::success();
}

Expected<Version> VersionKeeper::exchange(uint32_t replica, const Gifts &gifts) {
  std::unique_lock lock(mutex);
  exchangedBytes += bytesOf(gifts);
  if (Error error = meet(lock, replica, {&gifts, nullptr}, true, [] {}))
    return error;
  // The next one is made when this replica has given again.
  exchangedBytes += bytesOf(*newest);
  return newest;
}

void VersionKeeper::count(uint32_t replica, const ReplicaTask &task) {
  cycles[replica].add(task);
  for (uint64_t step = 0; step != task.steps; ++step)
    clocks.advance(replica);
  finished += task.steps;
}

void VersionKeeper::settle() {
  std::lock_guard lock(mutex);
  for (LocalCycle &cycle : cycles)
    cycle.forget();
}

Error VersionKeeper::give(uint32_t replica, const ReplicaTask &task, const Gifts &gifts,
                          const std::function<void()> &onApplied) {
  std::unique_lock lock(mutex);
  if (task.exchangesAfter) {
    onApplied();
    count(replica, task);
    changed.notify_all();
    return ended;
  }
  if (task.gives)
    exchangedBytes += bytesOf(gifts);
  if (replicas.areTogether())
    return meet(lock, replica, {&gifts, &onApplied}, task.gives, [&] {
      if (!task.gives)
        for (const Given &each : together)
          (*each.onApplied)();
      for (uint32_t each = 0; each != replicas.count; ++each)
        count(each, task);
    });
  changed.wait(
      lock, [&] { return ended || !replay || (!repeated->applied.empty() && repeated->applied.front() == replica); });
  if (ended)
    return ended;
  Given given{&gifts, &onApplied};
  if (Error error = apply(std::span(&given, 1))) {
    fail(error);
    return error;
  }
  if (replay) {
    repeated->applied.pop_front();
    leaveAsRecorded();
  }
  --inFlight;
  uint64_t between = number - 1 - task.number;
  ages.versions.resize(std::max<size_t>(ages.versions.size(), between + 1));
  ++ages.versions[between];
  count(replica, task);
  if (record)
    record->apply(replica);
  changed.notify_all();
  return Error::success();
}

void VersionKeeper::lose(uint32_t replica, const ReplicaTask &task, const Error &error, bool goOn,
                         const std::function<void()> &onGoOn) {
  std::lock_guard lock(mutex);
  clocks.leave(replica);
  // Where all step together none can go on without it, nor where its steps are to be repeated.
  if (!goOn || replicas.areTogether() || replay || clocks.count() == 0)
    return fail(error);
  --inFlight;
  returned.push_back(task.batch);
  if (record)
    record->lose(replica);
  onGoOn();
  changed.notify_all();
}

Error VersionKeeper::failure() {
  std::lock_guard lock(mutex);
  return ended;
}

} // namespace cleave::runtime
