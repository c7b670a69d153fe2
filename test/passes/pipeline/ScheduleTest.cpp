// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What rows of the table promise, against the simulator and against all orders that there are.

#include "passes/pipeline/Schedule.h"

#include "passes/pipeline/PipelineOrder.h"
#include "passes/pipeline/PipelineSimulator.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

using namespace cleave::pipeline;

namespace {

/// The numbers of chunks of a row that are tried.
std::vector<unsigned> chunksOf(const ScheduleRow &row) {
  std::vector<unsigned> numbers;
  for (unsigned chunks : {row.fewestChunks, row.fewestChunks + 1, 2 * row.fewestChunks})
    if (chunks <= row.mostChunks && (numbers.empty() || chunks != numbers.back()))
      numbers.push_back(chunks);
  return numbers;
}

PipelineTimeline simulate(Schedule schedule, unsigned stages, unsigned microbatches, unsigned chunks,
                          StageTimes times) {
  return simulatePipeline(std::vector<StageTimes>(stages, times), {schedule, microbatches, chunks, {}});
}

// Names lead to rows, each its own, and the default is 1F1B.
TEST(Schedule, IsFoundByItsName) {
  std::set<std::string_view> names;
  for (const ScheduleRow &row : scheduleTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(findSchedule(row.name), Schedule(row));
  }
  EXPECT_EQ(findSchedule("1f1b"), Schedule());
  EXPECT_FALSE(findSchedule("none"));
}

// Parts and stages are inverse, and a V comes back to the first stage.
TEST(Schedule, PlacesParts) {
  for (ChunkOrder order : {ChunkOrder::Rounds, ChunkOrder::Turns})
    for (unsigned stages : {1, 2, 3, 5})
      for (unsigned chunk : {0, 1, 2, 3})
        for (unsigned stage = 0; stage != stages; ++stage)
          EXPECT_EQ(stageOf(order, partOf(order, stage, chunk, stages), stages), stage);
  EXPECT_EQ(partOf(ChunkOrder::Turns, 0, 1, 4), 7u);
  EXPECT_EQ(partOf(ChunkOrder::Turns, 3, 1, 4), 4u);
  EXPECT_EQ(partOf(ChunkOrder::Rounds, 3, 1, 4), 7u);
}

// A row's ramp and chunks in flight are what its order makes of equal stages, with as few microbatches as it takes,
// with numbers of them that no group divides, and with many.
TEST(Schedule, KeepsWhatItsRowPromises) {
  for (const ScheduleRow &row : scheduleTable())
    for (unsigned chunks : chunksOf(row))
      for (const StageTimes &times : {StageTimes{12, 12, 12, 0}, StageTimes{30, 29, 20, 0}, StageTimes{10, 14, 4, 0}})
        for (unsigned p = 1; p <= 6; ++p)
          for (unsigned m = 1; m <= 4 * p + 1; ++m) {
            if (p > row.mostStages(m))
              continue;
            PipelineTimeline timeline = simulate(row, p, m, chunks, times);
            double promised = m * times.sum() + (p - 1) * row.ramp(times, chunks);
            // The automatic schedule is at least as good as the one in whose memory it is; where F takes longer than B,
            // a V saves up to half the difference once.
            // With F beside B each other stage saves up to half of what they differ.
            bool isDual = row.name == "dualpipe-v";
            double saved = row.takesLimits ? promised
                           : isDual        ? (p - 1) * std::abs(times.forward - times.backwardInput) / 2
                           : row.chunkOrder == ChunkOrder::Turns && p > 1
                               ? std::max(0.0, times.forward - times.backwardInput) / 2
                               : 0;
            EXPECT_LE(timeline.longestSpan(), promised + 1e-9)
                << row.name << " p " << p << " m " << m << " v " << chunks << " W " << times.backwardWeight;
            EXPECT_GE(timeline.longestSpan(), promised - saved - 1e-9)
                << row.name << " p " << p << " m " << m << " v " << chunks << " W " << times.backwardWeight;
            double least = std::max(0.0, times.sum() - row.delayedWeights * times.backwardWeight) / chunks;
            EXPECT_GE(row.ramp(times, chunks), least - 1e-9) << row.name;
            for (unsigned stage = 0; stage != p; ++stage)
              EXPECT_LE(timeline.stages[stage].inFlight * chunks, row.chunksInFlight({p, m, chunks}, stage) + 1e-9)
                  << row.name << " p " << p << " m " << m << " v " << chunks << " stage " << stage;
            EXPECT_NEAR(timeline.stages[0].inFlight * chunks,
                        row.takesLimits ? timeline.stages[0].inFlight * chunks : row.chunksInFlight({p, m, chunks}, 0),
                        1e-9)
                << row.name << " p " << p << " m " << m << " v " << chunks;
          }
}

// What the search does not try unasked is no better than something that it tries: neither in what it adds to a step,
// nor in what stages keep, nor in how few microbatches it takes.
TEST(Schedule, IsNoBetterThanOneThatIsSearched) {
  for (const ScheduleRow &row : scheduleTable()) {
    if (row.isSearched || row.weightDelay > 0)
      continue;
    bool isNoBetter = std::ranges::any_of(scheduleTable(), [&](const ScheduleRow &other) {
      if (!other.isSearched || other.fewestChunks != row.fewestChunks || other.chunkOrder != row.chunkOrder)
        return false;
      unsigned chunks = row.fewestChunks;
      for (double forward : {1, 2, 5})
        for (double input : {1, 2, 5})
          for (double weight : {0, 1, 2, 5, 12})
            if (StageTimes times{forward, input, weight, 0}; row.ramp(times, chunks) < other.ramp(times, chunks))
              return false;
      for (unsigned m = 1; m <= 24; ++m) {
        if (row.mostStages(m) > other.mostStages(m))
          return false;
        for (unsigned p = 1; p <= std::min(m, row.mostStages(m)); ++p)
          for (unsigned stage = 0; stage != p; ++stage)
            if (row.chunksInFlight({p, m, chunks}, stage) < other.chunksInFlight({p, m, chunks}, stage))
              return false;
      }
      return true;
    });
    EXPECT_TRUE(isNoBetter) << row.name;
  }
}

// A schedule that does not drain goes on from step to step: of many steps each takes what its work takes, and no more
// is kept than in one.
TEST(Schedule, AddsNoRampToStepsThatDoNotDrain) {
  for (const ScheduleRow &row : scheduleTable()) {
    Schedule schedule(row);
    if (schedule.drains())
      continue;
    for (const StageTimes &times : {StageTimes{12, 12, 12, 0}, StageTimes{30, 29, 20, 0}})
      for (unsigned p = 1; p <= 6; ++p)
        for (unsigned m = p; m <= 2 * p; ++m) {
          auto spanOf = [&](unsigned steps) { return simulate(schedule, p, steps * m, 1, times); };
          EXPECT_NEAR(spanOf(5).longestSpan() - spanOf(2).longestSpan(),
                      3 * (m * times.sum() + (p - 1) * schedule.rampOfStep(times, 1)), 1e-9)
              << row.name << " p " << p << " m " << m;
          for (unsigned stage = 0; stage != p; ++stage)
            EXPECT_LE(spanOf(5).stages[stage].inFlight, row.chunksInFlight({p, m, 1}, stage));
        }
  }
}

// Of p microbatches in each of v chunks, transfers add 2 (v p - 1) times their seconds while the pipeline fills and
// drains: a microbatch enters each stage v times, and the first one less.
TEST(Schedule, CountsTheEntriesOfInterleavedStages) {
  Schedule schedule = *findSchedule("interleaved");
  for (unsigned p : {2, 4})
    for (unsigned v : {2, 3})
      for (unsigned m : {2 * p, 5 * p}) {
        double send = 1e-3, without = simulate(schedule, p, m, v, {6, 6, 6, 0}).longestSpan();
        double with = simulate(schedule, p, m, v, {6, 6, 6, send}).longestSpan();
        unsigned entries = schedule.numEntries(true, v) + (p - 1) * schedule.numEntries(false, v);
        EXPECT_NEAR(with - without, 2 * entries * send, 1e-9) << "p " << p << " v " << v << " m " << m;
      }
}

// The order that Megatron-LM publishes (Narayanan et al. 2021, section 2.2): forward k of a stage is of chunk
// (k mod p v) / p, backwards take the chunks the other way round, and stage i begins with 2 (p - i - 1) + (v - 1) p.
TEST(Schedule, InterleavesAsPublished) {
  for (unsigned p : {2, 4})
    for (unsigned v : {2, 4}) {
      unsigned m = 3 * p, tasks = m * v;
      PipelineOrder order = orderPipeline(std::vector<StageTimes>(p), {*findSchedule("interleaved"), m, v, {}});
      auto taskOf = [&](unsigned k, bool isForward) {
        unsigned chunk = k % (p * v) / p;
        return std::tuple(isForward, k / (p * v) * p + k % p, isForward ? chunk : v - 1 - chunk);
      };
      for (unsigned stage = 0; stage != p; ++stage) {
        std::vector<std::tuple<bool, unsigned, unsigned>> expected, found;
        unsigned ahead = std::min(2 * (p - stage - 1) + (v - 1) * p, tasks);
        for (unsigned k = 0; k != ahead; ++k)
          expected.push_back(taskOf(k, true));
        for (unsigned k = ahead; k != tasks; ++k) {
          expected.push_back(taskOf(k, true));
          expected.push_back(taskOf(k - ahead, false));
        }
        for (unsigned k = tasks - ahead; k != tasks; ++k)
          expected.push_back(taskOf(k, false));
        for (const PipelineTask &task : order[stage])
          found.emplace_back(task.kind == TaskKind::Forward, task.microbatch, task.chunk);
        EXPECT_EQ(found, expected) << "p " << p << " v " << v << " stage " << stage;
      }
    }
}

// DeepSeek's dualpipev.py on two and on three stages, where F0 is a forward of the first chunk: the numbers of tasks of
// its steps, written out. I and W of other microbatches than the last ones follow each other (B).
TEST(Schedule, RunsDualPipeVAsPublished) {
  auto textOf = [](const std::vector<PipelineTask> &tasks) {
    std::string text;
    for (size_t i = 0; i != tasks.size(); ++i) {
      bool isBoth = tasks[i].kind == TaskKind::BackwardInput && i + 1 != tasks.size() &&
                    tasks[i + 1].kind == TaskKind::BackwardWeight && tasks[i + 1].chunk == tasks[i].chunk &&
                    tasks[i + 1].microbatch == tasks[i].microbatch;
      text += (i ? " " : "") + std::string(1, isBoth ? 'B' : "FIW"[static_cast<size_t>(tasks[i].kind)]) +
              std::to_string(tasks[i].chunk);
      i += isBoth;
    }
    return text;
  };
  PipelineOrder two = orderPipeline(std::vector<StageTimes>(2), {*findSchedule("dualpipe-v"), 4, 2, {}});
  EXPECT_EQ(textOf(two[0]), "F0 F0 F0 F1 B1 F1 F0 B1 F1 B0 B1 F1 B0 B1 B0 B0");
  EXPECT_EQ(textOf(two[1]), "F0 F1 F0 F1 F0 B1 F1 B0 F0 B1 F1 B0 B1 B0 I1 I0 W1 W0");
  PipelineOrder three = orderPipeline(std::vector<StageTimes>(3), {*findSchedule("dualpipe-v"), 6, 2, {}});
  EXPECT_EQ(textOf(three[2]), "F0 F1 F0 F1 F0 F1 F0 B1 F1 B0 F0 B1 F1 B0 F0 B1 F1 B0 B1 B0 B1 I0 I1 I0 W0 W1 W0");
}

//===-- all orders --------------------------------------------------------------------------------------------===//

/// Every way to work on a tiny pipeline whose tasks take a second each: which tasks are done, second by second. To do a
/// task that could be done is never worse than to wait, and of equal microbatches the first goes first.
class AllOrders {
public:
  AllOrders(const PipelineShape &shape, ChunkOrder order)
      : shape(shape), order(order), parts(shape.stages * shape.chunks) {}

  /// The least seconds in which all tasks can be done.
  unsigned leastSeconds() const {
    std::set<State> states = {State(3 * parts, 0)};
    State end(3 * parts, static_cast<char>(shape.microbatches));
    for (unsigned seconds = 0;; ++seconds) {
      if (states.count(end))
        return seconds;
      std::set<State> next;
      for (const State &state : states)
        extend(state, state, 0, next);
      states = std::move(next);
    }
  }

private:
  /// By part: the microbatches whose forward, gradient of the input and gradient of the weights are done.
  using State = std::vector<char>;

  bool isReady(const State &state, unsigned part, unsigned kind) const {
    char done = state[3 * part + kind];
    if (static_cast<unsigned>(done) == shape.microbatches)
      return false;
    if (kind == 0)
      return part == 0 || done < state[3 * (part - 1)];
    if (kind == 2)
      return done < state[3 * part + 1];
    return done < state[part + 1 == parts ? 3 * part : 3 * (part + 1) + 1];
  }

  void extend(const State &before, const State &sofar, unsigned stage, std::set<State> &next) const {
    if (stage == shape.stages) {
      next.insert(sofar);
      return;
    }
    bool works = false;
    for (unsigned chunk = 0; chunk != shape.chunks; ++chunk)
      for (unsigned kind = 0; kind != 3; ++kind) {
        unsigned part = partOf(order, stage, chunk, shape.stages);
        if (!isReady(before, part, kind))
          continue;
        State after = sofar;
        ++after[3 * part + kind];
        extend(before, after, stage + 1, next);
        works = true;
      }
    if (!works)
      extend(before, sofar, stage + 1, next);
  }

  PipelineShape shape;
  ChunkOrder order;
  unsigned parts;
};

// No schedule is faster than the fastest of all orders, from the first second to the last.
TEST(Schedule, IsNoFasterThanAllOrders) {
  for (const ScheduleRow &row : scheduleTable())
    for (PipelineShape shape : {PipelineShape{2, 2, 1}, {2, 4, 1}, {3, 3, 1}, {3, 4, 1}, {2, 2, 2}, {2, 3, 2}})
      if (row.fewestChunks <= shape.chunks && shape.chunks <= row.mostChunks) {
        double part = shape.chunks;
        PipelineTimeline timeline =
            simulate(row, shape.stages, shape.microbatches, shape.chunks, {part, part, part, 0});
        EXPECT_GE(timeline.end() + 1e-9, AllOrders(shape, row.chunkOrder).leastSeconds())
            << row.name << " p " << shape.stages << " m " << shape.microbatches << " v " << shape.chunks;
      }
}

// The oracle finds what can be told by hand: the last of p stages begins after p - 1 seconds and has 3 M seconds of
// work, of which all but p - 1 gradients of weights can fill the time in which the first stage waits for the last
// gradient.
TEST(Schedule, AllOrdersReachTheBound) {
  for (unsigned p : {2, 3})
    for (unsigned m : {p, p + 1})
      EXPECT_EQ(AllOrders({p, m, 1}, ChunkOrder::Rounds).leastSeconds(), 3 * m + p - 1);
}

//===-- a row from outside ------------------------------------------------------------------------------------===//

/// 1F1B in which each stage begins with one forward more, which hides transfers behind it.
PipelineOrder orderEagerly(const std::vector<StageTimes> & /*stages*/, const PipelineShape &shape,
                           const std::vector<unsigned> & /*limits*/) {
  PipelineOrder order(shape.stages);
  for (unsigned stage = 0; stage != shape.stages; ++stage) {
    unsigned ahead = std::min(shape.stages - stage, shape.microbatches), forward = 0;
    while (forward != ahead)
      order[stage].push_back({TaskKind::Forward, forward++});
    for (unsigned i = 0; i != shape.microbatches; ++i) {
      if (forward != shape.microbatches)
        order[stage].push_back({TaskKind::Forward, forward++});
      order[stage].push_back({TaskKind::Backward, i});
    }
  }
  return order;
}

// A row is all that a schedule needs: nothing compares it with those that are known.
TEST(Schedule, NeedsNothingButARow) {
  static const ScheduleRow eager = {
      .name = "eager",
      .summary = "1f1b with one forward more",
      .order = orderEagerly,
      .chunksInFlight = [](const PipelineShape &shape,
                           unsigned stage) { return std::min(shape.stages - stage + 1, shape.microbatches); },
      .mostStages = [](unsigned microbatches) { return microbatches; },
      .ramp = [](const StageTimes &times, unsigned) { return times.sum(); }};
  StageTimes times{3, 3, 3, 0.5};
  PipelineTimeline ours = simulate(eager, 4, 16, 1, times), known = simulate(Schedule(), 4, 16, 1, times);
  EXPECT_LT(ours.longestSpan(), known.longestSpan());
  EXPECT_EQ(ours.stages[0].inFlight, Schedule(eager).microbatchesInFlight({4, 16, 1}, 0));
}

} // namespace
