// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loader's thread and who waits for it.

#include "runtime/training/BatchLoader.h"

#include <algorithm>

namespace cleave::runtime {

BatchLoader::BatchLoader(const Dataset &dataset, std::vector<uint64_t> order, uint64_t first, uint64_t size, bool rest,
                         std::span<Batch> slots)
    : dataset(dataset), order(std::move(order)), first(first), size(size), slots(slots), free(slots.size()) {
  uint64_t samples = this->order.size() - std::min<uint64_t>(first, this->order.size());
  total = (samples + (rest ? size - 1 : 0)) / size;
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
  for (uint64_t batch = 0; batch != total; ++batch) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stopping || free != 0; });
      if (stopping)
        return;
      --free;
    }
    uint64_t begin = first + batch * size;
    dataset.fill(slots[batch % slots.size()],
                 std::span(order).subspan(begin, std::min<uint64_t>(size, order.size() - begin)));
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
