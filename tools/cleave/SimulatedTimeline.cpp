// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step as the simulator sees it, instruction by instruction.

#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "tools/cleave/TimelineData.h"

#include "runtime/simulator/Simulator.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace cleave::tool {

using runtime::Instruction;
using runtime::QueueKind;
using runtime::SimulatedDevice;
using runtime::SimulatedEvent;
using runtime::SimulationResult;
using Kind = TimelineData::Kind;

static Kind kindOf(QueueKind queue) {
  switch (queue) {
  case QueueKind::Compute:
    return Kind::Compute;
  case QueueKind::Host:
    return Kind::Host;
  case QueueKind::Send:
  case QueueKind::Receive:
  case QueueKind::Collective:
    return Kind::Communication;
  }
  return Kind::Compute;
}

namespace {
class SimulationDrawing {
public:
  SimulationDrawing(const PlanSummary &summary, const SimulationResult &result) : summary(summary), result(result) {}

  TimelineData run(const std::string &machine) {
    timeline.source = "one step, simulated on " + machine;
    timeline.seconds = result.steps.front().second;
    size_t shown = std::min(result.events.size(), timelineEventLimit);
    for (const SimulatedEvent &event : llvm::ArrayRef(result.events).take_front(shown))
      addEvent(event);
    if (shown != result.events.size())
      timeline.note = "the first " + std::to_string(shown) + " of " + std::to_string(result.events.size()) + " events";
    for (const SimulatedDevice &device : result.devices) {
      auto track = static_cast<uint32_t>(timeline.memoryTracks.size());
      timeline.memoryTracks.push_back(nameOf(device));
      for (auto [seconds, bytes] : device.memory)
        timeline.memory.push_back({track, seconds, bytes});
    }
    llvm::stable_sort(timeline.memory, [](const auto &a, const auto &b) { return a.seconds < b.seconds; });
    return std::move(timeline);
  }

private:
  std::string nameOf(const SimulatedDevice &device) const {
    std::string name = summary.plan.devices[device.device].name;
    return device.count == 1 ? name : name + " and " + std::to_string(device.count - 1) + " alike";
  }

  void addEvent(const SimulatedEvent &event) {
    const runtime::SimulatedSite &site = result.sites[event.site];
    const runtime::Program &program = summary.entry.programs[site.programIndex];
    const Instruction &instruction = program.body[event.instruction];
    QueueKind queue = program.queues[instruction.queue];
    auto [track, isNew] =
        tracks.try_emplace({event.site, instruction.queue}, static_cast<uint32_t>(timeline.tracks.size()));
    if (isNew)
      timeline.tracks.push_back(nameOf(result.devices[site.device]) + " " + queueKindName(queue));
    timeline.events.push_back({track->second, kindOf(queue), event.begin, event.end,
                               instruction.node + " (" + kindName(instruction.action) + ")"});
  }

  const PlanSummary &summary;
  const SimulationResult &result;
  TimelineData timeline;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> tracks; // by site and queue
};
} // namespace

Expected<TimelineData> simulatedTimeline(const runtime::Plan &plan, const PlanSummary &summary) {
  std::string name = machineNameOf(plan, summary.entry, "");
  auto machine = machineOf(plan, summary.entry, "");
  if (!machine)
    return machine.error();
  runtime::Profile profile = readHostProfile(console());
  std::unique_ptr<PlanCost> cost = costOf(*machine, plan, summary.entry, profile);
  auto result = runtime::simulate(summary.plan, summary.entry, *cost);
  if (!result)
    return result.error();
  return SimulationDrawing(summary, *result).run(name);
}

} // namespace cleave::tool
