// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders that split the backward pass and put the gradients of weights where a stage would be idle, within a limit of
// memory (Qi, Wan, Huang, Lin 2024, "Zero bubble pipeline parallelism", section 3.1).

#ifndef CLEAVE_PASSES_PIPELINE_ZEROBUBBLEORDER_H
#define CLEAVE_PASSES_PIPELINE_ZEROBUBBLEORDER_H

#include "passes/pipeline/PipelineOrder.h"

namespace cleave::pipeline {

/// The order with the shortest longest span among: ZB-H1 and ZB-H2 made as steep as memory allows, and those that a
/// stage makes as it goes: forwards while memory allows and before the first B arrives, then F and B in turns, W into
/// any gap that it fits (or into every gap), W where memory is full, W at the end. `limits` are the microbatches that
/// each stage may keep, each at least one.
PipelineOrder orderZeroBubbleAutomatically(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                                           const std::vector<unsigned> &limits);

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_ZEROBUBBLEORDER_H
