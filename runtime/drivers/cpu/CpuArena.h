// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one allocation in which all tensors of a cpu device lie.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_CPUARENA_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_CPUARENA_H

#include "runtime/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave::runtime {

/// Memory of a fixed size, in huge pages where the system has them.
class CpuArena {
public:
  CpuArena() = default;
  /// Exactly `bytes` zero bytes at an address that is a multiple of 64. Status::Infeasible when memory is short.
  static Expected<CpuArena> allocate(uint64_t bytes);
  CpuArena(CpuArena &&other) noexcept : memory(std::exchange(other.memory, {})) {}
  CpuArena &operator=(CpuArena &&other) noexcept {
    std::swap(memory, other.memory);
    return *this;
  }
  ~CpuArena();

  std::span<std::byte> bytes() const { return memory; }

private:
  std::span<std::byte> memory;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_CPUARENA_H
