// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order each stage of a pipeline works on its tasks: the functions behind the rows of the table of schedules.
//
//   F forward, B gradient of the input, W gradient of the weights; without zero bubbles B and W are one task.

#ifndef CLEAVE_PASSES_PIPELINE_PIPELINEORDER_H
#define CLEAVE_PASSES_PIPELINE_PIPELINEORDER_H

#include "passes/pipeline/Schedule.h"

namespace cleave::pipeline {

/// F for all microbatches, then backward for all (Huang et al. 2019).
PipelineOrder orderGPipe(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                         const std::vector<unsigned> &limits);

/// Stage i of p: forwardsAhead F, then F and backward in turns. Microbatches pass the chunks of stages in groups of p,
/// or of a few more where p does not divide M (Narayanan et al. 2021); with one chunk that is 1F1B (Narayanan et al.
/// 2019).
PipelineOrder orderInterleaved(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                               const std::vector<unsigned> &limits);

/// The forwards of chunks that a stage of an interleaved pipeline does before it takes turns: 2 (p - 1 - i) + (v - 1) g
/// with groups of at most g microbatches, p - 1 - i with one chunk. It may be more than there are.
unsigned forwardsAhead(const PipelineShape &shape, unsigned stage);

/// Stage i: (p - 1 - i) k + 1 F, then B and F in turns, W after k i more B; k is 1 for H1 and 2 for H2 (Qi et al. 2024,
/// figures 2 and 3).
PipelineOrder orderZeroBubbleH1(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                                const std::vector<unsigned> &limits);
PipelineOrder orderZeroBubbleH2(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                                const std::vector<unsigned> &limits);

/// ZB-H1 and ZB-H2, and those between: stage i begins with `forwards[i]` F, does W `delays[i]` B later than it could,
/// and then alternates.
PipelineOrder orderWithDelays(const std::vector<unsigned> &forwards, const std::vector<unsigned> &delays,
                              unsigned microbatches);

/// Two chunks a stage that lie in a V, so that the first stage has the loss (ZB-V of Qi et al. 2024; Qi, Wan, Amar, Lin
/// 2024, "Pipeline parallelism with controllable memory"). Stage i begins with 2 (p - i) - 1 F of the first chunk
/// and i pairs of F, and then fills p - i F of the second chunk with their B and W. Full, it takes turns between both
/// chunks, each F followed by a B and W of the other chunk; W wait only while the pipeline drains.
PipelineOrder orderZeroBubbleV(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                               const std::vector<unsigned> &limits);

/// Two chunks a stage that lie in a V; full, a stage does the forward of one microbatch beside the backward of another
/// (DeepSeek-AI 2024, "DeepSeek-V3 technical report", section 3.2.1, cut in half: Qi, Wan, Huang, Lin 2025, "DualPipe
/// could be better without the Dual"; the order is that of dualpipev.py in DeepSeek's repository). Stage i begins with
/// 2 (p - 1 - i) F of the first chunk and i + 1 pairs of F. Here both go one after the other, F first.
PipelineOrder orderDualPipeV(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                             const std::vector<unsigned> &limits);

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_PIPELINEORDER_H
