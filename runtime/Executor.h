// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs entries of a plan: makes their devices, loads kernels and parameters, and then runs steps, several at a time if
// the caller submits several.

#ifndef CLEAVE_RUNTIME_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_H

#include "runtime/HostTensor.h"
#include "runtime/ParameterSource.h"
#include "runtime/Plan.h"

#include <functional>

namespace cleave::runtime {

class Processes;
class Trace;

struct ExecutorOptions {
  /// Keep the compute threads of several devices on cores of their own where the machine has enough.
  bool pin = true;
  /// Compute threads of other executors of this process that work at the same time: those on cores before and behind
  /// this one's.
  unsigned threadsBefore = 0, threadsBehind = 0;
  /// Where devices are hardware of their own, as GPUs: how many others take before the plan's first one.
  unsigned devicesBefore = 0;
  /// Where each instruction's begin and end are recorded; null: nowhere.
  Trace *trace = nullptr;
  /// Seconds that an instruction takes on `device` under the null driver; absent: none. A communication takes the
  /// longest that one of its ends takes.
  std::function<double(uint32_t device, const Instruction &)> seconds;
  /// Called whenever a submitted step is over, by the thread that ends it: waiting for as many of the earliest steps
  /// takes no time then. Must not call the executor. May be empty.
  std::function<void()> stepOver;
  /// Those that run the plan together, and which of them runs each device; null: this one runs all.
  Processes *processes = nullptr;
  std::vector<uint32_t> rankOfDevice;
  /// Whether waiting for a step ends at all of them together, with the same error. Otherwise with what has become of
  /// this process's part; whoever has the steps run finds out about the others.
  bool agreesOnSteps = true;
};

/// A submitted step: its number, counted from 0.
using Ticket = uint64_t;

/// When a step began and ended, in nanoseconds: on the steady clock, or in simulated time under the null driver.
struct StepTimes {
  int64_t begin = 0, end = 0;
};

/// What one device's arenas take, one for each of its programs.
struct DeviceMemory {
  std::string device;
  uint64_t plannedBytes = 0, allocatedBytes = 0, liveBytes = 0;
  std::string hardware; ///< Device::hardware
};

/// An entry of a plan, or several that share parameters which their steps write, ready to run. Made once; used by one
/// thread at a time, but for submit and wait, which two may call. With several processes each makes one and calls it as
/// the others do; creating and waiting then end at all together, with the same error.
class Executor {
public:
  /// Allocates the arenas, loads the kernels and runs `prepare` on all devices. The plan must have passed verifyPlan.
  /// `parameters` is needed during this call, and later only if the body loads parameters. Status::Infeasible when
  /// memory or processor features are missing, Status::Unsupported when this build lacks a driver or library.
  static Expected<std::unique_ptr<Executor>> create(const Plan &plan, const std::string &entry,
                                                    ParameterSource &parameters, ExecutorOptions options = {});
  /// The same for several entries, each named once, that share arenas (Entry::samples): their programs of one mesh take
  /// turns on one, in which the parameters keep their places. Each entry's `prepare` runs once.
  static Expected<std::unique_ptr<Executor>> create(const Plan &plan, const std::vector<std::string> &entries,
                                                    ParameterSource &parameters, ExecutorOptions options = {});
  /// Waits for the steps in flight.
  ~Executor();

  /// Starts a step and returns at once. `inputs` and `outputs` are by position and must have the ports' types; their
  /// bytes must live until the step is over. Status::Failure when they do not fit.
  Expected<Ticket> submit(std::vector<HostTensor> inputs, std::vector<HostTensor> outputs);
  /// The same for one of several entries, by its place among them. Steps run in the order in which they are submitted,
  /// whatever their entries: a device begins one when it is done with those before.
  Expected<Ticket> submit(uint32_t entry, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs);
  /// Waits until the step is over; the error of its first failing instruction. Wait once for each ticket.
  Expected<StepTimes> wait(Ticket ticket);
  /// Submits a step and waits for it, while none is in flight. A step of a single device may run on the calling thread.
  Expected<StepTimes> run(uint32_t entry, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs);
  /// The first of the entries that run, or another by its place.
  const Entry &entry(uint32_t index = 0) const;
  /// One element for each device of the entries that this process runs, in the order of the plan's devices.
  std::vector<DeviceMemory> memory() const;
  /// Puts this process's parts of a parameter that steps write into `target`, which has the parameter's type. Needs
  /// that no step is in flight. Status::Failure when it is not so, or no entry keeps the parameter.
  Error readState(uint32_t parameter, const HostTensor &target) const;

private:
  class State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_H
