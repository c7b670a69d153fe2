// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rooflines.

#include "passes/cost/OperatorCost.h"

#include "llvm/Support/ErrorHandling.h"

#include <set>

using namespace llvm;

namespace cleave {

DeviceKind deviceKindOf(const Machine &machine, unsigned device) {
  const DeviceSpec &spec = machine.devices[device];
  if (auto known = machine.kinds.find(spec.kind); known != machine.kinds.end())
    return known->second;
  DeviceKind kind;
  kind.peak["f32"] = 4e10 * spec.cores;
  kind.bandwidth = 1e10 * spec.cores;
  kind.launch = 2e-6;
  kind.memory = spec.memoryLimit;
  kind.driver = spec.driver;
  kind.cores = spec.cores;
  return kind;
}

/// The smaller share of two curves at the sizes of both.
static EfficiencyCurve lowerOf(const EfficiencyCurve &left, const EfficiencyCurve &right) {
  EfficiencyCurve lower;
  std::set<double> sizes;
  for (const EfficiencyCurve *curve : {&left, &right})
    for (const EfficiencyCurve::Point &point : curve->points)
      sizes.insert(point.size);
  for (double size : sizes)
    lower.points.push_back({size, std::min(left.at(size), right.at(size))});
  return lower;
}

/// The curve that a name such as "contraction.f32" stands for.
static const EfficiencyCurve *curveNamed(const DeviceKind &kind, StringRef name) {
  auto [costClass, elementType] = name.split('.');
  return kind.findCurve(costClass, elementType);
}

static void slowDown(DeviceKind &kind, const DeviceKind &other) {
  kind.memory = std::min(kind.memory, other.memory);
  kind.bandwidth = std::min(kind.bandwidth, other.bandwidth);
  kind.launch = std::max(kind.launch, other.launch);
  kind.overlapSlowdown = std::max(kind.overlapSlowdown, other.overlapSlowdown);
  kind.neighbourSlowdown = std::max(kind.neighbourSlowdown, other.neighbourSlowdown);
  // What one of them lacks, it computes at its rate for f32.
  std::map<std::string, double> peak;
  for (const DeviceKind *from : {static_cast<const DeviceKind *>(&kind), &other})
    for (const auto &[type, rate] : from->peak) {
      auto rateOf = [&, type = type](const DeviceKind &of) {
        auto known = of.peak.find(type);
        known = known == of.peak.end() ? of.peak.find("f32") : known;
        return known == of.peak.end() ? rate : known->second;
      };
      peak[type] = std::min(rateOf(kind), rateOf(other));
    }
  std::map<std::string, EfficiencyCurve> efficiency;
  for (const DeviceKind *from : {static_cast<const DeviceKind *>(&kind), &other})
    for (const auto &[name, curve] : from->efficiency) {
      const EfficiencyCurve *left = curveNamed(kind, name), *right = curveNamed(other, name);
      efficiency[name] = left && right ? lowerOf(*left, *right) : curve;
    }
  kind.peak = std::move(peak);
  kind.efficiency = std::move(efficiency);
}

DeviceKind slowestKindOf(const Machine &machine, ArrayRef<unsigned> devices) {
  DeviceKind slowest = deviceKindOf(machine, devices.front());
  std::set<std::string> seen = {machine.devices[devices.front()].kind};
  for (unsigned device : devices.drop_front())
    if (seen.insert(machine.devices[device].kind).second)
      slowDown(slowest, deviceKindOf(machine, device));
  return slowest;
}

StringRef costClassName(CostClass costClass) {
  switch (costClass) {
  case CostClass::Contraction:
    return "contraction";
  case CostClass::Elementwise:
    return "elementwise";
  case CostClass::Reduction:
    return "reduction";
  case CostClass::Movement:
    return "movement";
  case CostClass::View:
    return "view";
  }
  llvm_unreachable("classes are listed above");
}

OperatorCost::OperatorCost(const DeviceKind &kind, StringRef elementType, double slowdown)
    : launch(kind.launch * slowdown) {
  auto found = kind.peak.find(elementType.str());
  if (found == kind.peak.end())
    found = kind.peak.find("f32");
  peak = (found == kind.peak.end() || found->second <= 0 ? 1e12 : found->second) / slowdown;
  bandwidth = (kind.bandwidth > 0 ? kind.bandwidth : 1e10) / slowdown;
  for (CostClass costClass :
       {CostClass::Contraction, CostClass::Elementwise, CostClass::Reduction, CostClass::Movement})
    if (const EfficiencyCurve *curve = kind.findCurve(costClassName(costClass), elementType))
      efficiency[costClass] = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("convolution", elementType))
    convolution = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("streaming", elementType))
    streaming = *curve;
}

double OperatorCost::seconds(CostClass costClass, double flops, double bytes, bool slides) const {
  if (costClass == CostClass::View)
    return 0;
  auto shareAt = [](const EfficiencyCurve *curve, double size) {
    return curve ? std::max(curve->at(std::max(size, 1.0)), 1e-6) : 1;
  };
  auto found = efficiency.find(costClass);
  const EfficiencyCurve *curve = found == efficiency.end() ? nullptr : &found->second;
  if (costClass != CostClass::Contraction)
    return launch + std::max(flops / peak, bytes / (bandwidth * shareAt(curve, bytes)));
  if (slides && convolution)
    curve = &*convolution;
  double reading = shareAt(streaming ? &*streaming : nullptr, bytes);
  return launch + std::max(flops / (peak * shareAt(curve, flops)), bytes / (bandwidth * reading));
}

} // namespace cleave
