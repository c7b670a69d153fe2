// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The distribute stage as a whole.

#ifndef CLEAVE_PASSES_DISTRIBUTE_PIPELINE_H
#define CLEAVE_PASSES_DISTRIBUTE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace cleave {

struct DistributeOptions {
  /// Whether collectives may share messages.
  bool combine = true;
  /// How devices that have queries get the keys and values of others: "ring", "gather", or "auto".
  std::string keys = "auto";
};

/// Appends the stage's passes, on a module. Input: graphs with `dist.place` on their operators, and the `dist.machine`
/// that they were placed for; output: the same, and one dist.program a mesh in use.
void buildDistributePipeline(mlir::OpPassManager &manager, const DistributeOptions &options);

/// Makes the pipeline known to cleave-opt as `--distribute`.
void registerDistributePipeline();

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_PIPELINE_H
