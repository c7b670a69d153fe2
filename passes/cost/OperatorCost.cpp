// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rooflines.

#include "passes/cost/OperatorCost.h"

#include "llvm/Support/ErrorHandling.h"

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
