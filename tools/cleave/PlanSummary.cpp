// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums up a plan.

#include "tools/cleave/PlanSummary.h"

#include "compiler/Figures.h"
#include "passes/cost/RoundedProducts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace cleave::tool {

using namespace runtime;

PlanSummary::PlanSummary(const PlanContents &plan, const Entry &entry)
    : plan(plan), entry(entry), devices(plan.devices.size()), consumers(entry.operators.size()) {
  addOperators();
  addPrograms();
  addStages();
  addCuts();
}

void PlanSummary::addOperators() {
  for (auto [i, op] : llvm::enumerate(entry.operators)) {
    flops += op.flops;
    bytes += op.bytes;
    for (uint32_t input : op.inputs) {
      // An operator may read several results of another.
      if (consumers[input].empty() || consumers[input].back() != i)
        consumers[input].push_back(static_cast<uint32_t>(i));
      auto &readers = consumersOfNode[entry.operators[input].name];
      if (readers.empty() || readers.back() != i)
        readers.push_back(static_cast<uint32_t>(i));
    }
    // Devices share the work out evenly, and repeat it where there are more than parts of it.
    double share = 1.0 / std::max(1u, op.ways);
    for (uint32_t index : plan.meshes[op.mesh].devices) {
      DeviceSummary &device = devices[index];
      ++device.operators;
      device.flops += op.flops * share;
      device.bytes += op.bytes * share;
      device.receivedBytes += op.receivedBytes / static_cast<double>(plan.meshes[op.mesh].devices.size());
    }
  }
}

void PlanSummary::addCollectives(const Program &program) {
  for (const Instruction &instruction : program.body) {
    std::span<const Operand> operands = operandsOf(instruction.action);
    const auto *exchange = std::get_if<Exchange>(&instruction.action);
    if (operands.empty() || (exchange && exchange->kind == ExchangeKind::Slice))
      continue;
    CollectiveSummary &collective = collectives.emplace_back(
        CollectiveSummary{instruction.node, kindName(instruction.action), program.mesh, 0, {}});
    for (const Operand &operand : operands) {
      collective.bytes += program.buffers[operand.target].bytes;
      // A buffer has the name of its tensor's node.
      collective.nodes.push_back(operands.size() == 1 ? instruction.node : program.buffers[operand.source].name);
    }
  }
}

void PlanSummary::addTransfers(const Program &program) {
  for (const Instruction &instruction : program.body) {
    const auto *receive = std::get_if<Receive>(&instruction.action);
    if (!receive)
      continue;
    std::vector<std::string> consumers;
    for (uint32_t index : consumersOfNode[instruction.node])
      if (entry.operators[index].mesh == program.mesh)
        consumers.push_back(entry.operators[index].name);
    // Of the sending mesh, its first device stands for all.
    for (uint32_t to : plan.meshes[program.mesh].devices)
      transfers.push_back({instruction.node, plan.meshes[receive->mesh].devices.front(), to, receive->mesh,
                           program.mesh, program.buffers[receive->buffer].bytes, consumers});
  }
}

void PlanSummary::addPrograms() {
  for (const Program &program : entry.programs) {
    addCollectives(program);
    addTransfers(program);
    double parameterBytes = 0;
    for (const Instruction &instruction : program.prepare)
      if (const auto *load = std::get_if<LoadParameter>(&instruction.action))
        parameterBytes += static_cast<double>(program.buffers[load->buffer].bytes);
    for (uint32_t index : plan.meshes[program.mesh].devices) {
      devices[index].arenaBytes += program.arenaBytes;
      devices[index].liveBytes += program.liveBytes;
      devices[index].parameterBytes += parameterBytes;
    }
  }
}

void PlanSummary::addStages() {
  if (!prediction())
    return;
  for (const PlanStage &stage : prediction()->stages)
    for (uint32_t index : plan.meshes[stage.mesh].devices)
      devices[index].stageBytes += stage.memory.total();
}

/// What transfers bring: a node may be several operators, of which those of other stages want a scalar.
void PlanSummary::addTransferredCuts() {
  std::map<std::pair<uint32_t, uint32_t>, size_t> known;
  std::map<std::pair<std::string, uint32_t>, uint32_t> byNode;
  std::vector<uint32_t> stageOfMesh(plan.meshes.size());
  for (auto [i, op] : llvm::enumerate(entry.operators)) {
    byNode.try_emplace({op.name, op.mesh}, static_cast<uint32_t>(i));
    stageOfMesh[op.mesh] = op.stage;
  }
  for (const Transfer &transfer : transfers) {
    auto producer = byNode.find({transfer.node, transfer.fromMesh});
    if (producer == byNode.end())
      continue;
    auto [cut, isNew] = known.try_emplace({transfer.fromMesh, transfer.toMesh}, cuts.size());
    if (isNew)
      cuts.push_back(
          {stageOfMesh[transfer.fromMesh], stageOfMesh[transfer.toMesh], transfer.fromMesh, transfer.toMesh, 0, {}});
    cuts[cut->second].bytes += static_cast<double>(transfer.bytes);
    if (std::vector<uint32_t> &producers = cuts[cut->second].producers;
        !llvm::is_contained(producers, producer->second))
      producers.push_back(producer->second);
  }
  llvm::stable_sort(cuts, [](const MeshCut &left, const MeshCut &right) {
    return std::pair(left.fromStage, left.toStage) < std::pair(right.fromStage, right.toStage);
  });
}

void PlanSummary::addCuts() {
  if (!entry.programs.empty()) {
    addTransferredCuts();
    return;
  }
  std::map<std::array<uint32_t, 4>, size_t> known;
  for (auto [i, producer] : llvm::enumerate(entry.operators)) {
    std::set<size_t> counted;
    for (uint32_t index : consumers[i]) {
      const Operator &consumer = entry.operators[index];
      if (sameMesh(producer, consumer))
        continue;
      auto [cut, isNew] =
          known.try_emplace({producer.stage, consumer.stage, producer.mesh, consumer.mesh}, cuts.size());
      if (isNew)
        cuts.push_back({producer.stage, consumer.stage, producer.mesh, consumer.mesh, 0, {}});
      if (counted.insert(cut->second).second) {
        cuts[cut->second].bytes += producer.resultBytes;
        cuts[cut->second].producers.push_back(static_cast<uint32_t>(i));
      }
    }
  }
}

double stepWork(const PlanSummary &summary) {
  const runtime::Prediction *prediction = summary.prediction();
  return summary.entry.isDecision() && prediction && prediction->modelFlops > 0 ? prediction->modelFlops
                                                                                : summary.flops;
}

std::optional<double> PlanSummary::gap() const {
  const Prediction *expected = prediction();
  if (!expected || expected->stepSeconds < 0 || expected->lowerBoundSeconds <= 0)
    return std::nullopt;
  return expected->stepSeconds / expected->lowerBoundSeconds - 1;
}

/// What a gap says of the plan; of a negative one that the bound is inconsistent.
static std::string gapText(double gap) {
  constexpr double rounding = 1e-6;
  if (gap < -rounding)
    return "bound inconsistent: this plan takes " + percentText(-gap, 1) + " less; please report it";
  return gap < rounding ? "this one is an optimum" : "this one is at most " + percentText(gap, 1) + " above";
}

std::string PlanSummary::boundText() const {
  std::optional<double> known = gap();
  if (!known)
    return "";
  double bound = prediction()->lowerBoundSeconds;
  std::string text = secondsText(bound) + " for all plans searched; " + gapText(*known);
  // The simulator knows kernels and waits that the search, whose bound it is, does not.
  if (double simulated = prediction()->simulatedSeconds; simulated >= 0)
    text += ", as simulated " + percentText(std::abs(simulated / bound - 1), 1) +
            (simulated >= bound ? " above it" : " below it");
  return text;
}

std::optional<double> PlanSummary::modelFlopsRate() const {
  const Prediction *expected = prediction();
  size_t busy = devices.size() - numIdle();
  if (!expected || expected->bestSeconds() <= 0 || expected->modelFlops <= 0 || busy == 0)
    return std::nullopt;
  return expected->modelFlops / expected->bestSeconds() / static_cast<double>(busy);
}

std::string PlanSummary::modelFlopsText() const {
  auto rate = modelFlopsRate();
  return rate ? decimalText(*rate) + "flop/s of the model a " + (numIdle() ? "busy device" : "device") : "";
}

size_t PlanSummary::numIdle() const {
  // A plan of replicas is that of the first; the others are on the devices behind.
  llvm::ArrayRef<DeviceSummary> own = devices;
  size_t replicas = plan.replicas ? plan.replicas->count : 1;
  if (plan.replicas)
    own = own.take_front(plan.replicas->devices);
  return replicas * static_cast<size_t>(llvm::count_if(own, [](const DeviceSummary &device) {
           return device.operators == 0 && device.arenaBytes == 0;
         }));
}

std::string PlanSummary::idleText() const {
  size_t idle = numIdle();
  if (idle == 0)
    return "";
  return countText(idle, "device") + (idle == 1 ? " stays idle: " : " stay idle: ") +
         (isSearched() ? "the search found no better plan with more devices" : "the strategy has no work for more");
}

double PlanSummary::peakBytes(uint32_t device) const {
  const Prediction *expected = prediction();
  if (expected && device < expected->peakBytes.size() && expected->peakBytes[device] > 0)
    return expected->peakBytes[device];
  return devices[device].arenaBytes ? static_cast<double>(devices[device].arenaBytes) : devices[device].stageBytes;
}

double PlanSummary::peakBytes() const {
  double peak = 0;
  for (uint32_t device = 0; device != devices.size(); ++device)
    peak = std::max(peak, peakBytes(device));
  return peak;
}

std::string PlanSummary::deviceNames(const Operator &op) const { return deviceNames(plan.meshes[op.mesh].devices); }

std::string PlanSummary::deviceNames(const std::vector<uint32_t> &devices) const {
  std::string names;
  for (size_t i = 0; i < devices.size(); ++i) {
    names += (i == 0 ? "" : ",") + plan.devices[devices[i]].name;
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1)
      ++last;
    if (last > i + 1)
      names += ".." + plan.devices[devices[i = last]].name;
  }
  return names;
}

std::string PlanSummary::computedBy(const Operator &op) const {
  if (!op.fusedWith.empty())
    return "in " + op.fusedWith;
  if (op.kernel.empty())
    return "-";
  for (const Kernel &kernel : plan.kernels)
    if (kernel.name == op.kernel)
      if (const auto *library = std::get_if<LibraryKernel>(&kernel.body))
        return library->operation + (roundsProducts(kernel) ? ", tf32" : "");
  llvm::StringRef name = op.kernel;
  // The number at the end tells kernels of one kind apart; --op shows it.
  if (name.consume_front("native."))
    return ("native " + name.rsplit('.').first).str();
  return name.str();
}

std::string meshText(const Mesh &mesh) {
  std::string text = mesh.name;
  for (const Axis &axis : mesh.axes)
    text += (axis.name == mesh.axes.front().name ? ": " : " x ") + axis.name + " " + std::to_string(axis.size);
  return text;
}

std::vector<SplitFactor> readSplit(llvm::StringRef text) {
  std::vector<SplitFactor> factors;
  for (llvm::StringRef part : llvm::split(text, ", ")) {
    auto [factor, axes] = part.split('/');
    if (axes.empty())
      continue;
    SplitFactor &read = factors.emplace_back();
    read.factor = factor;
    for (llvm::StringRef axis : llvm::split(axes, "/"))
      read.axes.push_back(axis.rsplit(' ').first);
  }
  return factors;
}

std::string degreesText(const std::vector<Degree> &degrees) {
  std::string text;
  for (const Degree &degree : degrees)
    text += (text.empty() ? "" : " x ") + degree.name + " " + std::to_string(degree.ways);
  return text;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

} // namespace cleave::tool
