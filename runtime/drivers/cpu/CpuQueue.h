// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A queue of a cpu device: a thread that runs its list and sleeps when there is nothing to do.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_CPUQUEUE_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_CPUQUEUE_H

#include "runtime/Driver.h"
#include "runtime/TileLoad.h"
#include "runtime/Timeline.h"
#include "runtime/Trace.h"
#include "runtime/drivers/cpu/CoreSet.h"
#include "runtime/watch/CrashReport.h"
#include "runtime/watch/Fault.h"

#include <deque>
#include <optional>
#include <thread>

namespace cleave::runtime {

/// What the queues of a cpu device share.
struct CpuQueueContext {
  DriverContext *shared = nullptr;
  /// Which of the shared context's sites the device is.
  uint32_t index = 0;
  const Site &site() const { return shared->sites[index]; }
  const PlanDevice &device() const { return shared->plan->devices[site().device]; }
  Executable *executable = nullptr;
  /// OpenMP threads of a compute queue, the cores that all queues keep to (none: any), and a core for each of the
  /// compute queue's threads (none: the system places them).
  unsigned threads = 1;
  CoreSet cores, places;
  /// How long a compute queue may wait awake before it sleeps.
  std::chrono::nanoseconds spin{};
  /// By EntryPhase::index the queues with instructions, and how often one has ended a step: a step begins on the device
  /// when all of the steps before have ended on it.
  std::vector<uint32_t> activeQueues;
  bool hasSeveralQueues = false;
  Timeline endedSteps;
};

class CpuQueue : public Queue {
public:
  /// `context` must outlive the queue.
  CpuQueue(CpuQueueContext &context, uint32_t index);
  ~CpuQueue() override;
  Error record(EntryPhase phase, std::vector<Command> commands) override;
  void submit(std::shared_ptr<Step> step) override;
  /// Where the queue has one thread and that no core of its own: waking it would only wait for a core.
  bool runHere(Step &step) override;

private:
  /// A command as the thread runs it.
  struct Task {
    Command command;
    std::vector<void *> arguments;
    TileLoad load;
    std::vector<OperandBuffers> more; ///< of a collective of several tensors, but for the first
    Fault *fault = nullptr;           ///< for tests
  };
  using List = std::vector<Task>;

  void serve();
  void run(Step &step);
  /// Waits for a value of the step that runs; the error that the value carries.
  Error await(const Step &step, uint32_t value, std::chrono::nanoseconds spin) const;
  Error execute(const Task &task, Step &step, const Error &poison) const;
  Error compute(const Task &task, Step &step) const;
  /// An instruction's own error, as others are told it.
  Error own(const Task &task, const Error &error) const;
  /// What a transfer does; nothing when the action is none. Poisoned transfers take part as well.
  std::optional<Error> communicate(const Task &task, const Step &step, const Error &poison) const;
  /// Where the timeline stands before the step begins.
  uint32_t base(const Step &step) const;

  CpuQueueContext &context;
  const QueueKind kind;
  const std::chrono::nanoseconds spin;
  Trace::Track *track = nullptr;
  std::vector<List> lists; ///< by EntryPhase::index
  std::vector<uint32_t> lengths;

  Timeline timeline;
  // The first value of the step that failed, and its error: written before the value is signalled, reset when the next
  // step begins, which no other queue of the device has reached the end of then.
  std::atomic<uint32_t> failedAt{UINT32_MAX};
  Error failure;

  std::mutex mutex;
  std::deque<std::shared_ptr<Step>> steps;
  bool stopping = false;
  Timeline arrivals;
  std::thread thread;
  /// Made for the first step.
  std::optional<RunningInstruction> running;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_CPUQUEUE_H
