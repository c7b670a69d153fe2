// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rooflines and links by their numbers.

#include "passes/cost/PlanCost.h"

#include "passes/cost/DefaultMachine.h"
#include "passes/cost/RoundedProducts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace cleave {

PlanCost::PlanCost(const Machine &machine)
    : machine(machine), topology(this->machine), sharing(this->machine), linkBandwidths(topology.numLinks(), 1.0) {
  // Hosts that have other cores make devices of other kinds.
  std::map<std::tuple<std::string, unsigned, double>, uint32_t> indices;
  for (auto [number, device] : enumerate(this->machine.devices)) {
    uint32_t host = hostOf(static_cast<uint32_t>(number));
    hostCores.resize(std::max<size_t>(hostCores.size(), host + 1));
    hostCores[host] = sharing.cores(number);
    auto [entry, isNew] =
        indices.try_emplace({device.kind, device.cores, hostCores[host]}, static_cast<uint32_t>(kinds.size()));
    kindIndices.push_back(entry->second);
    if (!isNew)
      continue;
    DeviceKind &kind = kinds.emplace_back(deviceKindOf(this->machine, static_cast<unsigned>(number)));
    DeviceKind ordinary = defaultKind(device.driver, device.cores);
    if (kind.bandwidth <= 0)
      kind.bandwidth = ordinary.bandwidth;
    if (kind.peak.empty())
      kind.peak = ordinary.peak;
  }
}

//===-- devices -----------------------------------------------------------------------------------------------===//

/// As what a kernel multiplies: the type of its operands, or what they are rounded to.
static StringRef productTypeOf(const runtime::Kernel &kernel) {
  if (roundsProducts(kernel))
    return "tf32";
  return kernel.inputs.empty() ? "f32" : elementName(kernel.inputs.front().element);
}

static double numElements(const runtime::TensorType &type) {
  double count = 1;
  for (int64_t size : type.shape)
    count *= static_cast<double>(size);
  return count;
}

static CostClass classOf(runtime::CostClass costClass) {
  switch (costClass) {
  case runtime::CostClass::Contraction:
    return CostClass::Contraction;
  case runtime::CostClass::Elementwise:
    return CostClass::Elementwise;
  case runtime::CostClass::Reduction:
    return CostClass::Reduction;
  case runtime::CostClass::Movement:
    break;
  }
  return CostClass::Movement;
}

/// What a plan's kernel does. A library's product says what it multiplies by its operands; what our own kernels join
/// with it does not.
static KernelWork workOf(const runtime::Kernel &kernel, double bytes) {
  const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
  bool isProduct = kernel.inputs.size() >= 2 && !kernel.outputs.empty();
  return workOfCall(classOf(kernel.costClass), kernel.flops, bytes, library ? StringRef(library->operation) : "",
                    isProduct ? numElements(kernel.inputs[0]) : 0, isProduct ? numElements(kernel.inputs[1]) : 0,
                    isProduct ? numElements(kernel.outputs.front()) : 0);
}

const OperatorCost &PlanCost::costOf(uint32_t device, StringRef element) const {
  auto key = std::pair(kindIndices[device], element.str());
  auto known = costs.find(key);
  if (known == costs.end())
    known = costs.emplace(key, OperatorCost(kind(device), element)).first;
  return known->second;
}

/// Whether the instruction brings an input from the host's memory or an output there.
static bool crosses(const runtime::Instruction &instruction) {
  return std::holds_alternative<runtime::LoadInput>(instruction.action) ||
         std::holds_alternative<runtime::StoreOutput>(instruction.action);
}

/// Whether it moves what is kept there.
static bool moves(const runtime::Instruction &instruction) {
  return std::holds_alternative<runtime::Offload>(instruction.action) ||
         std::holds_alternative<runtime::Fetch>(instruction.action);
}

double PlanCost::stepSeconds(uint32_t device) const { return kind(device).step; }

double PlanCost::seconds(uint32_t device, const runtime::LocalWork &work) const {
  if (!work.kernel && work.instruction &&
      (moves(*work.instruction) || (kind(device).host.bandwidth > 0 && crosses(*work.instruction))))
    return hostCopySeconds(kind(device), work.bytes);
  if (!work.kernel)
    return costOf(device, "f32").seconds(CostClass::Movement, 0, work.bytes);
  bool multiplies = work.kernel->costClass == runtime::CostClass::Contraction;
  const OperatorCost &cost = costOf(device, multiplies ? productTypeOf(*work.kernel) : "f32");
  double seconds = cost.seconds(workOf(*work.kernel, work.bytes));
  // One of a GPU may need several launches.
  if (const auto *gpu = std::get_if<runtime::GpuKernel>(&work.kernel->body); gpu && gpu->launches.size() > 1)
    seconds += static_cast<double>(gpu->launches.size() - 1) * cost.launchSeconds();
  return seconds;
}

double PlanCost::overlapSlowdown(uint32_t device) const { return std::max(1.0, kind(device).overlapSlowdown); }

double PlanCost::contention(uint32_t device, const runtime::LocalWork &) const {
  return sharing.neighbourSlowdown(device);
}

double PlanCost::threadsOf(uint32_t device, unsigned) const { return sharing.threads(device); }

void PlanCost::findWay(uint32_t from, uint32_t to, double, runtime::Way &way) const {
  Topology::Way found = topology.way(from, to);
  way.latency = found.link.latency;
  way.bandwidth = found.link.bandwidth;
  linkBandwidths.resize(std::max(linkBandwidths.size(), topology.numLinks()), 1.0);
  for (const Topology::Way::Part &part : found.parts) {
    way.links.push_back(static_cast<uint32_t>(part.number));
    linkBandwidths[part.number] = part.bandwidth;
  }
}

} // namespace cleave
