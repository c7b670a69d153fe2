// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arenas come straight from mmap: pages that no buffer touches cost nothing.

#include "runtime/drivers/cpu/CpuArena.h"

#include <sys/mman.h>

namespace cleave::runtime {

static constexpr uint64_t hugePage = 2u << 20;

Expected<CpuArena> CpuArena::allocate(uint64_t bytes) {
  CpuArena arena;
  if (bytes == 0)
    return arena;
  // A huge page needs an aligned address: map so much that there is one inside, and give the rest back.
  bool huge = bytes >= hugePage;
  uint64_t mapped = huge ? bytes + hugePage : bytes;
  void *address = mapped < bytes || mapped > SIZE_MAX
                      ? MAP_FAILED
                      : mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return makeError(Status::Infeasible, "arena needs ", bytes,
                     " bytes, which this machine does not have; use more devices or a smaller batch");
  auto *begin = static_cast<std::byte *>(address);
  if (huge) {
    uint64_t skipped = (hugePage - reinterpret_cast<uintptr_t>(begin) % hugePage) % hugePage;
    uint64_t end = (bytes + 4095) / 4096 * 4096;
    if (skipped > 0)
      munmap(begin, skipped);
    if (skipped + end < mapped)
      munmap(begin + skipped + end, mapped - skipped - end);
    begin += skipped;
    (void)madvise(begin, bytes, MADV_HUGEPAGE);
  }
  arena.memory = {begin, bytes};
  return arena;
}

CpuArena::~CpuArena() {
  if (!memory.empty())
    munmap(memory.data(), memory.size());
}

} // namespace cleave::runtime
