// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long an operator takes on a device: a roofline (Williams, Waterman, Patterson 2009) under the efficiency of the
// machine's curves, and the cost of a launch.

#ifndef CLEAVE_PASSES_COST_OPERATORCOST_H
#define CLEAVE_PASSES_COST_OPERATORCOST_H

#include "dialects/interfaces/SplitRule.h"
#include "passes/cost/Machine.h"

namespace cleave {

/// The kind of a device. Where the machine says nothing of it: an ordinary processor core times its cores (40 GFLOP/s
/// and 10 GB/s each, 2 us a call).
DeviceKind deviceKindOf(const Machine &machine, unsigned device);

/// A kind that is in nothing faster, and in nothing has more memory, than any of these devices: what equal parts of
/// work take on all of them. Expects at least one device.
DeviceKind slowestKindOf(const Machine &machine, llvm::ArrayRef<unsigned> devices);

/// The costs of operators on devices of one kind that compute in one element type ("f32", "bf16", …).
class OperatorCost {
public:
  /// Where the kind has no peak for the element type, float32's counts; where it has none at all, 1 TFLOP/s.
  /// Everything takes `slowdown` times as long as on a device whose host is idle besides (HostSharing::slowdown).
  OperatorCost(const DeviceKind &kind, llvm::StringRef elementType, double slowdown = 1);

  /// Seconds of a call that does `flops` operations and reads and writes `bytes`. Views are free. `slides`: a
  /// contraction whose window slides over its operand, a convolution.
  double seconds(CostClass costClass, double flops, double bytes, bool slides = false) const;
  /// Seconds to read or write `bytes` of the device's memory.
  double memorySeconds(double bytes) const { return bytes / bandwidth; }
  double peakFlops() const { return peak; }

private:
  double peak, bandwidth, launch;
  std::map<CostClass, EfficiencyCurve> efficiency;
  std::optional<EfficiencyCurve> convolution, streaming;
};

/// "contraction", "elementwise", "reduction", "movement", "view".
llvm::StringRef costClassName(CostClass costClass);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_OPERATORCOST_H
