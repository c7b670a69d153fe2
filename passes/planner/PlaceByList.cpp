// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a search graph to tasks, and back to places.

#include "passes/planner/PlaceByList.h"

#include "passes/cost/HostSharing.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/Topology.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace cleave {

/// Devices beyond these are not looked at: no model has as many branches.
static constexpr unsigned mostPlacedDevices = 16;

double ListPlacement::peakBytes() const {
  double peak = 0;
  for (auto [own, transient] : llvm::zip_equal(parameters, transients))
    peak = std::max(peak, own + transient);
  return peak;
}

namespace {

/// The operators of a graph on devices of one kind, as the search costs them on a single device.
double secondsOf(const search::Operator &op, const OperatorCost &cost) {
  if (op.once)
    return 0;
  if (op.fused)
    return op.cost.flops / cost.peakFlops();
  KernelWork work{op.cost.costClass, op.cost.flops, op.cost.bytesRead + op.cost.bytesWritten, op.slides};
  if (op.cost.winogradPixels > 0)
    work.winograd = KernelWork::Winograd::OfConstants;
  return cost.seconds(work);
}

double transientOf(const search::SearchGraph &graph, const search::Operator &op) {
  double bytes = 0;
  for (const search::Operand &operand : op.operands)
    bytes += operand.bytes;
  for (unsigned tensor : op.results)
    bytes += graph.tensors[tensor].bytes;
  return bytes;
}

std::vector<double> parameterBytesByNode(const search::SearchGraph &graph) {
  std::vector<double> bytes(graph.nodes.size(), 0.0);
  for (const search::Parameter &parameter : graph.parameters)
    if (parameter.firstUse != search::none)
      bytes[graph.operators[parameter.firstUse].node] += parameter.bytes;
  return bytes;
}

/// Nodes whose operators run once stand where the first of those that read them does.
void moveToReaders(const search::SearchGraph &graph, std::vector<unsigned> &devices) {
  for (auto [index, op] : llvm::enumerate(graph.operators))
    if (op.once)
      devices[op.node] = devices[graph.operators[graph.placedWith(index)].node];
}

} // namespace

placement::PlacementProblem placementProblemOf(const search::SearchGraph &graph, const Machine &machine,
                                               ArrayRef<unsigned> devices, const search::SearchRequest &request) {
  placement::PlacementProblem problem;
  // Transients are a maximum, and those of any task may come on top of what a device keeps.
  double transient = 0;
  for (const search::Operator &op : graph.operators)
    transient = std::max(transient, transientOf(graph, op));
  std::vector<OperatorCost> costs;
  std::vector<unsigned> firstOfKind;
  for (unsigned device : devices) {
    const DeviceSpec &spec = machine.devices[device];
    auto same = llvm::find_if(firstOfKind, [&](unsigned other) {
      return machine.devices[other].kind == spec.kind && machine.devices[other].cores == spec.cores;
    });
    auto kind = static_cast<unsigned>(same - firstOfKind.begin());
    if (same == firstOfKind.end()) {
      firstOfKind.push_back(device);
      costs.emplace_back(deviceKindOf(machine, device), "f32");
    }
    problem.devices.push_back({kind, std::max(0.0, request.memoryOf(spec) - transient)});
  }
  std::vector<double> parameters = parameterBytesByNode(graph);
  for (double bytes : parameters)
    problem.tasks.push_back({std::vector<double>(costs.size(), 0.0), bytes});
  for (const search::Operator &op : graph.operators)
    for (auto [kind, cost] : llvm::enumerate(costs))
      problem.tasks[op.node].seconds[kind] += secondsOf(op, cost);
  for (auto [index, tensor] : llvm::enumerate(graph.tensors)) {
    if (tensor.producer == search::none || graph.operators[tensor.producer].once)
      continue;
    unsigned from = graph.operators[tensor.producer].node;
    for (auto [user, operand] : tensor.uses)
      if (unsigned to = graph.operators[user].node; to != from)
        problem.edges.push_back({from, to, tensor.bytes, static_cast<unsigned>(index)});
  }
  Topology topology(machine);
  for (unsigned from : devices)
    for (unsigned to : devices) {
      LinkSpec link = from == to ? LinkSpec() : topology.between(from, to);
      problem.links.push_back({link.latency, link.bandwidth});
    }
  return problem;
}

ListPlacement placeByList(const search::SearchGraph &graph, const Machine &machine,
                          const search::SearchRequest &request, double secondsToBeat) {
  ListPlacement made;
  // Branches side by side on devices that share cores gain nothing.
  std::vector<unsigned> devices = HostSharing(machine).devicesWithCores();
  devices.resize(std::min<size_t>(devices.size(), mostPlacedDevices));
  placement::PlacementProblem problem = placementProblemOf(graph, machine, devices, request);
  auto tasks = placement::TaskGraph::make(problem);
  if (!tasks) {
    // Nodes that read each other's results cannot be placed as wholes.
    made.lowerBound = std::numeric_limits<double>::infinity();
    return made;
  }
  made.lowerBound = placement::lowerBound(problem, *tasks);
  if (made.lowerBound >= secondsToBeat)
    return made;
  placement::PlaceResult result = placement::place(problem);
  if (!result.placement.isFeasible())
    return made;
  made.seconds = result.placement.seconds;
  for (auto [task, device] : llvm::zip_equal(problem.tasks, result.placement.devices)) {
    made.nodeSeconds.push_back(task.seconds[problem.devices[device].kind]);
    made.devices.push_back(devices[device]);
  }
  moveToReaders(graph, made.devices);
  made.parameters.assign(machine.devices.size(), 0.0);
  made.transients.assign(machine.devices.size(), 0.0);
  for (unsigned node = 0; node != made.devices.size(); ++node)
    made.parameters[made.devices[node]] += problem.tasks[node].bytes;
  for (const search::Operator &op : graph.operators) {
    double &transient = made.transients[made.devices[op.node]];
    transient = std::max(transient, transientOf(graph, op));
  }
  return made;
}

search::Considered considered(const ListPlacement &placement) {
  search::Considered made;
  made.name = "operators on single devices";
  if (placement.isFeasible()) {
    made.seconds = placement.seconds;
    made.bytes = placement.peakBytes();
    made.whyNot = "slower";
  } else {
    made.whyNot = std::isinf(placement.lowerBound)
                      ? "nodes read each other's results"
                      : llvm::formatv("takes {0:f3} ms or more", placement.lowerBound * 1e3).str();
  }
  return made;
}

std::vector<MeshSpec> singleDeviceMeshes(const Machine &machine) {
  std::vector<MeshSpec> meshes;
  for (unsigned device = 0; device != machine.devices.size(); ++device)
    meshes.push_back(MeshSpec::ofDevice(device));
  return meshes;
}

std::vector<NodePlace> placesOf(const ListPlacement &placement, ArrayRef<MeshSpec> meshes) {
  std::vector<NodePlace> places;
  for (unsigned device : placement.devices)
    places.push_back({&meshes[device], "planner"});
  return places;
}

PlanReport reportOf(const search::SearchGraph &graph, const ListPlacement &placement, const search::FoundPlan &other,
                    const search::SearchRequest &request, const Machine &machine) {
  PlanReport report;
  runtime::Prediction &to = report.prediction;
  to.machine = machine.name;
  to.training = request.training;
  to.stepSeconds = placement.seconds;
  to.lowerBoundSeconds = other.lowerBound;
  to.modelFlops = other.modelFlops;
  to.microbatches = 1;
  to.memoryLimit = other.memoryLimit;
  to.peakBytes.assign(machine.devices.size(), 0.0);
  std::vector<double> seconds(machine.devices.size(), 0.0);
  for (auto [device, own] : llvm::zip_equal(placement.devices, placement.nodeSeconds))
    seconds[device] += own;
  std::vector<uint32_t> stageOf(machine.devices.size(), 0);
  for (unsigned device = 0; device != machine.devices.size(); ++device) {
    if (!llvm::is_contained(placement.devices, device))
      continue;
    stageOf[device] = to.stages.size();
    runtime::PlanStage &stage = to.stages.emplace_back();
    stage.forward = seconds[device];
    stage.memory = {placement.parameters[device], 0, 0, 0, placement.transients[device]};
    stage.inFlight = 1;
    stage.recompute = recomputeName(search::Recompute::None);
    report.stageMeshes.push_back(MeshSpec::ofDevice(device).name);
    to.peakBytes[device] = placement.parameters[device] + placement.transients[device];
  }
  for (const search::Considered &considered : other.considered)
    to.alternatives.push_back({considered.name, considered.seconds, considered.bytes, considered.whyNot});
  to.alternatives.push_back({"splits and stages", other.seconds, other.peakBytes(), "slower"});
  for (auto [index, node] : llvm::enumerate(graph.nodes)) {
    OperatorReport &made = report.operators[node.name];
    made.seconds = placement.nodeSeconds[index];
    made.communicationSeconds = 0;
    made.stage = stageOf[placement.devices[index]];
  }
  return report;
}

} // namespace cleave
