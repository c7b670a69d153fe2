// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a process that dies was doing: each thread that runs instructions says which one, in the logbook that the
// process's guard reads, if it has one, and the handler of a fatal signal reads that.

#ifndef CLEAVE_RUNTIME_CRASHREPORT_H
#define CLEAVE_RUNTIME_CRASHREPORT_H

#include "runtime/Plan.h"
#include "runtime/watch/Logbook.h"

#include <atomic>
#include <unordered_map>

namespace cleave::runtime {

/// The instruction that a thread runs. Made on that thread, for as long as it runs instructions.
class RunningInstruction {
public:
  explicit RunningInstruction(const PlanDevice &device);
  ~RunningInstruction();
  RunningInstruction(const RunningInstruction &) = delete;
  RunningInstruction &operator=(const RunningInstruction &) = delete;
  /// From here on, `instruction`; null: none.
  void set(const Instruction *instruction);

  /// That of this thread; null on other threads.
  static RunningInstruction *ofThread();
  const Instruction *get() const { return running.load(std::memory_order_relaxed); }
  const Logbook::Line *line() const { return entry; }
  const PlanDevice &device;

private:
  /// Where the instruction's text is in the logbook.
  uint32_t textOf(const Instruction &instruction);

  std::atomic<const Instruction *> running{nullptr};
  /// Null where nobody watches.
  Logbook::Line *const entry;
  std::unordered_map<const Instruction *, uint32_t> texts;
};

/// From here on a fatal signal ends the process with Status::Lost, after a line on standard error that names this rank,
/// the signal, the device, the instruction and its model node. A process with a guard leaves the line to it.
void reportCrashes(uint32_t rank);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CRASHREPORT_H
