// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave simulate`: what a plan's steps would take on a machine, without running them.

#include "compiler/Figures.h"
#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/DecisionCost.h"
#include "tools/cleave/EntryChoice.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/ReplicaReport.h"
#include "tools/cleave/SimulateStages.h"
#include "tools/cleave/TextTable.h"

#include "runtime/FileReplacement.h"
#include "runtime/Verify.h"
#include "runtime/simulator/SimulationTrace.h"

#include "llvm/Support/FormatVariadic.h"

#include <CLI/CLI.hpp>
#include <fstream>

namespace cleave::tool {
namespace {

struct SimulateOptions {
  std::string plan, entry, machine, trace, json, kernelTimes;
  std::vector<std::string> slow; ///< of a plan with replicas, "R:F"
  runtime::SimulationOptions simulation;
};

/// A simulation and what it was of.
struct Simulated {
  const runtime::Plan &plan;
  const runtime::Entry &entry;
  const std::string &machine;
  const SimulateOptions &options;
  const runtime::SimulationResult &result;

  std::string nameOf(const runtime::SimulatedDevice &device) const {
    std::string name = plan->devices[device.device].name;
    return device.count == 1 ? name : name + " and " + std::to_string(device.count - 1) + " alike";
  }
  /// Seconds a step that a device's queues of a kind are busy.
  double busy(uint32_t device, runtime::QueueKind kind) const {
    double seconds = 0;
    for (const runtime::SimulatedSite &site : result.sites)
      if (site.device == device)
        for (size_t queue = 0; queue != site.busy.size(); ++queue)
          seconds += entry.programs[site.programIndex].queues[queue] == kind ? site.busy[queue] : 0;
    return perStep(seconds);
  }
  double perStep(double seconds) const { return seconds / static_cast<double>(result.steps.size()); }
};

constexpr runtime::QueueKind queueKinds[] = {runtime::QueueKind::Compute, runtime::QueueKind::Send,
                                             runtime::QueueKind::Receive, runtime::QueueKind::Collective,
                                             runtime::QueueKind::Host};

std::string milliseconds(double seconds) { return llvm::formatv("{0:f3}", seconds * 1e3); }

void printDevices(llvm::raw_ostream &out, const Simulated &simulated) {
  std::vector<runtime::QueueKind> kinds;
  std::vector<TextTable::Column> columns = {{"device", TextTable::Align::Left, 12}};
  for (runtime::QueueKind kind : queueKinds) {
    bool used = false;
    for (uint32_t device = 0; device != simulated.result.devices.size(); ++device)
      used |= simulated.busy(device, kind) > 0;
    if (!used)
      continue;
    kinds.push_back(kind);
    columns.push_back({std::string(queueKindName(kind)) + " ms", TextTable::Align::Right});
  }
  for (const char *title : {"idle ms", "in use at once", "arena"})
    columns.push_back({title, TextTable::Align::Right});
  TextTable table(std::move(columns));
  for (uint32_t index = 0; index != simulated.result.devices.size(); ++index) {
    const runtime::SimulatedDevice &device = simulated.result.devices[index];
    std::vector<std::string> row = {simulated.nameOf(device)};
    for (runtime::QueueKind kind : kinds)
      row.push_back(milliseconds(simulated.busy(index, kind)));
    row.push_back(milliseconds(simulated.perStep(device.idle)));
    row.push_back(bytesText(device.peakBytes));
    row.push_back(bytesText(device.arenaBytes));
    table.addRow(std::move(row));
  }
  table.print(out);
}

void printCriticalPath(llvm::raw_ostream &out, const Simulated &simulated) {
  static constexpr size_t shown = 10;
  std::vector<runtime::CriticalItem> items = criticalPath(simulated.entry, simulated.result);
  auto [begin, end] = simulated.result.steps.back();
  out << "\nthe longest of what the last step had to wait for, one after the other\n";
  TextTable table({{"node", TextTable::Align::Left, 20},
                   {"what", TextTable::Align::Left},
                   {"device", TextTable::Align::Left},
                   {"ms", TextTable::Align::Right},
                   {"share", TextTable::Align::Right}});
  for (const runtime::CriticalItem &item : llvm::ArrayRef(items).take_front(shown))
    table.addRow({item.name.empty() ? "-" : item.name, item.what, simulated.plan->devices[item.device].name,
                  milliseconds(item.seconds), llvm::formatv("{0:P1}", item.seconds / std::max(end - begin, 1e-30))});
  table.print(out);
}

void printText(llvm::raw_ostream &out, const Simulated &simulated) {
  const runtime::SimulationResult &result = simulated.result;
  out << simulated.plan->model << "\n"
      << llvm::formatv("on {0}: {1}, {2} in flight\n", simulated.machine, countText(result.steps.size(), "step"),
                       simulated.options.simulation.inFlight)
      << llvm::formatv("predicted: {0} ms a step{1}, {2:f2} steps a second\n\n", milliseconds(result.stepSeconds()),
                       simulated.options.simulation.inFlight > 1 ? " from its begin to its end" : "",
                       result.stepsPerSecond());
  printDevices(out, simulated);
  printCriticalPath(out, simulated);
}

void writeDevices(JsonStream &json, const Simulated &simulated) {
  for (uint32_t index = 0; index != simulated.result.devices.size(); ++index) {
    const runtime::SimulatedDevice &device = simulated.result.devices[index];
    json.object([&] {
      json.attribute("device", simulated.plan->devices[device.device].name);
      json.attribute("alike", device.count);
      json.attributeObject("busy_seconds", [&] {
        for (runtime::QueueKind kind : queueKinds)
          json.attribute(queueKindName(kind), simulated.busy(index, kind));
      });
      json.attribute("computing_seconds", simulated.perStep(device.computing));
      json.attribute("communicating_seconds", simulated.perStep(device.communicating));
      json.attribute("idle_seconds", simulated.perStep(device.idle));
      json.attribute("live_bytes", device.peakBytes);
      json.attribute("arena_bytes", device.arenaBytes);
    });
  }
}

void writeResults(JsonStream &json, const Simulated &simulated) {
  const runtime::SimulationResult &result = simulated.result;
  json.attribute("machine", simulated.machine);
  json.attribute("steps", static_cast<int64_t>(result.steps.size()));
  json.attribute("in_flight", simulated.options.simulation.inFlight);
  json.attribute("predicted_step_seconds", result.stepSeconds());
  json.attribute("predicted_steps_per_second", result.stepsPerSecond());
  json.attributeArray("predicted_peak_bytes", [&] {
    for (uint32_t device : result.classOfDevice)
      json.value(device == runtime::noDevice ? 0.0 : result.devices[device].arenaBytes);
  });
  json.attributeArray("devices", [&] { writeDevices(json, simulated); });
  json.attributeArray("critical_path", [&] {
    for (const runtime::CriticalItem &item : criticalPath(simulated.entry, result))
      json.object([&] {
        json.attribute("node", item.name);
        json.attribute("what", item.what);
        json.attribute("device", simulated.plan->devices[item.device].name);
        json.attribute("seconds", item.seconds);
      });
  });
}

Error writeFiles(const Simulated &simulated) {
  if (!simulated.options.trace.empty()) {
    runtime::Trace trace;
    traceSimulation(simulated.plan, simulated.entry, simulated.result, trace);
    if (Error error = runtime::replaceTextFile(simulated.options.trace, [&](std::ostream &out) { trace.write(out); }))
      return error;
  }
  if (simulated.options.json.empty())
    return Error::success();
  return writeJson(simulated.options.json, [&](JsonStream &json) { writeResults(json, simulated); });
}

Error simulateEntry(const SimulateOptions &options, const runtime::Plan &plan, const runtime::Entry &entry) {
  if (isDecision(entry) && options.machine.empty())
    return simulateStages(plan, entry, options.trace, options.json);
  if (isDecision(entry)) {
    auto compiled = costDecision(plan, entry, options.machine);
    if (!compiled)
      return compiled.error();
    auto costed = openPlan(*compiled);
    if (!costed)
      return costed.error();
    return simulateStages(*costed, (*costed)->entries.front(), options.trace, options.json);
  }
  std::string name = machineNameOf(plan, entry, options.machine);
  auto machine = machineOf(plan, entry, options.machine);
  if (!machine)
    return machine.error();
  auto measured = options.kernelTimes.empty() ? Expected<runtime::Profile>(readHostProfile(console()))
                                              : runtime::Profile::read(options.kernelTimes);
  if (!measured)
    return measured.error();
  const runtime::Profile &profile = *measured;
  std::unique_ptr<PlanCost> cost = options.kernelTimes.empty()
                                       ? costOf(*machine, plan, entry, profile)
                                       : std::make_unique<ProfiledCost>(*machine, *plan, entry, profile);
  if (const auto *profiled = dynamic_cast<const ProfiledCost *>(cost.get());
      profiled && profiled->numMeasured() != profiled->numCalls())
    printNote(llvm::Twine(profiled->numCalls() - profiled->numMeasured()) + " of " + llvm::Twine(profiled->numCalls()) +
              " calls are guesses; " + (options.kernelTimes.empty() ? "cleave profile" : "cleave-run --kernel-times") +
              " measures them");
  auto result = runtime::simulate(*plan, entry, *cost, options.simulation);
  if (!result)
    return result.error();
  Simulated simulated{plan, entry, name, options, *result};
  if (Error error = writeFiles(simulated))
    return error;
  return writeText(options.json, [&](llvm::raw_ostream &out) {
    if (options.entry == allEntries)
      out << "entry \"" << entry.name << "\"\n";
    printText(out, simulated);
  });
}

/// `--slow-replica` of this plan.
Expected<Slowdowns> slowdownsOf(const SimulateOptions &options, const runtime::Plan &plan) {
  if (plan->replicas)
    return parseSlowdowns(options.slow, *plan->replicas);
  if (options.slow.empty())
    return Slowdowns();
  return makeError(Status::Usage, "--slow-replica expects a plan with replicas; compile with --sync");
}

/// What replicas take together, behind what one of them takes.
Error simulateReplicas(const SimulateOptions &options, const runtime::Plan &plan, const Slowdowns &slowdowns) {
  if (!plan->replicas || options.json == "-")
    return Error::success();
  auto machine = machineOf(plan, plan->entries.front(), options.machine);
  if (!machine)
    return machine.error();
  llvm::outs() << "\n";
  return printReplicas(llvm::outs(), plan, *machine, slowdowns);
}

Error simulate(const SimulateOptions &options) {
  auto plan = runtime::readVerifiedPlan(options.plan);
  if (!plan)
    return plan.error();
  auto entries = chooseEntries(*plan, options.entry);
  if (!entries)
    return entries.error();
  if (options.entry == allEntries && !(options.trace.empty() && options.json.empty()))
    return makeError(Status::Usage, "--entry all expects no --trace and no --json; name one entry");
  auto slowdowns = slowdownsOf(options, *plan);
  if (!slowdowns)
    return slowdowns.error();
  for (const runtime::Entry *entry : *entries)
    if (Error error = simulateEntry(options, *plan, *entry))
      return error;
  return simulateReplicas(options, *plan, *slowdowns);
}

} // namespace

void addSimulateCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App *command = app.add_subcommand("simulate", "Predicts what the steps of a plan take on a machine.");
  command->add_option("PLAN", options->plan, "the plan")->required();
  addEntryOption(*command, options->entry);
  command->add_option("--machine", options->machine,
                      "the machine whose first devices are the plan's; default: what the plan was made for");
  command->add_option("--steps", options->simulation.steps, "how many steps")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--in-flight", options->simulation.inFlight, "how many of them at a time")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      ->add_option("--slow-replica", options->slow,
                   "of a plan with replicas: what if replica R took F times as long, as R:F")
      ->type_name("R:F")
      ->allow_extra_args(false);
  command
      ->add_option("--kernel-times", options->kernelTimes,
                   "what each kernel takes, as cleave-run --kernel-times has measured it on one device")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  addOutputOption(*command, "--trace", options->trace, "where the timeline goes, for Perfetto");
  addOutputOption(*command, "--json", options->json, "where the results go as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(simulate(*options)); }; });
}

} // namespace cleave::tool
