// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The codegen stage: from a program's operators to launches of compiled and library kernels.

#ifndef CLEAVE_PASSES_CODEGEN_PIPELINE_H
#define CLEAVE_PASSES_CODEGEN_PIPELINE_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace cleave {

struct CodegenOptions {
  /// Plain loops for every operator by itself: what `verify` and the tests compare with.
  bool reference = false;
  /// Use library kernels; ignored for the reference.
  bool libraries = true;
  /// Libraries of GPUs may round the float32 that they multiply to TF32.
  bool tf32 = false;
  /// Libraries that compute attention by one kernel do.
  bool attention = true;
  /// Libraries of processors compute windows of 3 x 3 by Winograd's algorithm where that takes less.
  bool winograd = true;
  /// Threads that compile.
  unsigned threads = 2;
};

/// Appends the stage's passes. Input: dist.program with dfg operators; output: the same with plan.launch only.
void buildCodegenPipeline(mlir::OpPassManager &manager, const CodegenOptions &options);

/// Makes the pipeline known to cleave-opt as `--codegen`, with the options above.
void registerCodegenPipeline();

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_PIPELINE_H
