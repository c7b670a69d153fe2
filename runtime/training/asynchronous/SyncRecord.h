// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What replicas did in which order: all that another run needs to repeat a run of theirs bit for bit. Text, a line for
// each event, written as it happens:
//
//   cleave-record 1 replicas 4 bound 3 local 0 seed 0     behind local, of a run with one: overlap 2
//   round 0 128 936            epoch, samples of it that were taken before, batches that there are
//   begin 2 17 41              replica 2 begins a step, or steps, with batch 17 of the round and version 41 of it
//   apply 2                    the next version has what replica 2 gave; 0 where all give together
//   lose 1                     replica 1 has failed, and the others go on without it

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_SYNCRECORD_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_SYNCRECORD_H

#include "runtime/Error.h"
#include "runtime/Plan.h"

#include <deque>
#include <fstream>
#include <vector>

namespace cleave::runtime {

/// What a record is of.
struct RecordedRun {
  Replicas replicas;
  uint64_t seed = 0;
  bool operator==(const RecordedRun &) const = default;
};

/// A stretch of an epoch between two points at which all replicas have seen everything.
struct RecordedRound {
  uint64_t epoch = 0, sample = 0, batches = 0;
  struct Begin {
    uint64_t batch = 0, version = 0;
  };
  std::vector<std::deque<Begin>> begins; ///< by replica
  std::deque<uint32_t> applied;          ///< by version: whose gifts made it
  struct Loss {
    uint32_t replica = 0;
    uint64_t version = 0; ///< the newest when it failed
  };
  std::deque<Loss> losses;
};

/// A record that was read.
struct SyncRecord {
  RecordedRun run;
  std::deque<RecordedRound> rounds;

  /// Status::Failure where there is no file, Status::Rejected, with the line, where it is not a record or is damaged,
  /// so that replicas would wait for ever. What it has can be repeated in the order of its lines. A last line that is
  /// cut off is left out, as a run that was killed leaves it.
  static Expected<SyncRecord> read(const std::string &file);
};

/// Writes a record as a run goes on. Used by one thread at a time.
class RecordWriter {
public:
  /// Replaces the file. Status::Failure where it cannot be written.
  static Expected<RecordWriter> open(const std::string &file, const RecordedRun &run);

  void round(uint64_t epoch, uint64_t sample, uint64_t batches);
  void begin(uint32_t replica, uint64_t batch, uint64_t version);
  void apply(uint32_t replica);
  void lose(uint32_t replica);
  /// Whether all has been written so far.
  Error check() const;

private:
  explicit RecordWriter(std::string name) : name(std::move(name)) {}
  std::string name;
  std::ofstream stream;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_SYNCRECORD_H
