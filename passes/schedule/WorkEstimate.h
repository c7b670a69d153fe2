// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long kernels and transfers take, roughly: from flops and bytes at the rates of an ordinary processor core. It
// only ranks what is more urgent, so that no plan depends on a measurement.

#ifndef CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H
#define CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H

#include "passes/schedule/KernelWork.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// All results are seconds.
class WorkEstimate {
public:
  /// A call of `kernel` on a device of `cores` cores.
  double callSeconds(mlir::Operation *kernel, int64_t cores);
  /// A transfer to another mesh, of which a device receives `bytes`.
  static double transferSeconds(int64_t bytes);
  /// A reduction of `bytes` a device over groups of `ways` devices, each of which gets all of it or, if it scatters, a
  /// part; as a ring (Thakur, Rabenseifner, Gropp 2005).
  static double reductionSeconds(int64_t bytes, int64_t ways, bool scatters);
  /// An exchange in which a device receives `bytes` from `peers` others.
  static double exchangeSeconds(double bytes, int64_t peers);
  /// A copy on the same device.
  static double copySeconds(int64_t bytes);

private:
  llvm::DenseMap<mlir::Operation *, OpCost> works;
};

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H
