// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assembles batches while steps run.

#ifndef CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H
#define CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H

#include "runtime/training/TrainingData.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace cleave::runtime {

/// Fills batches, one ahead of whoever takes them, with a thread of its own.
class BatchLoader {
public:
  /// `slots`, at least two, are filled in turns. The data and the slots must outlive the loader.
  BatchLoader(const TrainingData &data, BatchOrder order, std::span<Batch> slots);
  ~BatchLoader();
  BatchLoader(const BatchLoader &) = delete;
  BatchLoader &operator=(const BatchLoader &) = delete;

  /// Batches that are still to be taken.
  uint64_t left() const { return order.batches.size() - taken; }
  /// The next one, which is there until it is given back; there must be one left.
  Batch &take();
  /// Gives back the batch that was taken first.
  void giveBack();

private:
  void serve();

  const TrainingData &data;
  const BatchOrder order;
  uint64_t taken = 0;
  std::span<Batch> slots;

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t filled = 0, free = 0;
  bool stopping = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H
