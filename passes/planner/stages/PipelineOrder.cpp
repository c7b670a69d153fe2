// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of the schedules that are given in advance.

#include "passes/planner/stages/PipelineOrder.h"

#include "passes/planner/stages/ZeroBubbleOrder.h"

#include <algorithm>

namespace cleave::stages {

static PipelineOrder orderGPipe(unsigned stages, unsigned microbatches) {
  PipelineOrder order(stages);
  for (auto &tasks : order) {
    for (unsigned i = 0; i < microbatches; ++i)
      tasks.push_back({TaskKind::Forward, i});
    for (unsigned i = 0; i < microbatches; ++i)
      tasks.push_back({TaskKind::Backward, i});
  }
  return order;
}

/// Microbatches take turns in groups: first all of a group pass the first part of a stage, then the next part. Groups
/// have as many members as there are stages, or a few more where that does not divide the microbatches.
static std::vector<PipelineTask> interleavedTasks(TaskKind kind, unsigned microbatches, unsigned groups,
                                                  unsigned chunks) {
  std::vector<PipelineTask> tasks;
  for (unsigned group = 0; group < groups; ++group) {
    auto firstOf = [&](unsigned g) { return static_cast<unsigned>(uint64_t(microbatches) * g / groups); };
    for (unsigned chunk = 0; chunk < chunks; ++chunk)
      for (unsigned i = firstOf(group); i < firstOf(group + 1); ++i)
        tasks.push_back({kind, i, kind == TaskKind::Forward ? chunk : chunks - 1 - chunk});
  }
  return tasks;
}

/// 1F1B is the case of one chunk.
static PipelineOrder orderInterleaved(unsigned stages, unsigned microbatches, unsigned chunks) {
  PipelineOrder order(stages);
  unsigned groups = std::max(microbatches / stages, 1u), largest = (microbatches + groups - 1) / groups;
  auto forwards = interleavedTasks(TaskKind::Forward, microbatches, groups, chunks);
  auto backwards = interleavedTasks(TaskKind::Backward, microbatches, groups, chunks);
  for (unsigned stage = 0; stage < stages; ++stage) {
    unsigned after = stages - 1 - stage;
    size_t ahead = chunks == 1 ? after : 2 * after + (chunks - 1) * largest;
    auto &tasks = order[stage];
    auto forward = forwards.begin();
    for (size_t i = 0; i < ahead && forward != forwards.end(); ++i)
      tasks.push_back(*forward++);
    for (const PipelineTask &backward : backwards) {
      if (forward != forwards.end())
        tasks.push_back(*forward++);
      tasks.push_back(backward);
    }
  }
  return order;
}

PipelineOrder orderWithDelays(const std::vector<unsigned> &forwards, const std::vector<unsigned> &delays,
                              unsigned microbatches) {
  PipelineOrder order(forwards.size());
  for (unsigned stage = 0; stage < forwards.size(); ++stage) {
    unsigned forward = 0, weight = 0;
    auto &tasks = order[stage];
    while (forward < std::min(forwards[stage], microbatches))
      tasks.push_back({TaskKind::Forward, forward++});
    for (unsigned i = 0; i < microbatches; ++i) {
      tasks.push_back({TaskKind::BackwardInput, i});
      if (i >= delays[stage])
        tasks.push_back({TaskKind::BackwardWeight, weight++});
      if (forward < microbatches)
        tasks.push_back({TaskKind::Forward, forward++});
    }
    while (weight < microbatches)
      tasks.push_back({TaskKind::BackwardWeight, weight++});
  }
  return order;
}

static PipelineOrder orderZeroBubble(unsigned stages, unsigned microbatches, unsigned steepness) {
  std::vector<unsigned> forwards, delays;
  for (unsigned stage = 0; stage < stages; ++stage) {
    forwards.push_back((stages - 1 - stage) * steepness + 1);
    delays.push_back(stage * steepness);
  }
  return orderWithDelays(forwards, delays, microbatches);
}

PipelineOrder orderPipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule) {
  unsigned count = stages.size(), microbatches = schedule.microbatches;
  switch (schedule.schedule) {
  case Schedule::GPipe:
    return orderGPipe(count, microbatches);
  case Schedule::OneForwardOneBackward:
    return orderInterleaved(count, microbatches, 1);
  case Schedule::Interleaved:
    return orderInterleaved(count, microbatches, schedule.chunks);
  case Schedule::ZeroBubbleH1:
    return orderZeroBubble(count, microbatches, 1);
  case Schedule::ZeroBubbleH2:
    return orderZeroBubble(count, microbatches, 2);
  case Schedule::ZeroBubbleAutomatic:
    break;
  }
  std::vector<unsigned> limits = schedule.memoryLimits;
  limits.resize(count, count);
  return orderZeroBubbleAutomatically(stages, microbatches, limits);
}

} // namespace cleave::stages
