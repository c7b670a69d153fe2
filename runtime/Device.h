// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device: its arena, the kernels it has loaded, and its queues.

#ifndef CLEAVE_RUNTIME_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_H

#include "runtime/Buffer.h"
#include "runtime/Executable.h"
#include "runtime/Queue.h"

#include <memory>
#include <string>

namespace cleave::runtime {

/// A device of an executor. Made by its Driver for one site and the programs that entries have there; used by one
/// thread at a time until its queues run.
class Device {
public:
  virtual ~Device() = default;
  /// Makes the arena, one allocation of exactly `bytes`, and one of `hostBytes` of the host's memory.
  /// Status::Infeasible when there is not so much memory.
  virtual Error allocate(uint64_t bytes, uint64_t hostBytes) = 0;
  /// Bytes of the arena that allocate() made.
  virtual uint64_t allocatedBytes() const = 0;
  /// What part of the machine it is, for people, as "GPU 0 (NVIDIA H100)"; empty where that goes without saying.
  virtual std::string hardware() const { return {}; }
  /// Where a buffer of one of the programs lies.
  virtual Buffer place(const PlanBuffer &buffer) const = 0;
  /// Loads the kernels that the programs call. Status::Unsupported or Status::Infeasible when one cannot run here.
  virtual Error load() = 0;
  /// The queue of that index in DriverContext::queues. A step is submitted to every queue of which its phase has an
  /// instruction.
  virtual Expected<std::unique_ptr<Queue>> createQueue(uint32_t index) = 0;
  /// Copies a buffer's bytes into the host's memory, while no step runs. Status::Unsupported where it holds none.
  virtual Error copyOut(const PlanBuffer &buffer, std::span<std::byte> target) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_H
