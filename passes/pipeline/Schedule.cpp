// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of schedules, and where chunks of stages lie.

#include "passes/pipeline/Schedule.h"

#include "passes/pipeline/PipelineOrder.h"
#include "passes/pipeline/ZeroBubbleOrder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cleave::pipeline {

//===-- formulas ----------------------------------------------------------------------------------------------===//

static unsigned anyStages(unsigned /*microbatches*/) { return std::numeric_limits<unsigned>::max(); }
static unsigned asManyStages(unsigned microbatches) { return microbatches; }
/// M >= 2 p - 1.
static unsigned halfAsManyStages(unsigned microbatches) { return (microbatches + 1) / 2; }

/// M >= 2 p.
static unsigned halfAsManyStagesAtMost(unsigned microbatches) { return std::max(microbatches / 2, 1u); }

static double rampOfAll(const StageTimes &times, unsigned /*chunks*/) { return times.sum(); }
static double rampOfChunk(const StageTimes &times, unsigned chunks) { return times.sum() / chunks; }
template <unsigned delayed> static double rampWithout(const StageTimes &times, unsigned /*chunks*/) {
  return std::max(times.sum() - delayed * times.backwardWeight, 0.0);
}
/// Two chunks, whose F and B take turns: where these differ, one waits for the other. Where F takes longer, steps may
/// take up to (F - B) / 2 less than that.
static double rampOfV(const StageTimes &times, unsigned /*chunks*/) {
  double uneven = std::abs(times.forward - times.backwardInput) / 2;
  return std::max(std::max(times.forward, times.backwardInput) - times.backwardWeight, uneven);
}

/// The same where W waits only at the end, and F and B of different microbatches go one after the other. No more than
/// that: where F and B differ, each stage may take up to half the difference less.
static double rampOfDualPipeV(const StageTimes &times, unsigned /*chunks*/) {
  double longer = std::max(times.forward, times.backwardInput);
  return longer - std::min(times.backwardWeight, longer) / 2;
}

static unsigned keptByAll(const PipelineShape &shape, unsigned /*stage*/) { return shape.microbatches; }
static unsigned keptByLater(const PipelineShape &shape, unsigned stage) {
  return std::min(shape.stages - stage, shape.microbatches);
}
static unsigned keptEqually(const PipelineShape &shape, unsigned /*stage*/) {
  return std::min(shape.stages, shape.microbatches);
}
static unsigned keptTwice(const PipelineShape &shape, unsigned /*stage*/) {
  return std::min(2 * shape.stages - 1, shape.microbatches);
}
static unsigned keptInterleaved(const PipelineShape &shape, unsigned stage) {
  return std::min(forwardsAhead(shape, stage) + 1, shape.chunks * shape.microbatches);
}
static unsigned keptInV(const PipelineShape &shape, unsigned /*stage*/) {
  return 2 * std::min(shape.stages, shape.microbatches);
}

static unsigned keptInDualPipeV(const PipelineShape &shape, unsigned /*stage*/) {
  return std::min(2 * shape.stages + 1, 2 * shape.microbatches);
}

//===-- the table ---------------------------------------------------------------------------------------------===//

/// Schedules refer to rows, which stay where they are for that.
static constexpr size_t mostSchedules = 64;

static constexpr ScheduleRow table[] = {
    {.name = "1f1b",
     .summary = "one forward, one backward (Narayanan et al. 2019)",
     .order = orderInterleaved,
     .chunksInFlight = keptByLater,
     .mostStages = anyStages,
     .ramp = rampOfAll,
     .needsChain = false,
     .isSearched = true},
    {.name = "zb-h1",
     .summary = "gradients of weights fill the bubble, in the memory of 1f1b (Qi et al. 2024)",
     .order = orderZeroBubbleH1,
     .chunksInFlight = keptEqually,
     .mostStages = asManyStages,
     .ramp = rampWithout<2>,
     .delayedWeights = 2,
     .dependsOnEarlierStages = true,
     .isSearched = true},
    {.name = "zb-h2",
     .summary = "the same in twice the memory",
     .order = orderZeroBubbleH2,
     .chunksInFlight = keptTwice,
     .mostStages = halfAsManyStages,
     .ramp = rampWithout<3>,
     .delayedWeights = 3,
     .dependsOnEarlierStages = true,
     .isSearched = true},
    {.name = "interleaved",
     .summary = "1f1b over several chunks of layers a stage (Narayanan et al. 2021)",
     .order = orderInterleaved,
     .chunksInFlight = keptInterleaved,
     .mostStages = asManyStages,
     .ramp = rampOfChunk,
     .fewestChunks = 2,
     .mostChunks = 1024,
     .dependsOnEarlierStages = true,
     .isSearched = true},
    {.name = "zb-v",
     .summary = "two chunks a stage in a V, gradients of weights last, in the memory of 1f1b (Qi et al. 2024)",
     .order = orderZeroBubbleV,
     .chunksInFlight = keptInV,
     .mostStages = halfAsManyStages,
     .ramp = rampOfV,
     .delayedWeights = 3,
     .fewestChunks = 2,
     .mostChunks = 2,
     .chunkOrder = ChunkOrder::Turns,
     .dependsOnEarlierStages = true,
     .isSearched = true},
    {.name = "dualpipe-v",
     .summary = "two chunks a stage in a V, forward and backward of two microbatches side by side (DeepSeek-AI 2024)",
     .order = orderDualPipeV,
     .chunksInFlight = keptInDualPipeV,
     .mostStages = halfAsManyStagesAtMost,
     .ramp = rampOfDualPipeV,
     .delayedWeights = 2,
     .fewestChunks = 2,
     .mostChunks = 2,
     .chunkOrder = ChunkOrder::Turns,
     .dependsOnEarlierStages = true},
    {.name = "zb-auto",
     .summary = "gradients of weights wherever they fit, under a limit of memory (Qi et al. 2024)",
     .order = orderZeroBubbleAutomatically,
     .chunksInFlight = keptEqually,
     .mostStages = asManyStages,
     .ramp = rampWithout<2>,
     .delayedWeights = 2,
     .dependsOnEarlierStages = true,
     .takesLimits = true},
    {.name = "2bw",
     .summary =
         "1f1b that goes on from step to step, with gradients of the weights of one step before and two versions "
         "of the weights (PipeDream-2BW, Narayanan et al. 2021)",
     .order = orderInterleaved,
     .chunksInFlight = keptByLater,
     .mostStages = asManyStages,
     .ramp = rampOfAll,
     .weightDelay = 1},
    {.name = "pipedream",
     .summary =
         "1f1b that goes on from step to step, each microbatch with the newest weights at its forward, which are "
         "stashed for its backward (PipeDream, Narayanan et al. 2019)",
     .order = orderInterleaved,
     .chunksInFlight = keptByLater,
     .mostStages = asManyStages,
     .ramp = rampOfAll,
     .weightDelay = 1,
     .delaysBegunOnly = true},
    {.name = "gpipe",
     .summary = "all forward, then all backward (Huang et al. 2019): the seconds of 1f1b in more memory",
     .order = orderGPipe,
     .chunksInFlight = keptByAll,
     .mostStages = anyStages,
     .ramp = rampOfAll,
     .needsChain = false,
     .forwardsFirst = true},
};

static std::vector<ScheduleRow> &rows() {
  static std::vector<ScheduleRow> rows = [] {
    std::vector<ScheduleRow> made(std::begin(table), std::end(table));
    made.reserve(mostSchedules);
    return made;
  }();
  return rows;
}

std::span<const ScheduleRow> scheduleTable() { return rows(); }

bool registerSchedule(const ScheduleRow &row) {
  if (rows().size() == mostSchedules || findSchedule(row.name))
    return false;
  rows().push_back(row);
  return true;
}

std::optional<Schedule> findSchedule(std::string_view name) {
  auto found = std::ranges::find(rows(), name, &ScheduleRow::name);
  return found == rows().end() ? std::nullopt : std::optional(Schedule(*found));
}

Schedule::Schedule() : row(&rows().front()) {}

PipelineOrder orderPipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule) {
  auto count = static_cast<unsigned>(stages.size());
  std::vector<unsigned> limits = schedule.memoryLimits;
  limits.resize(count, count);
  return schedule.schedule->order(stages, {count, schedule.microbatches, schedule.chunks}, limits);
}

//===-- parts -------------------------------------------------------------------------------------------------===//

unsigned partOf(ChunkOrder order, unsigned stage, unsigned chunk, unsigned stages) {
  bool comesBack = order == ChunkOrder::Turns && chunk % 2 == 1;
  return chunk * stages + (comesBack ? stages - 1 - stage : stage);
}

unsigned stageOf(ChunkOrder order, unsigned part, unsigned stages) {
  bool comesBack = order == ChunkOrder::Turns && part / stages % 2 == 1;
  return comesBack ? stages - 1 - part % stages : part % stages;
}

unsigned Schedule::numEntries(bool isFirstStage, unsigned chunks) const {
  if (!isFirstStage)
    return chunks;
  // A round that comes back ends at the first stage, where the next one begins.
  return row->chunkOrder == ChunkOrder::Turns ? 0 : chunks - 1;
}

} // namespace cleave::pipeline
