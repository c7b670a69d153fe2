// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long kernels and transfers take, roughly: from flops and bytes at the rates of an ordinary processor core. It
// only ranks what is more urgent, so that no plan depends on a measurement.

#ifndef CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H
#define CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Layout.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace cleave {

/// The estimates of one module. All results are seconds.
class WorkEstimate {
public:
  explicit WorkEstimate(mlir::ModuleOp module);

  /// A call of `kernel` at `location`, on a device of `cores` cores.
  double callSeconds(mlir::Operation *kernel, mlir::Location location, int64_t cores);
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
  double flopsOf(mlir::Operation *kernel, mlir::Location location);

  /// The flops of contractions by model node, of one device's share: what a library kernel computes is known from the
  /// graph alone.
  llvm::StringMap<double> contractionFlops;
  /// The flops of native kernels.
  llvm::DenseMap<mlir::Operation *, double> nativeFlops;
};

/// The types that a kernel (plan.native_kernel or plan.library_kernel) takes and gives, and its scratch memory.
struct KernelSignature {
  llvm::SmallVector<mlir::RankedTensorType> inputs, outputs;
  int64_t scratchBytes = 0;
};
KernelSignature getKernelSignature(mlir::Operation *kernel);

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_WORKESTIMATE_H
