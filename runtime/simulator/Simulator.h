// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs an entry's steps in simulated time on a described machine: discrete events over the plan itself.
//
// Queues run their instructions in order, each when its waits allow; a step begins on a device when the device's queues
// have ended the one before, and when it has been submitted, which happens as soon as fewer than `inFlight` steps are
// under way. A communication begins when its last end is there. What goes on at once shares links, cores and memory
// (Activities.h). Devices that are alike are simulated once (Likeness.h). Preparation is not part of a step.

#ifndef CLEAVE_RUNTIME_SIMULATOR_SIMULATOR_H
#define CLEAVE_RUNTIME_SIMULATOR_SIMULATOR_H

#include "runtime/simulator/MachineModel.h"

namespace cleave::runtime {

struct SimulationOptions {
  unsigned steps = 1, inFlight = 1;
  /// Simulate each device by itself, also those that are alike.
  bool each = false;
};

/// When an instruction ran. `cause` is the place of the event whose end it had waited for longest, or noEvent.
struct SimulatedEvent {
  uint32_t site = 0, instruction = 0, step = 0; ///< places in SimulationResult::sites and in the program's body
  double begin = 0, end = 0;                    ///< seconds
  uint32_t cause = UINT32_MAX;
};
inline constexpr uint32_t noEvent = UINT32_MAX, noDevice = UINT32_MAX;

/// Sites that behaved alike.
struct SimulatedSite {
  uint32_t programIndex = 0, member = 0; ///< of the first of them
  uint32_t count = 1;
  uint32_t device = 0;      ///< a place in SimulationResult::devices
  std::vector<double> busy; ///< seconds by queue, all steps together
};

/// Devices that behaved alike.
struct SimulatedDevice {
  uint32_t device = 0; ///< the first of them, as the plan counts
  uint32_t count = 1;
  double computing = 0, communicating = 0, idle = 0; ///< seconds in which it did one of these, of all steps together
  double arenaBytes = 0;                             ///< what its arenas take
  double peakBytes = 0;                              ///< the most bytes of its buffers that were in use at once
  /// Bytes in use from a time on.
  std::vector<std::pair<double, double>> memory;
};

struct SimulationResult {
  /// When each step was submitted and when it was over, in seconds.
  std::vector<std::pair<double, double>> steps;
  std::vector<SimulatedSite> sites;
  std::vector<SimulatedDevice> devices;
  /// By device of the plan: a place in `devices`, or noDevice where the entry does not use it.
  std::vector<uint32_t> classOfDevice;
  std::vector<SimulatedEvent> events; ///< in the order in which they began

  /// The median time of a step.
  double stepSeconds() const;
  /// Steps a second: of all but the first one, if there are several.
  double stepsPerSecond() const;
};

/// Simulates an entry of a plan that has passed verifyPlan. Status::Failure when the model gives no finite time.
Expected<SimulationResult> simulate(const PlanContents &plan, const Entry &entry, const MachineModel &model,
                                    const SimulationOptions &options = {});

/// What the longest chain of a simulation's last step was busy with.
struct CriticalItem {
  std::string name; ///< a model node, or what a device waited for
  std::string what; ///< "call", "all_reduce", ..., "wait"
  uint32_t device = 0;
  double seconds = 0;
};
/// The items by falling time; together they take the time of the step.
std::vector<CriticalItem> criticalPath(const Entry &entry, const SimulationResult &result);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_SIMULATOR_H
