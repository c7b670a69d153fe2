// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From simulated events to times of instructions.

#include "compiler/EntryTimes.h"

#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "passes/train/TrainingStep.h"
#include "runtime/simulator/Simulator.h"

namespace cleave {

static bool isTraining(const runtime::Entry &entry) {
  llvm::StringRef name = entry.name;
  return name.consume_front(trainGraphName) && (name.empty() || name.starts_with("/"));
}

/// Steps of a pipeline that does not drain overlap: what one takes shows where several are in flight.
static runtime::SimulationOptions simulationOf(const runtime::Plan &plan, const runtime::Entry &entry) {
  runtime::SimulationOptions options;
  bool drains = llvm::none_of(plan->entries, [](const runtime::Entry &other) { return other.name == drainGraphName; });
  if (!drains && isTraining(entry)) {
    options.steps = 8;
    options.inFlight = 3;
  }
  return options;
}

/// From the end of one step to that of the next; of a single one all that it takes.
static double secondsBetweenSteps(const runtime::SimulationResult &simulated) {
  if (simulated.steps.size() == 1)
    return simulated.stepSeconds();
  return (simulated.steps.back().second - simulated.steps.front().second) /
         static_cast<double>(simulated.steps.size() - 1);
}

std::vector<double> arenaBytes(const runtime::Plan &plan, const runtime::Entry &entry) {
  std::vector<double> bytes(plan->devices.size());
  for (const runtime::Program &program : entry.programs)
    for (uint32_t device : plan->meshes[program.mesh].devices)
      bytes[device] += static_cast<double>(program.arenaBytes);
  if (isOfReplicas(*plan, entry))
    for (uint32_t device = plan->replicas->devices; device != plan->replicas->count * plan->replicas->devices; ++device)
      bytes[device] = bytes[device - plan->replicas->devices];
  return bytes;
}

std::vector<double> arenaBytes(const runtime::Plan &plan) {
  // Replicas and their keeper have arenas of their own.
  std::map<std::pair<uint32_t, bool>, double> ofMesh;
  for (const runtime::Entry &entry : plan->entries)
    for (const runtime::Program &program : entry.programs) {
      double &bytes = ofMesh[{program.mesh, isOfReplicas(*plan, entry)}];
      bytes = std::max(bytes, static_cast<double>(program.arenaBytes));
    }
  std::vector<double> all(plan->devices.size());
  for (auto [mesh, bytes] : ofMesh)
    for (uint32_t device : plan->meshes[mesh.first].devices)
      for (uint32_t replica = 0; replica != (mesh.second ? plan->replicas->count : 1); ++replica)
        all[device + (mesh.second ? replica * plan->replicas->devices : 0)] += bytes;
  return all;
}

/// By instruction the longest time that a device of the program takes for it.
static InstructionSeconds secondsOf(const runtime::Entry &entry, const runtime::SimulationResult &simulated) {
  InstructionSeconds seconds;
  for (const runtime::Program &program : entry.programs)
    seconds.emplace_back(program.body.size(), 0.0);
  for (const runtime::SimulatedEvent &event : simulated.events) {
    double &longest = seconds[simulated.sites[event.site].programIndex][event.instruction];
    longest = std::max(longest, event.end - event.begin);
  }
  return seconds;
}

Expected<std::vector<EntryTimes>> timeEntries(const runtime::Plan &plan, const Machine &machine, Messages &messages) {
  std::vector<EntryTimes> times;
  runtime::Profile profile = readHostProfile(messages);
  const std::string machineFile = machineFileOf(machine);
  for (const runtime::Entry &entry : plan->entries) {
    runtime::SimulationOptions simulation = simulationOf(plan, entry);
    auto simulated = runtime::simulate(*plan, entry, *costOf(machine, plan, entry, profile), simulation);
    if (!simulated)
      return simulated.error();
    EntryTimes &made = times.emplace_back();
    made.seconds = secondsOf(entry, *simulated);
    runtime::Prediction &prediction = made.prediction;
    prediction.machine = machine.name;
    prediction.machineFile = machineFile;
    prediction.training = isTraining(entry);
    prediction.simulatedSeconds = secondsBetweenSteps(*simulated);
    // What a step of training computes besides the model, or twice, nobody has told apart from the model's work.
    if (!prediction.training)
      for (const runtime::Operator &op : entry.operators)
        prediction.modelFlops += op.flops;
    prediction.peakBytes = arenaBytes(plan, entry);
  }
  return times;
}

} // namespace cleave
