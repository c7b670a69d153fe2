// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launches of a kernel as attributes in the IR: written where they are decided, read where they are written out.

#ifndef CLEAVE_PASSES_CODEGEN_GPULAUNCHATTRIBUTES_H
#define CLEAVE_PASSES_CODEGEN_GPULAUNCHATTRIBUTES_H

#include "passes/codegen/GpuLaunches.h"

namespace cleave {

/// Gives each operation of a kernel's `loops` its `plan.steps` and the kernel its `mappings`.
void writeLaunches(plan::NativeKernelOp kernel, const GpuKernelPlan &plan);

/// Reads the launches of a kernel from its attributes; `storage` is that of its loops. Emits an error and fails where
/// the attributes do not describe launches of the operations, or launches that compute something else
/// (verifyLaunches).
llvm::FailureOr<GpuKernelPlan> readLaunches(plan::NativeKernelOp kernel, const Storage &storage);

/// Checks a step by itself: its loops run once each, in levels that go through memory as one, and reductions are joined
/// along inner levels alone. `loops` are those of its levels, the outer ones first.
llvm::LogicalResult verifyStep(const Nest &nest, const GpuLaunch &launch, const GpuStep &step,
                               llvm::ArrayRef<llvm::SmallVector<unsigned, 2>> loops);

/// Checks that launches compute what a kernel's operations mean: all groups and iterations, sums in an order that they
/// allow, what operations hand on where and when others expect it; and that threads and shared memory are no more than
/// GPUs have. Emits an error and fails otherwise. Whether they are fast is not asked.
llvm::LogicalResult verifyLaunches(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, const Storage &storage);

/// Of these, what concerns the blocks and threads of each launch, and what its steps hand on to each other.
llvm::LogicalResult verifyMapping(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, unsigned number);
llvm::LogicalResult verifyHandedOn(const GpuLaunch &launch, const Storage &storage);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULAUNCHATTRIBUTES_H
