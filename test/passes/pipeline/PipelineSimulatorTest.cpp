// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipeline schedules against formulas and published figures.

#include "passes/pipeline/PipelineSimulator.h"

#include <algorithm>
#include <cmath>

using namespace cleave::pipeline;

static PipelineTimeline simulate(Schedule schedule, unsigned stages, unsigned microbatches, StageTimes times,
                                 unsigned chunks = 1, unsigned limit = 0) {
  PipelineSchedule options{schedule, microbatches, chunks, {}};
  if (limit)
    options.memoryLimits.assign(stages, limit);
  return simulatePipeline(std::vector<StageTimes>(stages, times), options);
}

/// Every task once, after its input, and no two of a stage at once. `isV`: the second chunks come back.
static void expectValid(const PipelineTimeline &timeline, const std::vector<StageTimes> &stages, unsigned microbatches,
                        unsigned chunks, bool isV = false) {
  ASSERT_EQ(timeline.stages.size(), stages.size());
  unsigned parts = stages.size() * chunks;
  std::vector<std::vector<double>> forward(parts, std::vector<double>(microbatches, -1)), backward = forward,
                                                                                          begun = forward;
  std::vector<unsigned> tasks(parts, 0);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    double free = 0;
    for (const TimedTask &task : timeline.stages[stage].tasks) {
      EXPECT_GE(task.begin, free - 1e-9);
      free = task.end;
      unsigned part = task.chunk * stages.size() + (isV && task.chunk == 1 ? stages.size() - 1 - stage : stage);
      if (task.kind == TaskKind::Forward) {
        EXPECT_EQ(forward[part][task.microbatch], -1);
        forward[part][task.microbatch] = task.end;
        ++tasks[part];
      } else if (task.kind == TaskKind::BackwardWeight) {
        EXPECT_GE(backward[part][task.microbatch], 0);
      } else {
        EXPECT_EQ(backward[part][task.microbatch], -1);
        backward[part][task.microbatch] = task.end;
        begun[part][task.microbatch] = task.begin;
        EXPECT_GE(forward[part][task.microbatch], 0);
      }
    }
  }
  for (unsigned part = 0; part + 1 < parts; ++part)
    for (unsigned i = 0; i < microbatches; ++i)
      EXPECT_GE(begun[part][i], backward[part + 1][i] - 1e-9);
  for (unsigned count : tasks)
    EXPECT_EQ(count, microbatches);
}

//===-- the table of idle times and activations ---------------------------------------------------------------===//

struct Formulas {
  const char *name;
  double (*idle)(double p, double v, const StageTimes &t);
  double (*kept)(double p, double v, double m);
};

constexpr Formulas rows[] = {
    {"gpipe", [](double p, double, const StageTimes &t) { return (p - 1) * t.sum(); },
     [](double, double, double m) { return m; }},
    {"1f1b", [](double p, double, const StageTimes &t) { return (p - 1) * t.sum(); },
     [](double p, double, double m) { return std::min(p, m); }},
    {"interleaved", [](double p, double v, const StageTimes &t) { return (p - 1) * t.sum() / v; },
     [](double p, double v, double) { return p * (1 + (p - 1) / (p * v)); }},
    {"zb-h1",
     [](double p, double, const StageTimes &t) { return (p - 1) * (t.forward + t.backwardInput - t.backwardWeight); },
     [](double p, double, double m) { return std::min(p, m); }},
    {"zb-h2",
     [](double p, double, const StageTimes &t) {
       return (p - 1) * (t.forward + t.backwardInput - 2 * t.backwardWeight);
     },
     [](double p, double, double m) { return std::min(2 * p - 1, m); }},
    // Nothing where F, B and W take equally long, in the memory of 1F1B; else the two chunks wait for each other.
    {"zb-v",
     [](double p, double, const StageTimes &t) {
       return (p - 1) * (std::max(t.forward, t.backwardInput) - t.backwardWeight);
     },
     [](double p, double, double) { return p; }},
    // DeepSeek's table, (p - 1)(F&B + B - 3W) of chunks with B for both gradients and 2 p + 1 chunks, is of F and B
    // whose results are there when both are done. Here those of F are there before, which saves half of B; of unlike F
    // and B the longest chain has half of each.
    {"dualpipe-v",
     [](double p, double, const StageTimes &t) {
       return (p - 1) * (t.forward + t.backwardInput - t.backwardWeight) / 2;
     },
     [](double p, double, double) { return p + 0.5; }}};

// Idle time and activations of every schedule, for many numbers of stages and microbatches and for two sets of times.
TEST(PipelineSimulator, agreesWithTheFormulas) {
  for (const Formulas &row : rows)
    for (unsigned p : {2, 3, 4, 8, 16})
      for (unsigned groups : {2, 3, 6})
        for (const StageTimes &times : {StageTimes{10, 10, 10, 0}, StageTimes{29, 30, 20, 0}}) {
          bool isV = findSchedule(row.name)->operator->()->chunkOrder == ChunkOrder::Turns;
          unsigned v = isV ? 2 : std::string_view(row.name) == "interleaved" ? 1 + groups % 4 : 1, m = p * groups;
          PipelineTimeline timeline = simulate(*findSchedule(row.name), p, m, times, v);
          expectValid(timeline, std::vector<StageTimes>(p, times), m, v, isV);
          EXPECT_NEAR(timeline.longestSpan() - m * times.sum(), row.idle(p, v, times), 1e-6)
              << row.name << " p " << p << " m " << m << " v " << v;
          EXPECT_NEAR(timeline.stages.front().inFlight, row.kept(p, v, m), 1e-9)
              << row.name << " p " << p << " m " << m << " v " << v;
        }
}

//===-- published figures -------------------------------------------------------------------------------------===//

// Qi et al. 2024: the 6.2B model on 8 stages under 1F1B.
TEST(PipelineSimulator, reproducesTheZeroBubblePaper) {
  struct Row {
    unsigned microbatches;
    StageTimes times;
    double bubbleRate;
  };
  for (const Row &row :
       {Row{24, {29.718, 29.444, 19.927, 0.527}, 0.2347}, Row{32, {29.802, 29.428, 19.530, 0.577}, 0.1898},
        Row{64, {29.935, 29.621, 19.388, 0.535}, 0.1091}}) {
    PipelineTimeline timeline = simulate(*findSchedule("1f1b"), 8, row.microbatches, row.times);
    EXPECT_EQ(std::round(timeline.bubbleRate() * 1e4) / 1e4, row.bubbleRate)
        << row.microbatches << " " << timeline.bubbleRate();
  }
}

// Equal times: 1F1B, the memory of 1F1B, and twice as much.
TEST(PipelineSimulator, reachesZeroBubbles) {
  StageTimes times{10, 10, 10, 0};
  struct Row {
    unsigned stages, microbatches;
    double oneForwardOneBackward, sameMemory, twiceMemory;
  };
  for (const Row &row : {Row{4, 8, 330, 270, 240}, Row{8, 24, 930, 790, 720}}) {
    auto spanOf = [&](Schedule schedule, unsigned limit) {
      return simulate(schedule, row.stages, row.microbatches, times, 1, limit).longestSpan();
    };
    EXPECT_DOUBLE_EQ(spanOf(*findSchedule("1f1b"), 0), row.oneForwardOneBackward);
    EXPECT_DOUBLE_EQ(spanOf(*findSchedule("zb-h1"), 0), row.sameMemory);
    EXPECT_DOUBLE_EQ(spanOf(*findSchedule("zb-h2"), 0), row.twiceMemory);
    EXPECT_DOUBLE_EQ(spanOf(*findSchedule("zb-auto"), row.stages), row.sameMemory);
    EXPECT_DOUBLE_EQ(spanOf(*findSchedule("zb-auto"), 2 * row.stages), row.twiceMemory);
  }
}

// The textbook's all-forward-all-backward on 4 stages, forward 1 and backward 2: 57 % and 72 % busy.
TEST(PipelineSimulator, reproducesTheTextbooksUtilisation) {
  StageTimes times{1, 1, 1, 0};
  EXPECT_EQ(std::floor((1 - simulate(*findSchedule("gpipe"), 4, 4, times).bubbleRate()) * 100), 57);
  EXPECT_EQ(std::floor((1 - simulate(*findSchedule("gpipe"), 4, 8, times).bubbleRate()) * 100), 72);
}

//===-- zero bubbles with a limit of memory -------------------------------------------------------------------===//

// The limit holds, more memory is never worse, and no schedule that fits in the limit is better.
TEST(PipelineSimulator, automaticZeroBubbleKeepsItsLimit) {
  for (unsigned p : {2, 4, 8})
    for (const StageTimes &times :
         {StageTimes{10, 10, 10, 0}, StageTimes{29.718, 29.444, 19.927, 0.527}, StageTimes{10, 12, 4, 2}}) {
      double before = std::numeric_limits<double>::infinity();
      for (unsigned limit = 1; limit <= 3 * p; ++limit) {
        PipelineTimeline timeline = simulate(*findSchedule("zb-auto"), p, 4 * p, times, 1, limit);
        expectValid(timeline, std::vector<StageTimes>(p, times), 4 * p, 1);
        for (const StageTimeline &stage : timeline.stages)
          EXPECT_LE(stage.inFlight, limit);
        double span = timeline.longestSpan();
        EXPECT_LE(span, before * (1 + 1e-9)) << p << " stages, limit " << limit;
        before = span;
        EXPECT_GE(span, 4 * p * times.sum() - 1e-6);
        if (limit >= p) {
          EXPECT_LE(span, simulate(*findSchedule("zb-h1"), p, 4 * p, times).longestSpan() + 1e-6);
          EXPECT_LE(span, simulate(*findSchedule("1f1b"), p, 4 * p, times).longestSpan() + 1e-6);
        }
        if (limit >= 2 * p - 1) {
          EXPECT_LE(span, simulate(*findSchedule("zb-h2"), p, 4 * p, times).longestSpan() + 1e-6);
        }
      }
    }
}

// Any number of microbatches has a schedule, also one that no group of an interleaved pipeline divides.
TEST(PipelineSimulator, takesAnyNumberOfMicrobatches) {
  StageTimes times{3, 2, 1, 0.25};
  for (unsigned p : {1, 2, 3, 5})
    for (unsigned m = 1; m <= 3 * p + 1; ++m) {
      for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto"})
        expectValid(simulate(*findSchedule(name), p, m, times), std::vector<StageTimes>(p, times), m, 1);
      for (unsigned v : {2, 3})
        expectValid(simulate(*findSchedule("interleaved"), p, m, times, v), std::vector<StageTimes>(p, times), m, v);
      for (const char *name : {"zb-v", "dualpipe-v"})
        expectValid(simulate(*findSchedule(name), p, m, times, 2), std::vector<StageTimes>(p, times), m, 2, true);
    }
}

// Stages of unequal times wait for the slowest.
TEST(PipelineSimulator, isBoundByTheSlowestStage) {
  std::vector<StageTimes> stages = {{1, 1, 1, 0}, {3, 3, 3, 0}, {1, 1, 1, 0}};
  PipelineTimeline timeline = simulatePipeline(stages, {*findSchedule("1f1b"), 10, 1, {}});
  EXPECT_DOUBLE_EQ(timeline.stages[1].span(), 90);
  // A forward before it and a backward behind it on the first stage.
  EXPECT_DOUBLE_EQ(timeline.end(), 90 + 1 + 2);
}

// Orders in which tasks wait for each other in a circle have no timeline.
TEST(PipelineSimulator, findsCircles) {
  PipelineOrder order = {{{TaskKind::Backward, 0}, {TaskKind::Forward, 0}}};
  EXPECT_TRUE(simulateOrder({{1, 1, 1, 0}}, {}, order).stages.empty());
}
