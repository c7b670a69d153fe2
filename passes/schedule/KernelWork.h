// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one call of a kernel has to do: its floating-point operations, the bytes that it reads and writes, and what kind
// of work that is. Native kernels know it from the operators in their body, library kernels from their types and
// attributes alone, so that no model node is needed.

#ifndef CLEAVE_PASSES_SCHEDULE_KERNELWORK_H
#define CLEAVE_PASSES_SCHEDULE_KERNELWORK_H

#include "dialects/dfg/Dfg.h"
#include "dialects/plan/Plan.h"
#include "passes/cost/OperatorCost.h"

namespace cleave {

/// The types that a kernel (plan.native_kernel or plan.library_kernel) takes and gives, and its scratch memory.
struct KernelSignature {
  llvm::SmallVector<mlir::RankedTensorType> inputs, outputs;
  int64_t scratchBytes = 0;
};
KernelSignature getKernelSignature(mlir::Operation *kernel);

/// The work of one call. Bytes are those of the kernel's own types: blocked layouts count with their padding.
OpCost getKernelWork(mlir::Operation *kernel);

/// A call of a kernel as CostAnalysis asks for it, and as the simulator will see it.
struct KernelCall {
  KernelWork work;
  std::string elementType; ///< What it multiplies: "f32", or "tf32" where a library rounds that.
};
KernelCall getKernelCall(mlir::Operation *kernel);

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_KERNELWORK_H
