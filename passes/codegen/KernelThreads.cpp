// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that take one number after the other.

#include "passes/codegen/KernelThreads.h"

#include <atomic>
#include <thread>
#include <vector>

namespace cleave {

void forEachInThreads(mlir::MLIRContext &context, unsigned threads, size_t count,
                      llvm::function_ref<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  auto takeAll = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> others;
  if (context.isMultithreadingEnabled())
    for (size_t i = 1; i < std::min<size_t>(threads, count); ++i)
      others.emplace_back(takeAll);
  takeAll();
  for (std::thread &thread : others)
    thread.join();
}

} // namespace cleave
