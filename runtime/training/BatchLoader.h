// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assembles batches while steps run.

#ifndef CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H
#define CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H

#include "runtime/training/Dataset.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace cleave::runtime {

/// Goes through `order` in batches, one ahead of whoever takes them, with a thread of its own.
class BatchLoader {
public:
  /// Batches of `size` samples from `order[first]` on; what is left at the end makes a smaller one if `rest`, else
  /// nothing. `slots`, at least two, are filled in turns. The dataset and the slots must outlive the loader.
  BatchLoader(const Dataset &dataset, std::vector<uint64_t> order, uint64_t first, uint64_t size, bool rest,
              std::span<Batch> slots);
  ~BatchLoader();
  BatchLoader(const BatchLoader &) = delete;
  BatchLoader &operator=(const BatchLoader &) = delete;

  /// Batches that are still to be taken.
  uint64_t left() const { return total - taken; }
  /// The next one, which is there until it is given back; there must be one left.
  Batch &take();
  /// Gives back the batch that was taken first.
  void giveBack();

private:
  void serve();

  const Dataset &dataset;
  const std::vector<uint64_t> order;
  const uint64_t first, size;
  uint64_t total = 0, taken = 0;
  std::span<Batch> slots;

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t filled = 0, free = 0;
  bool stopping = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_BATCHLOADER_H
