// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums up a plan.

#include "tools/cleave/PlanSummary.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>
#include <set>

namespace cleave::tool {

using namespace runtime;

PlanSummary::PlanSummary(const PlanContents &plan, const Entry &entry)
    : plan(plan), entry(entry), devices(plan.devices.size()) {
  addOperators();
  addPrograms();
}

void PlanSummary::addOperators() {
  for (const Operator &op : entry.operators) {
    flops += op.flops;
    bytes += op.bytes;
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

/// The buffer that a collective fills; none where the action is no collective.
static std::optional<uint32_t> targetOf(const Action &action) {
  if (const auto *exchange = std::get_if<Exchange>(&action))
    return exchange->kind == ExchangeKind::Slice ? std::nullopt : std::optional(exchange->target);
  if (const auto *reduce = std::get_if<AllReduce>(&action))
    return reduce->target;
  if (const auto *scatter = std::get_if<ReduceScatter>(&action))
    return scatter->target;
  return std::nullopt;
}

void PlanSummary::addCollectives(const Program &program) {
  for (const Instruction &instruction : program.body)
    if (auto target = targetOf(instruction.action))
      collectives.push_back(
          {instruction.node, kindName(instruction.action), program.mesh, program.buffers[*target].bytes});
}

void PlanSummary::addPrograms() {
  for (const Program &program : entry.programs) {
    addCollectives(program);
    for (uint32_t index : plan.meshes[program.mesh].devices) {
      devices[index].arenaBytes += program.arenaBytes;
      devices[index].liveBytes += program.liveBytes;
      for (const Instruction &instruction : program.prepare)
        if (const auto *load = std::get_if<LoadParameter>(&instruction.action))
          devices[index].parameterBytes += static_cast<double>(program.buffers[load->buffer].bytes);
      for (const Instruction &instruction : program.body) {
        const auto *receive = std::get_if<Receive>(&instruction.action);
        if (!receive)
          continue;
        // Of a mesh, its first device stands for all.
        Transfer transfer{instruction.node,
                          plan.meshes[receive->mesh].devices.front(),
                          index,
                          program.buffers[receive->buffer].bytes,
                          {}};
        std::set<std::string> seen;
        for (const Operator &op : entry.operators) {
          bool reads =
              llvm::any_of(op.inputs, [&](uint32_t input) { return entry.operators[input].name == transfer.node; });
          if (reads && llvm::is_contained(plan.meshes[op.mesh].devices, index) && seen.insert(op.name).second)
            transfer.consumers.push_back(op.name);
        }
        transfers.push_back(std::move(transfer));
      }
    }
  }
}

std::string PlanSummary::deviceNames(const Operator &op) const {
  const std::vector<uint32_t> &devices = plan.meshes[op.mesh].devices;
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
        return library->operation;
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

std::vector<uint32_t> PlanSummary::consumersOf(uint32_t index) const {
  std::vector<uint32_t> consumers;
  for (auto [i, op] : llvm::enumerate(entry.operators))
    if (llvm::is_contained(op.inputs, index))
      consumers.push_back(i);
  return consumers;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

} // namespace cleave::tool
