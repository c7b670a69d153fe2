// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipeline schedules: one table, a row each (Schedules.cpp). Search, costs, simulator, training steps and command line
// ask a row and compare no schedule with another, so that a schedule is known everywhere once it has a row and a
// function that makes its order.
//
// A step has M microbatches. Each passes p stages, which are cut into v chunks of layers, and returns. A part is a
// chunk of a stage: the model has p v parts in a row, and `ChunkOrder` says which belong to which stage. F is the
// forward of a microbatch in a stage, all chunks together, B the gradient of its input, W the gradients of its weights.

#ifndef CLEAVE_PASSES_PIPELINE_SCHEDULE_H
#define CLEAVE_PASSES_PIPELINE_SCHEDULE_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cleave::pipeline {

/// What one microbatch takes in one stage, all chunks together, in seconds.
struct StageTimes {
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  /// Until what a task sends arrives at another stage. It delays nothing else.
  double send = 0;

  double sum() const { return forward + backwardInput + backwardWeight; }
};

enum class TaskKind : uint8_t { Forward, BackwardInput, BackwardWeight, Backward /**< Both gradients. */ };

struct PipelineTask {
  TaskKind kind = TaskKind::Forward;
  uint32_t microbatch = 0;
  uint32_t chunk = 0;
};

/// By stage: its tasks in order.
using PipelineOrder = std::vector<std::vector<PipelineTask>>;

/// p, M and v.
struct PipelineShape {
  unsigned stages = 1, microbatches = 1, chunks = 1;
};

/// Which parts of the model the chunks of a stage are.
enum class ChunkOrder : uint8_t {
  Rounds, ///< Each round of chunks begins at the first stage: chunk c of stage i is part c p + i.
  Turns,  ///< Every other round comes back from the last stage: with two chunks, i and 2 p - 1 - i, a V.
};

/// The part of the model that a chunk of a stage is, and the stage of a part.
unsigned partOf(ChunkOrder order, unsigned stage, unsigned chunk, unsigned stages);
unsigned stageOf(ChunkOrder order, unsigned part, unsigned stages);

/// A row of the table.
struct ScheduleRow {
  std::string_view name;
  /// One line for people.
  std::string_view summary;

  /// The order of every stage's tasks. `stages` has a stage's times for each stage; `limits` the microbatches whose
  /// activations each may keep, for the schedules that take limits.
  PipelineOrder (*order)(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                         const std::vector<unsigned> &limits);
  /// Chunks whose activations a stage keeps at most, each of one microbatch: v times the microbatches of the stage.
  unsigned (*chunksInFlight)(const PipelineShape &shape, unsigned stage);
  /// The most stages for which `ramp` and `chunksInFlight` hold with so many microbatches: with more, the pipeline is
  /// never full, and steps take longer.
  unsigned (*mostStages)(unsigned microbatches);
  /// Seconds that a stage adds to a step of stages that are all like it, besides their work, for each other stage: a
  /// step takes M (F + B + W) + (p - 1) ramp.
  double (*ramp)(const StageTimes &times, unsigned chunks);
  /// No ramp is less than (F + B + W - delayedWeights W) / v.
  unsigned delayedWeights = 0;
  /// Steps by which the weights that gradients are of lag behind those that the gradients change. 0: synchronous, each
  /// step fills and drains the pipeline. Else the pipeline drains only where training pauses: what stages do is `order`
  /// of the microbatches of all steps in a row, and they keep a version of their weights more for each step of delay.
  unsigned weightDelay = 0;
  /// Whether the delay is only that of the microbatches which a stage begins before its update, so that a version is
  /// kept for them alone and the last stage has no delay (weight stashing); else all microbatches have it.
  bool delaysBegunOnly = false;

  /// Whether the stages must be a chain with as many chunks as the schedule has. Others can follow its rule in any
  /// graph of stages: `forwardsFirst`, or backwards.
  bool needsChain = true, forwardsFirst = false;
  unsigned fewestChunks = 1, mostChunks = 1;
  ChunkOrder chunkOrder = ChunkOrder::Rounds;
  /// Whether chunksInFlight of a stage depends on how many stages there are before it, besides those after it.
  bool dependsOnEarlierStages = false;
  /// Whether the order keeps to `limits`, and chunksInFlight is but what it keeps where there are none.
  bool takesLimits = false;
  /// Whether the search tries it unasked. The others are never better under the model of costs than one that it tries,
  /// or compute something else (`weightDelay`).
  bool isSearched = false;
};

/// A schedule, as its row. The default is 1F1B.
class Schedule {
public:
  Schedule();
  /// `row` lasts as long as the schedule.
  constexpr Schedule(const ScheduleRow &row) : row(&row) {}

  const ScheduleRow *operator->() const { return row; }
  const ScheduleRow &operator*() const { return *row; }
  bool operator==(const Schedule &) const = default;

  bool hasChunks() const { return row->mostChunks > 1; }
  /// Whether a step ends before the next one begins.
  bool drains() const { return row->weightDelay == 0; }
  /// What a stage adds to each of many steps besides their work, for each other stage: the ramp where steps drain.
  double rampOfStep(const StageTimes &times, unsigned chunks) const { return drains() ? row->ramp(times, chunks) : 0; }
  /// The part of a stage's seconds without the delayed gradients of weights that the ramp of a step has at least.
  double leastRampShare(unsigned chunks) const { return drains() ? 1.0 / chunks : 0; }
  /// Microbatches for whose activations a stage needs memory; a part of a stage needs its part of it. Those that one
  /// step begins for the next have a place of their own, besides those that are worked on.
  double microbatchesInFlight(const PipelineShape &shape, unsigned stage) const {
    double kept = static_cast<double>(row->chunksInFlight(shape, stage)) / shape.chunks;
    return drains() ? kept : 2 * kept - 1;
  }
  /// How often a microbatch enters a stage from another one, one way.
  unsigned numEntries(bool isFirstStage, unsigned chunks) const;

private:
  const ScheduleRow *row;
};

/// The table, in the order in which the search tries schedules and command lines list them.
std::span<const ScheduleRow> scheduleTable();

/// Adds a row behind the others, before anything asks for the table; false where there is one of that name, or no room.
/// The names in it must last.
bool registerSchedule(const ScheduleRow &row);

/// The schedule of a name; nothing where there is none.
std::optional<Schedule> findSchedule(std::string_view name);

/// A schedule with its parameters.
struct PipelineSchedule {
  Schedule schedule;
  unsigned microbatches = 1;
  /// The chunks of each stage.
  unsigned chunks = 1;
  /// By stage, the microbatches whose activations it may keep, at least one, where the schedule takes limits. Empty: as
  /// many as there are stages.
  std::vector<unsigned> memoryLimits = {};
};

/// The order of a schedule.
PipelineOrder orderPipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule);

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_SCHEDULE_H
