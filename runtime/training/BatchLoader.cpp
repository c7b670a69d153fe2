// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loader's thread and who waits for it.

#include "runtime/training/BatchLoader.h"

namespace cleave::runtime {

BatchLoader::BatchLoader(const TrainingData &data, BatchOrder order, std::span<Batch> slots)
    : data(data), order(std::move(order)), slots(slots), free(slots.size()) {
  thread = std::thread([this] { serve(); });
}

BatchLoader::~BatchLoader() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void BatchLoader::serve() {
  for (uint64_t number = 0; number != order.batches.size(); ++number) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stopping || free != 0; });
      if (stopping)
        return;
      --free;
    }
    const BatchOrder::Item &item = order.batches[number];
    data.fill(slots[number % slots.size()], item.bucket, order.samplesOf(item));
    {
      std::lock_guard lock(mutex);
      ++filled;
    }
    changed.notify_all();
  }
}

Batch &BatchLoader::take() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return filled > taken; });
  return slots[taken++ % slots.size()];
}

void BatchLoader::giveBack() {
  {
    std::lock_guard lock(mutex);
    ++free;
  }
  changed.notify_all();
}

} // namespace cleave::runtime
