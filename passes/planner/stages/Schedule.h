// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipeline schedules by name, and how many microbatches each keeps in flight.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_SCHEDULE_H
#define CLEAVE_PASSES_PLANNER_STAGES_SCHEDULE_H

#include <optional>
#include <string_view>

namespace cleave::stages {

/// In which order a stage works on its microbatches.
enum class Schedule {
  GPipe,                 ///< All forward, then all backward (Huang et al. 2019).
  OneForwardOneBackward, ///< 1F1B (Narayanan et al. 2019).
  Interleaved,           ///< 1F1B with several chunks of layers a device (Narayanan et al. 2021).
  ZeroBubbleH1,          ///< Weight gradients fill the bubble, the memory of 1F1B (Qi et al. 2024).
  ZeroBubbleH2,          ///< The same with twice the memory.
  ZeroBubbleAutomatic    ///< Weight gradients wherever they fit, under a memory limit.
};

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-auto".
std::string_view scheduleName(Schedule schedule);
std::optional<Schedule> findSchedule(std::string_view name);

/// What a stage adds to a step besides its part of the longest one, while the pipeline fills and drains: all seconds of
/// a microbatch under GPipe and 1F1B, and less where gradients of weights, which take `backwardWeight` of them, are put
/// into the gaps: F + B - W under ZB-H1, F + B - 2 W under ZB-H2, and never less than nothing.
double fillingSeconds(Schedule schedule, double seconds, double backwardWeight);

/// How many times the gradients of weights of a microbatch are left out of the seconds that fill the pipeline: 0 under
/// GPipe and 1F1B, 2 under ZB-H1, 3 under ZB-H2 (fillingSeconds).
unsigned delayedWeights(Schedule schedule);

/// Whether all stages keep activations of as many microbatches as the first one does: with zero bubbles, a late stage
/// puts off gradients of weights for as long as an early one waits for its first backward.
bool keepsEqually(Schedule schedule);

/// Microbatches whose activations stage `stage` of `stages` keeps at most.
unsigned microbatchesInFlight(Schedule schedule, unsigned stage, unsigned stages, unsigned microbatches);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_SCHEDULE_H
