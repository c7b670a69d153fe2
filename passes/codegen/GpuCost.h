// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel's launches take, roughly: good enough to compare two ways of computing the same.

#ifndef CLEAVE_PASSES_CODEGEN_GPUCOST_H
#define CLEAVE_PASSES_CODEGEN_GPUCOST_H

#include "passes/codegen/GpuLaunches.h"
#include "passes/cost/CostAnalysis.h"

namespace cleave {

/// Seconds on a GPU: a launch costs something, the rest is memory, which few threads do not keep busy.
double estimateSeconds(const GpuKernelPlan &plan, const GpuModel &gpu);

/// The same of what `body` computes, mapped for that GPU; none where an operator in it has no reference meaning. Its
/// dialects, and those that it is lowered to, must be loaded.
std::optional<double> estimateSeconds(mlir::Region &body, const GpuModel &gpu);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUCOST_H
