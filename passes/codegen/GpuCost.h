// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel's launches take, roughly: good enough to compare two ways of computing the same.

#ifndef CLEAVE_PASSES_CODEGEN_GPUCOST_H
#define CLEAVE_PASSES_CODEGEN_GPUCOST_H

#include "passes/codegen/GpuLaunches.h"

namespace cleave {

/// Seconds on a GPU of today: a launch costs something, the rest is memory, which few threads do not keep busy.
double estimateSeconds(const GpuKernelPlan &plan);

/// The same of what `body` computes; none where an operator in it has no reference meaning. Its dialects, and those
/// that it is lowered to, must be loaded.
std::optional<double> estimateSeconds(mlir::Region &body);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUCOST_H
