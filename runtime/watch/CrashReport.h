// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a process that dies was doing: each thread that runs instructions says which one, in the logbook that the
// process's guard reads, if it has one, and the handler of a fatal signal reads that.

#ifndef CLEAVE_RUNTIME_WATCH_CRASHREPORT_H
#define CLEAVE_RUNTIME_WATCH_CRASHREPORT_H

#include "runtime/Plan.h"
#include "runtime/watch/Logbook.h"

#include <atomic>
#include <map>
#include <unordered_map>

namespace cleave::runtime {

/// The instruction that a thread runs, or a queue whose instructions run on one thread after the other.
class RunningInstruction {
public:
  /// Of this device, to begin with.
  explicit RunningInstruction(const PlanDevice &device);
  ~RunningInstruction();
  RunningInstruction(const RunningInstruction &) = delete;
  RunningInstruction &operator=(const RunningInstruction &) = delete;
  /// From here on, `instruction`; null: none.
  void set(const Instruction *instruction);
  /// The same of another device, for a thread that serves several.
  void set(const PlanDevice &of, const Instruction *instruction);
  /// From here on, a part of a step whose instructions are not told apart, and of which the logbook alone knows: `what`
  /// goes before the step's number, as in "in the replay of step ".
  void setStep(ActivityKind kind, const std::string &what, uint64_t step);

  /// That of this thread; null on other threads.
  static RunningInstruction *ofThread();
  /// For as long as it lives, `running` says what the calling thread runs.
  class OfThread {
  public:
    explicit OfThread(RunningInstruction &running);
    ~OfThread();
    OfThread(const OfThread &) = delete;
    OfThread &operator=(const OfThread &) = delete;

  private:
    RunningInstruction *const before;
  };
  const Instruction *get() const { return running.load(std::memory_order_relaxed); }
  const PlanDevice &device() const { return *owner.load(std::memory_order_relaxed); }
  const Logbook::Line *line() const { return entry; }

private:
  /// Where the instruction's text is in the logbook.
  uint32_t textOf(const Instruction &instruction);
  void write(uint32_t text) const;

  std::atomic<const PlanDevice *> owner;
  std::atomic<const Instruction *> running{nullptr};
  /// Null where nobody watches.
  Logbook::Line *const entry;
  using Texts = std::unordered_map<const Instruction *, uint32_t>;
  std::map<const PlanDevice *, Texts> textsOfDevices;
  Texts *texts; ///< the device's
  std::map<std::string, uint32_t> textsOfSteps;
};

/// From here on a fatal signal ends the process with Status::Lost, after a line on standard error that names this rank,
/// the signal, the device, the instruction and its model node. A process with a guard leaves the line to it.
void reportCrashes(uint32_t rank);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_CRASHREPORT_H
