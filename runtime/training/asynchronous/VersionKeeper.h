// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps the parameters that replicas train, makes their versions, and lets replicas begin when they may.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_VERSIONKEEPER_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_VERSIONKEEPER_H

#include "runtime/Executor.h"
#include "runtime/training/asynchronous/Replica.h"
#include "runtime/training/asynchronous/ReplicaClocks.h"
#include "runtime/training/asynchronous/SyncRecord.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

namespace cleave::runtime {

/// What a replica is to do next: a stretch of batches of the round, from `batch` on, each `stride` behind the one
/// before. With local steps a round may begin and end between two exchanges.
struct ReplicaTask : ReplicaStretch {
  uint64_t batch = 0, stride = 1;
  uint64_t number = 0; ///< of the version
  Version version;     ///< what it fetches, if it does
};

/// How old what steps worked with was; element i counts those to which it happened i times.
struct Staleness {
  std::vector<uint64_t> ahead;    ///< steps that the slowest replica was behind at the beginning
  std::vector<uint64_t> versions; ///< versions that others had made before the step's gifts came
};

/// Thread-safe: replicas have a thread each.
class VersionKeeper {
public:
  /// `executor` runs `apply`, its entry of that number, and is the keeper's alone while replicas work.
  VersionKeeper(const Plan &plan, Executor &executor, uint32_t apply);

  /// Reads the parameters as they are: version 0 of a round.
  Error readFirst();
  /// Writes down, or repeats, what happens. Null: neither.
  void setRecord(RecordWriter *writer, SyncRecord *replayed) {
    record = writer;
    replay = replayed;
  }

  /// A round of so many batches of an epoch from a sample on, between two points at which replicas have seen
  /// everything, or done as many steps. Without batches: an exchange alone. `mayGoOn`, asked under the lock, says
  /// whether batches are to be given out still. Status::Failure where a record that is repeated has another round.
  Error beginRound(uint64_t epoch, uint64_t sample, uint64_t batches, std::function<bool()> mayGoOn);
  /// Batches of the round whose gifts are in the parameters or, with local steps, in those of replicas.
  uint64_t done() const { return finished; }
  /// Local steps of each replica since the last exchange.
  uint64_t stepsSinceExchange() const { return cycles.front().stepsSinceExchange(); }
  /// Somebody reads the parameters: replicas without steps since the last exchange fetch next, whatever they would
  /// merge.
  void settle();

  /// Waits until the replica may begin; nothing where the round is over for it.
  std::optional<ReplicaTask> begin(uint32_t replica);
  /// Makes a version of what all replicas give between steps of theirs, in the thread of the last, and returns it to
  /// each. The gifts are the replica's own again then. Not to be called in the thread that computes.
  Expected<Version> exchange(uint32_t replica, const Gifts &gifts);
  /// A replica has done its task. Makes the next version of what it gives at its end; the tensors are its own again
  /// then. `onApplied` is called under the lock, before anybody sees the version. Returns when the replica may ask for
  /// more, or with the error that ends the run.
  Error give(uint32_t replica, const ReplicaTask &task, const Gifts &gifts, const std::function<void()> &onApplied);
  /// A replica has failed in a task. Either all end, or its batch is given to the others and they go on without it, of
  /// which `onGoOn` is told under the lock.
  void lose(uint32_t replica, const ReplicaTask &task, const Error &error, bool goOn,
            const std::function<void()> &onGoOn);
  /// The error that has ended the round.
  Error failure();

  const Staleness &staleness() const { return ages; }
  uint64_t versions() const { return made; }
  /// Bytes of versions that replicas took and of gifts that they gave.
  uint64_t exchanged() const { return exchangedBytes; }

private:
  struct Given {
    const Gifts *gifts = nullptr;
    const std::function<void()> *onApplied = nullptr;
  };

  bool isOver(uint32_t replica) const;
  std::optional<RecordedRound::Begin> recorded(uint32_t replica) const;
  bool mayBegin(uint32_t replica) const;
  ReplicaTask take(uint32_t replica);
  /// Waits until all are here, and makes a version if they give. `onMet` is called in the thread of the last.
  Error meet(std::unique_lock<std::mutex> &lock, uint32_t replica, const Given &given, bool makesVersion,
             const std::function<void()> &onMet);
  /// Its steps of the task are done.
  void count(uint32_t replica, const ReplicaTask &task);
  /// A version to be filled, of tensors that nobody reads any more.
  Expected<std::shared_ptr<ParameterTensors>> allocate();
  Error apply(std::span<const Given> gifts);
  void fail(const Error &error);
  /// In a replay, the others go on without those that had failed by now.
  void leaveAsRecorded();

  const Plan plan;
  const Replicas replicas;
  Executor &executor;
  const uint32_t entry;
  RecordWriter *record = nullptr;
  SyncRecord *replay = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  ReplicaClocks clocks;
  std::function<bool()> mayGoOn;
  uint64_t batches = 0, handed = 0, finished = 0, number = 0, made = 0, inFlight = 0;
  std::vector<uint64_t> returned; ///< batches of replicas that are lost
  Version newest;
  std::vector<std::shared_ptr<ParameterTensors>> pool;
  std::map<uint64_t, Version> older; ///< of a replay: those that somebody is still to read
  std::vector<Given> together;       ///< by replica, where the gifts of all make a version
  std::optional<RecordedRound> repeated;
  uint64_t arrived = 0, meetings = 0;
  std::vector<LocalCycle> cycles; ///< by replica; all are alike but for how far they are
  bool onlyExchanges = false;     ///< the round has no batches
  Error ended = Error::success();
  Staleness ages;
  uint64_t exchangedBytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_VERSIONKEEPER_H
