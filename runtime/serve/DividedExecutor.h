// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An executor of which other processes run a part: what the first process has where an undivided plan has an Executor.

#ifndef CLEAVE_RUNTIME_SERVE_DIVIDEDEXECUTOR_H
#define CLEAVE_RUNTIME_SERVE_DIVIDEDEXECUTOR_H

#include "runtime/serve/ServedPlan.h"
#include "runtime/serve/ServingProcesses.h"
#include "runtime/serve/StepParts.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace cleave::runtime::serve {

/// Used by one thread at a time, but for loss(). When a process is lost every step fails from then on, with that loss.
class DividedExecutor {
public:
  /// Loads the plan in all processes. `options.stepOver` is called when a step is over in all of them, and `lost` when
  /// a process is lost; neither may call this. `trace` is where this process's instructions are recorded, unless null.
  /// `processes` must outlive it. Errors: see ServingProcesses::load.
  static Expected<std::unique_ptr<DividedExecutor>> load(ServingProcesses &processes,
                                                         std::shared_ptr<const ServedPlan> served, unsigned inFlight,
                                                         ExecutorOptions options, std::shared_ptr<Trace> trace,
                                                         std::function<void()> lost);
  /// Waits for the steps in flight. Memory that a lost process may still be sent from or into stays, and with it the
  /// devices of this process: MPI does not say when it lets go of it.
  ~DividedExecutor();

  /// As Executor has them; a step's own error is the first one of a process that has one.
  Expected<Ticket> submit(uint32_t entry, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs);
  Expected<StepTimes> wait(Ticket ticket);
  const std::vector<DeviceMemory> &memory() const { return kept->part.memory; }
  Error loss() const { return processes.loss(); }

private:
  struct Step {
    Ticket ticket = 0;
    uint32_t entry = 0;
    std::vector<HostTensor> outputs;
  };
  /// What messages and the devices of this process name, also after this object where a process is lost.
  struct Kept {
    std::shared_ptr<const ServedPlan> served;
    std::shared_ptr<Trace> trace;
    PlanPart part;
    StepRequest request;
    StepReply reply;
    std::vector<std::byte> inputs, outputs, error;
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t stepsOver = 0; ///< here
  };

  explicit DividedExecutor(ServingProcesses &processes) : processes(processes) {}
  const StepParts &partsOf(uint32_t rank, uint32_t entry) const { return parts[rank][entry]; }
  void finishSteps();
  Expected<StepTimes> finish(const Step &step);
  Error receive(uint32_t rank, const Step &step);

  ServingProcesses &processes;
  std::function<void()> stepOver, lost;
  uint32_t line = 0;
  std::vector<std::vector<StepParts>> parts; ///< by rank and entry
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();

  // By kept->mutex.
  std::deque<Step> steps; ///< that are not over in all processes
  std::map<Ticket, Expected<StepTimes>> over;
  uint64_t finished = 0; ///< steps
  bool isEnding = false;
  std::thread finisher;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_DIVIDEDEXECUTOR_H
