// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rooflines, and links by their numbers.

#include "passes/cost/PlanCost.h"

#include "passes/cost/RoundedProducts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace cleave {

static DeviceKind ordinaryKind(unsigned cores) {
  DeviceKind kind;
  kind.bandwidth = 1e10;
  kind.peak["f32"] = 4e10 * cores;
  kind.launch = 2e-6;
  return kind;
}

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
    auto known = this->machine.kinds.find(device.kind);
    DeviceKind ordinary = ordinaryKind(device.cores);
    DeviceKind &kind = kinds.emplace_back(known == this->machine.kinds.end() ? ordinary : known->second);
    if (kind.bandwidth <= 0)
      kind.bandwidth = ordinary.bandwidth;
    if (kind.peak.empty())
      kind.peak = ordinary.peak;
  }
}

//===-- devices -----------------------------------------------------------------------------------------------===//

/// The part of a peak that is reached at a size.
static double shareAt(const DeviceKind &kind, StringRef what, double size, StringRef element = "f32") {
  const EfficiencyCurve *curve = kind.findCurve(what, element);
  return curve ? std::max(curve->at(size), 1e-6) : 1;
}

/// The peak for an element type; f32's where nothing is said about it.
static double peakOf(const DeviceKind &kind, StringRef element) {
  auto found = kind.peak.find(element.str());
  if (found == kind.peak.end())
    found = kind.peak.find("f32");
  return found == kind.peak.end() ? kind.peak.begin()->second : found->second;
}

/// As what a kernel multiplies: the type of its operands, or what they are rounded to.
static StringRef productTypeOf(const runtime::Kernel &kernel) {
  if (roundsProducts(kernel))
    return "tf32";
  return kernel.inputs.empty() ? "f32" : elementName(kernel.inputs.front().element);
}

double PlanCost::seconds(uint32_t device, const runtime::LocalWork &work) const {
  const DeviceKind &kind = this->kind(device);
  auto moving = [&](const char *what) { return work.bytes / (kind.bandwidth * shareAt(kind, what, work.bytes)); };
  if (!work.kernel)
    return kind.launch + moving("movement");
  const runtime::Kernel &kernel = *work.kernel;
  const char *name = runtime::costClassName(kernel.costClass);
  if (kernel.costClass != runtime::CostClass::Contraction)
    return kind.launch + moving(name);
  const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
  StringRef element = productTypeOf(kernel);
  if (library && StringRef(library->operation).ends_with("convolution") && kind.findCurve("convolution", element))
    name = "convolution";
  double computing = kernel.flops / (peakOf(kind, element) * shareAt(kind, name, kernel.flops, element));
  return kind.launch + std::max(computing, work.bytes / kind.bandwidth);
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
  for (const Topology::Way::Part &part : found.parts) {
    way.links.push_back(static_cast<uint32_t>(part.number));
    linkBandwidths[part.number] = part.bandwidth;
  }
}

} // namespace cleave
