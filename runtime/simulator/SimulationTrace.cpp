// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From seconds to the trace's nanoseconds.

#include "runtime/simulator/SimulationTrace.h"

#include <cmath>

namespace cleave::runtime {

static int64_t nearestNanosecond(double seconds) { return std::llround(1e9 * std::min(seconds, 1e9)); }

void traceSimulation(const Plan &plan, const Entry &entry, const SimulationResult &result, Trace &trace) {
  std::vector<std::vector<Trace::Track *>> tracks;
  for (const SimulatedSite &simulated : result.sites) {
    const SimulatedDevice &device = result.devices[simulated.device];
    const Program &program = entry.programs[simulated.programIndex];
    std::vector<Trace::Track *> &list = tracks.emplace_back();
    for (uint32_t queue = 0; queue != program.queues.size(); ++queue) {
      list.push_back(&trace.add(plan, {device.device, &program, simulated.programIndex, simulated.member, program.mesh},
                                queue, program.queues[queue]));
      if (device.count > 1)
        list.back()->deviceName += " and " + std::to_string(device.count - 1) + " alike";
    }
  }
  for (const SimulatedEvent &event : result.events) {
    const Instruction &instruction = entry.programs[result.sites[event.site].programIndex].body[event.instruction];
    tracks[event.site][instruction.queue]->events.push_back(
        {&instruction, Phase::Body, event.step, nearestNanosecond(event.begin), nearestNanosecond(event.end)});
  }
  for (const SimulatedDevice &device : result.devices) {
    Trace::Counter &counter = trace.addCounter(device.device, "bytes in use");
    for (auto [time, bytes] : device.memory)
      counter.values.emplace_back(nearestNanosecond(time), bytes);
  }
}

} // namespace cleave::runtime
