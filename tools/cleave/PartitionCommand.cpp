// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave partition`: stages and replicas from a measured cost graph, or the cost of given ones.

#include "compiler/Figures.h"
#include "compiler/PlanMachine.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/CostFields.h"
#include "tools/cleave/CostGraphFile.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/StageRanges.h"
#include "tools/cleave/TextTable.h"

#include "passes/cost/Topology.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <numeric>

namespace cleave::tool {
namespace {

using stages::CostGraph;
using stages::ReplicatedStages;
using stages::Stage;
using stages::StageProblem;
using Mode = ReplicatedStages::Mode;

struct PartitionOptions {
  std::string costs, machine, evaluate, memory, json;
  unsigned microbatches = 0, mostReplicas = 0;
};

/// Intervals and sizes that are tried; operators of larger graphs are cut between groups only.
constexpr double mostEdges = 5e5;

/// The machine's links: replicas are on neighbouring devices from the beginning of a host on; stages are as far from
/// each other as the first device from the last.
class MachineLinks : public stages::ReplicaLinks {
public:
  explicit MachineLinks(const Machine &machine) : topology(machine), numDevices(machine.devices.size()) {
    if (numDevices > 1)
      link = topology.between(0, numDevices - 1);
  }

  double allReduceSeconds(double bytes, unsigned devices) override {
    auto [found, isNew] = levels.try_emplace(devices);
    if (isNew) {
      std::vector<unsigned> members(devices);
      std::iota(members.begin(), members.end(), 0);
      found->second = topology.levels(members, {static_cast<int64_t>(devices)}, {0u});
    }
    return cleave::allReduceSeconds(bytes, found->second);
  }
  double bandwidth() override { return link.bandwidth; }
  double latency() override { return link.latency; }

private:
  Topology topology;
  unsigned numDevices;
  LinkSpec link;
  std::map<unsigned, llvm::SmallVector<LinkLevel>> levels;
};

/// The stages, and what they are compared with.
struct PartitionResult {
  std::vector<Stage> stages;
  double seconds = 0, dataParallelSeconds = 0, oneDeviceSeconds = 0, lowerBound = 0;
};

class Partitioner {
public:
  Partitioner(const PartitionOptions &options, const CostGraph &graph, const Machine &machine)
      : options(options), graph(graph), machine(machine), links(machine),
        costs(graph, links, options.microbatches ? Mode::Step : Mode::Steady) {}

  Expected<PartitionResult> run() {
    PartitionResult result;
    unsigned numDevices = machine.devices.size();
    if (Error error = makeProblem())
      return error;
    result.oneDeviceSeconds = secondsOf({0, numOps(), 0, 0, 1, {}, 1});
    result.dataParallelSeconds = secondsOf({0, numOps(), 0, 0, numDevices, {}, 1});
    if (!std::isfinite(result.dataParallelSeconds + result.oneDeviceSeconds))
      return makeError(Status::Failure, "costs of \"", options.costs, "\" expect times and sizes with finite sums");
    if (options.evaluate.empty()) {
      if (Error error = search(result))
        return error;
    } else {
      auto given = parseStageRanges(options.evaluate, graph, numDevices);
      if (!given)
        return given.error();
      result.stages = std::move(*given);
    }
    result.seconds = secondsOf(result.stages);
    return result;
  }

  ReplicatedStages &stageCosts() { return costs; }

private:
  unsigned numOps() const { return graph.ops.size(); }

  Error makeProblem() {
    problem.numLayers = numOps();
    // Without a number of microbatches the pipeline never runs empty: what counts is the longest stage, and only among
    // equals the sum.
    problem.microbatches = options.microbatches ? options.microbatches : 1'000'000'000;
    stages::DeviceRun run;
    run.count = machine.devices.size();
    run.stageSizes = stageSizes();
    if (!options.memory.empty()) {
      auto bytes = parseQuantity(llvm::StringRef(options.memory), sizeUnits, "--memory");
      if (!bytes)
        return fromLlvm(Status::Usage, bytes.takeError());
      run.memory = *bytes;
    }
    problem.runs = {run};
    return Error::success();
  }

  /// Any number inside a host; whole hosts, of many hosts powers of two and three times these; all devices.
  std::vector<unsigned> stageSizes() const {
    unsigned all = machine.devices.size(), host = 0;
    while (host < all && machine.devices[host].host == machine.devices.front().host)
      ++host;
    constexpr unsigned manyHosts = 64;
    std::vector<unsigned> sizes;
    for (unsigned size = 1; size <= all; size += size < host ? 1 : host) {
      unsigned hosts = size / host;
      bool isRound =
          hosts <= manyHosts || std::has_single_bit(hosts) || (hosts % 3 == 0 && std::has_single_bit(hosts / 3));
      if ((isRound || size == all) && (!options.mostReplicas || size <= options.mostReplicas))
        sizes.push_back(size);
    }
    return sizes;
  }

  Error search(PartitionResult &result) {
    stages::SearchOptions searchOptions;
    searchOptions.mostGroups = std::sqrt(2 * mostEdges / problem.runs.front().stageSizes.size());
    stages::StagePlan plan = searchStages(problem, costs, searchOptions);
    if (!plan.isFeasible())
      return makeError(Status::Infeasible, "the fullest device expects at least ",
                       static_cast<uint64_t>(plan.leastBytes), " bytes for any stages, got a limit of ",
                       options.memory);
    result.stages = plan.stages;
    result.lowerBound = plan.lowerBound;
    return Error::success();
  }

  double secondsOf(const Stage &stage) {
    std::vector<Stage> stages = {stage};
    return secondsOf(stages);
  }

  /// A step; or what a batch takes while the pipeline is full. Completes the stages.
  double secondsOf(std::vector<Stage> &stages) {
    double longest = 0;
    for (Stage &stage : stages) {
      stage.option = costs.options(stage.first, stage.last, 0, stage.devices).front();
      longest = std::max(longest, stage.option.seconds());
    }
    double step = stepSeconds(problem, costs, stages);
    return options.microbatches ? step : longest;
  }

  const PartitionOptions &options;
  const CostGraph &graph;
  const Machine &machine;
  MachineLinks links;
  ReplicatedStages costs;
  StageProblem problem;
};

//===-- output ------------------------------------------------------------------------------------------------===//

void printResult(llvm::raw_ostream &out, const PartitionOptions &options, const CostGraph &graph,
                 ReplicatedStages &costs, const PartitionResult &result) {
  const char *what = options.microbatches ? "a step" : "a batch";
  out << result.stages.size() << (result.stages.size() == 1 ? " stage, " : " stages, ");
  if (options.microbatches)
    out << "a step of " << options.microbatches << " batches under 1F1B: ";
  else
    out << "a batch while the pipeline is full: ";
  out << millisecondsText(result.seconds) << " ms, " << fixedText(result.oneDeviceSeconds / result.seconds, 2)
      << " times one device\ndata parallel alone: " << millisecondsText(result.dataParallelSeconds)
      << " ms, one device: " << millisecondsText(result.oneDeviceSeconds) << " ms " << what << "\n\n";
  using Align = TextTable::Align;
  TextTable table({{"from", Align::Left, 12},
                   {"to", Align::Left, 12},
                   {"replicas", Align::Right},
                   {"ms", Align::Right},
                   {"parameters", Align::Right},
                   {"enters", Align::Right},
                   {"in flight", Align::Right},
                   {"bytes a device", Align::Right}});
  for (const Stage &stage : result.stages)
    table.addRow({graph.ops[stage.first].name, graph.ops[stage.last - 1].name, std::to_string(stage.devices),
                  fixedText(stage.option.seconds() * 1e3, 3), bytesText(costs.parameterBytes(stage.first, stage.last)),
                  bytesText(costs.entering(stage.first, stage.last)), fixedText(stage.inFlight, 0),
                  bytesText(stage.bytes())});
  table.print(out);
  out << "\n" << stageRangesText(result.stages, graph) << "\n";
}

void writeResult(JsonStream &json, const PartitionOptions &options, const CostGraph &graph, ReplicatedStages &costs,
                 const PartitionResult &result) {
  json.attribute("version", 1);
  json.attribute("mode", options.microbatches ? "step" : "steady");
  if (options.microbatches)
    json.attribute("microbatches", options.microbatches);
  json.attribute("seconds", result.seconds);
  json.attribute("data_parallel_seconds", result.dataParallelSeconds);
  json.attribute("one_device_seconds", result.oneDeviceSeconds);
  json.attribute("ranges", stageRangesText(result.stages, graph));
  json.attributeArray("stages", [&] {
    for (const Stage &stage : result.stages)
      json.object([&] {
        json.attribute("first", graph.ops[stage.first].name);
        json.attribute("last", graph.ops[stage.last - 1].name);
        json.attribute("replicas", stage.devices);
        json.attributeArray("devices", [&] {
          for (unsigned i = 0; i < stage.devices; ++i)
            json.value(stage.firstDevice + i);
        });
        json.attribute("seconds", stage.option.seconds());
        json.attribute("per_step_seconds", stage.option.perStep);
        json.attribute("parameter_bytes", costs.parameterBytes(stage.first, stage.last));
        json.attribute("entering_bytes", costs.entering(stage.first, stage.last));
        json.attribute("in_flight", stage.inFlight);
        json.attribute("device_bytes", stage.bytes());
      });
  });
}

Error partition(const PartitionOptions &options) {
  auto machine = readMachine(options.machine);
  if (!machine)
    return machine.error();
  for (const DeviceSpec &device : machine->devices)
    if (device.kind != machine->devices.front().kind)
      return makeError(Status::Usage, "partition expects devices of one kind, for which the costs were measured; got ",
                       machine->devices.front().kind, " and ", device.kind);
  auto graph = readCostGraph(options.costs);
  if (!graph)
    return fromLlvm(Status::Failure, graph.takeError());
  Partitioner partitioner(options, *graph, *machine);
  auto result = partitioner.run();
  if (!result)
    return result.error();
  if (!options.json.empty()) {
    Error error = writeJson(
        options.json, [&](JsonStream &json) { writeResult(json, options, *graph, partitioner.stageCosts(), *result); });
    // JSON on standard output stands there alone.
    if (error || options.json == "-")
      return error;
  }
  return writeOutput(
      "-", [&](llvm::raw_ostream &out) { printResult(out, options, *graph, partitioner.stageCosts(), *result); });
}

} // namespace

void addPartitionCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<PartitionOptions>();
  CLI::App *command = app.add_subcommand(
      "partition", "Finds stages and replicas for a measured cost graph, or says what given ones cost.");
  command->add_option("COSTS", options->costs, "a cost graph, a YAML file")->required();
  command->add_option("--machine", options->machine, "the devices and links: a machine file or a preset")
      ->type_name("M")
      ->required();
  command
      ->add_option("--microbatches", options->microbatches,
                   "the batches of a synchronous step; without it, a pipeline that is always full")
      ->check(CLI::Range(1u, 1000000u))
      ->type_name("N");
  command->add_option("--max-replicas", options->mostReplicas, "the most replicas of a stage")
      ->check(CLI::Range(1u, mostDevices))
      ->type_name("N");
  command->add_option("--memory", options->memory, "the most bytes that a device may keep [no limit]")
      ->type_name("SIZE");
  command
      ->add_option("--evaluate", options->evaluate,
                   "stages to cost: ranges of the topological order, each with its number of replicas")
      ->type_name("A..B:N,C..D:N");
  addOutputOption(*command, "--json", options->json, "also write the result as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(partition(*options)); }; });
}

} // namespace cleave::tool
