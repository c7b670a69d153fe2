// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of stage costs: what a microbatch takes in each stage of a pipeline.
//
//   stages:
//     - { forward: 29.7 ms, backward_input: 29.4 ms, backward_weight: 19.9 ms, send: 0.5 ms, activation: 1.5 GiB }
//     - { count: 7, forward: 29.7 ms, backward_input: 29.4 ms, backward_weight: 19.9 ms }

#ifndef CLEAVE_TOOLS_CLEAVE_STAGEFILE_H
#define CLEAVE_TOOLS_CLEAVE_STAGEFILE_H

#include "passes/pipeline/PipelineOrder.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace cleave::tool {

struct StageFile {
  std::vector<pipeline::StageTimes> times;
  /// By stage: the bytes of a microbatch's activations; 0 where the file says nothing.
  std::vector<double> activations;
};

/// Reads a file of stage costs. `send` and `activation` may be left out, `count` repeats a stage. Errors name line and
/// column.
llvm::Expected<StageFile> readStageFile(llvm::StringRef path);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_STAGEFILE_H
