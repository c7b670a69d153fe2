// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of the schedules that are given in advance.

#include "passes/pipeline/PipelineOrder.h"

#include <algorithm>
#include <array>

namespace cleave::pipeline {

PipelineOrder orderGPipe(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                         const std::vector<unsigned> & /*limits*/) {
  PipelineOrder order(shape.stages);
  for (auto &tasks : order) {
    for (unsigned i = 0; i < shape.microbatches; ++i)
      tasks.push_back({TaskKind::Forward, i});
    for (unsigned i = 0; i < shape.microbatches; ++i)
      tasks.push_back({TaskKind::Backward, i});
  }
  return order;
}

//===-- interleaved -------------------------------------------------------------------------------------------===//

/// Groups have as many members as there are stages, or a few more where that does not divide the microbatches.
static unsigned numGroups(const PipelineShape &shape) { return std::max(shape.microbatches / shape.stages, 1u); }

/// Microbatches take turns in groups: first all of a group pass the first part of a stage, then the next part.
static std::vector<PipelineTask> interleavedTasks(TaskKind kind, const PipelineShape &shape) {
  std::vector<PipelineTask> tasks;
  unsigned groups = numGroups(shape);
  for (unsigned group = 0; group < groups; ++group) {
    auto firstOf = [&](unsigned g) { return static_cast<unsigned>(uint64_t(shape.microbatches) * g / groups); };
    for (unsigned chunk = 0; chunk < shape.chunks; ++chunk)
      for (unsigned i = firstOf(group); i < firstOf(group + 1); ++i)
        tasks.push_back({kind, i, kind == TaskKind::Forward ? chunk : shape.chunks - 1 - chunk});
  }
  return tasks;
}

unsigned forwardsAhead(const PipelineShape &shape, unsigned stage) {
  unsigned after = shape.stages - 1 - stage, groups = numGroups(shape);
  unsigned largest = (shape.microbatches + groups - 1) / groups;
  return shape.chunks == 1 ? after : 2 * after + (shape.chunks - 1) * largest;
}

PipelineOrder orderInterleaved(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                               const std::vector<unsigned> & /*limits*/) {
  PipelineOrder order(shape.stages);
  auto forwards = interleavedTasks(TaskKind::Forward, shape), backwards = interleavedTasks(TaskKind::Backward, shape);
  for (unsigned stage = 0; stage < shape.stages; ++stage) {
    size_t ahead = forwardsAhead(shape, stage);
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

//===-- zero bubbles ------------------------------------------------------------------------------------------===//

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

static PipelineOrder orderZeroBubble(const PipelineShape &shape, unsigned steepness) {
  std::vector<unsigned> forwards, delays;
  for (unsigned stage = 0; stage < shape.stages; ++stage) {
    forwards.push_back((shape.stages - 1 - stage) * steepness + 1);
    delays.push_back(stage * steepness);
  }
  return orderWithDelays(forwards, delays, shape.microbatches);
}

PipelineOrder orderZeroBubbleH1(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                                const std::vector<unsigned> & /*limits*/) {
  return orderZeroBubble(shape, 1);
}

PipelineOrder orderZeroBubbleH2(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                                const std::vector<unsigned> & /*limits*/) {
  return orderZeroBubble(shape, 2);
}

namespace {

/// The tasks of one stage of a V in the making. What is asked for beyond the last microbatch is left out: the order is
/// that of a pipeline that is full, cut off.
class TasksOfV {
protected:
  /// `fewest`: the microbatches of which the pipeline is full.
  TasksOfV(const PipelineShape &shape, unsigned stage, unsigned fewest)
      : microbatches(shape.microbatches), full(std::max(microbatches, fewest)), stages(shape.stages), stage(stage) {}

  unsigned &count(TaskKind kind, unsigned chunk) { return counts[static_cast<size_t>(kind)][chunk]; }

  void add(TaskKind kind, unsigned chunk) {
    if (unsigned microbatch = count(kind, chunk)++; microbatch < microbatches)
      tasks.push_back({kind, microbatch, chunk});
  }

  void addBackward(unsigned chunk) {
    add(TaskKind::BackwardInput, chunk);
    add(TaskKind::BackwardWeight, chunk);
  }

  unsigned microbatches, full, stages, stage;
  /// By kind and chunk: the tasks that were asked for.
  std::array<std::array<unsigned, 2>, 3> counts = {};
  std::vector<PipelineTask> tasks;
};

class StageOfZeroBubbleV : TasksOfV {
public:
  StageOfZeroBubbleV(const PipelineShape &shape, unsigned stage) : TasksOfV(shape, stage, 2 * shape.stages - 1) {}

  std::vector<PipelineTask> make() {
    for (unsigned i = 0; i != 2 * (stages - stage) - 1; ++i)
      add(TaskKind::Forward, 0);
    for (unsigned i = 0; i != stage; ++i) {
      add(TaskKind::Forward, 1);
      add(TaskKind::Forward, 0);
    }
    for (unsigned i = 0; i != stages - stage; ++i) {
      add(TaskKind::Forward, 1);
      addBackward(1);
    }
    while (count(TaskKind::Forward, 1) != full) {
      if (count(TaskKind::Forward, 0) != full)
        add(TaskKind::Forward, 0);
      addBackward(0);
      add(TaskKind::Forward, 1);
      addBackward(1);
    }
    drain();
    return std::move(tasks);
  }

private:
  /// The first chunk's gradients of inputs, those of the second between them, and all gradients of weights that are
  /// left.
  void drain() {
    for (unsigned i = 0; i != stage; ++i) {
      add(TaskKind::BackwardInput, 0);
      add(TaskKind::BackwardInput, 1);
    }
    for (unsigned i = 0; i != stages - stage; ++i)
      addBackward(0);
    for (unsigned chunk : {1u, 0u})
      while (count(TaskKind::BackwardWeight, chunk) != count(TaskKind::BackwardInput, chunk))
        add(TaskKind::BackwardWeight, chunk);
  }
};

class StageOfDualPipeV : TasksOfV {
public:
  StageOfDualPipeV(const PipelineShape &shape, unsigned stage) : TasksOfV(shape, stage, 2 * shape.stages) {}

  std::vector<PipelineTask> make() {
    unsigned own = stage + 1, after = stages - own;
    for (unsigned i = 0; i != 2 * after; ++i)
      add(TaskKind::Forward, 0);
    for (unsigned i = 0; i != own; ++i) {
      add(TaskKind::Forward, 0);
      add(TaskKind::Forward, 1);
    }
    for (unsigned i = 0; i != after; ++i) {
      addBackward(1);
      add(TaskKind::Forward, 1);
    }
    for (unsigned i = 0; i != full - 2 * stages + own; ++i) {
      addBeside(/*forward=*/0, /*backward=*/1);
      addBeside(/*forward=*/1, /*backward=*/0);
    }
    for (unsigned i = 0; i != after; ++i) {
      addBackward(1);
      addBeside(/*forward=*/1, /*backward=*/0);
    }
    drain(own, after);
    return std::move(tasks);
  }

private:
  /// Two microbatches side by side: neither waits for the other.
  void addBeside(unsigned forward, unsigned backward) {
    add(TaskKind::Forward, forward);
    addBackward(backward);
  }

  /// Gradients of inputs of both chunks, those of weights waiting from half of them on, and then in their order.
  void drain(unsigned own, unsigned after) {
    std::vector<unsigned> waiting;
    size_t done = 0;
    auto addLater = [&](unsigned chunk) {
      add(TaskKind::BackwardInput, chunk);
      waiting.push_back(chunk);
    };
    for (unsigned i = 0; i != own; ++i)
      addBackward(i % 2 == 0 ? 1 : 0);
    for (unsigned i = own; i != 2 * own; ++i)
      addLater(i % 2 == 0 ? 1 : 0);
    for (unsigned i = 0; i != after; ++i) {
      add(TaskKind::BackwardWeight, waiting[done++]);
      addLater(0);
    }
    while (done != waiting.size())
      add(TaskKind::BackwardWeight, waiting[done++]);
  }
};

} // namespace

PipelineOrder orderZeroBubbleV(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                               const std::vector<unsigned> & /*limits*/) {
  PipelineOrder order;
  for (unsigned stage = 0; stage != shape.stages; ++stage)
    order.push_back(StageOfZeroBubbleV(shape, stage).make());
  return order;
}

PipelineOrder orderDualPipeV(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                             const std::vector<unsigned> & /*limits*/) {
  PipelineOrder order;
  for (unsigned stage = 0; stage != shape.stages; ++stage)
    order.push_back(StageOfDualPipeV(shape, stage).make());
  return order;
}

} // namespace cleave::pipeline
