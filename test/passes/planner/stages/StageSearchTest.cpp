// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search across stages against trying every plan, published figures, and limits of time.

#include "RandomStages.h"

#include "passes/pipeline/PipelineSimulator.h"

#include <chrono>
#include <cmath>
#include <numeric>

using namespace cleave::stages;
using namespace cleave::pipeline;

/// A plan that is one: stages without gaps, devices within their runs and not shared, memory kept, seconds as stated.
static void expectValid(const StageProblem &problem, StageCosts &costs, const StagePlan &plan) {
  ASSERT_TRUE(plan.isFeasible());
  std::vector<std::vector<bool>> used;
  used.reserve(problem.runs.size());
  for (const DeviceRun &run : problem.runs)
    used.emplace_back(run.count, false);
  unsigned layer = problem.begin();
  for (const Stage &stage : plan.stages) {
    EXPECT_EQ(stage.first, layer);
    layer = stage.last;
    const DeviceRun &run = problem.runs[stage.run];
    EXPECT_LE(stage.bytes(), run.memory);
    for (unsigned device = stage.firstDevice; device < stage.firstDevice + stage.devices; ++device) {
      ASSERT_LT(device, run.count);
      EXPECT_FALSE(used[stage.run][device] && !problem.sharesDevices);
      used[stage.run][device] = true;
    }
  }
  EXPECT_EQ(layer, problem.begin() + problem.numLayers);
  std::vector<Stage> stages = plan.stages;
  EXPECT_DOUBLE_EQ(plan.seconds, stepSeconds(problem, costs, stages));
}

/// One random problem: the same seconds as the best of all plans, and the same bytes where there is none.
static bool expectEqualsEveryPlan(unsigned seed, unsigned numLayers, bool isFull, bool reserves = false,
                                  bool shares = false) {
  std::mt19937 random(seed);
  StageProblem problem;
  TableCosts costs;
  makeRandomProblem(random, numLayers, isFull, problem, costs, !reserves && !shares);
  if (reserves)
    reserveRuns(random, problem, costs);
  if (shares) {
    problem.sharesDevices = true;
    problem.useAllDevices = false;
    problem.microbatches = 1;
  }
  StagePlan plan = searchStages(problem, costs);
  EveryPlan every = tryEveryPlan(problem, costs);
  EXPECT_EQ(plan.isFeasible(), std::isfinite(every.seconds)) << "seed " << seed;
  if (plan.isFeasible()) {
    expectValid(problem, costs, plan);
    EXPECT_NEAR(plan.seconds, every.seconds, 1e-9 * every.seconds) << "seed " << seed;
    EXPECT_NEAR(plan.lowerBound, plan.seconds, 1e-9 * plan.seconds) << "seed " << seed;
    // The bound alone is the same.
    SearchOptions bounds;
    bounds.boundsOnly = true;
    EXPECT_NEAR(searchStages(problem, costs, bounds).lowerBound, every.seconds, 1e-9 * every.seconds)
        << "seed " << seed;
  } else if (std::isfinite(every.leastBytes)) {
    EXPECT_DOUBLE_EQ(plan.leastBytes, every.leastBytes) << "seed " << seed;
    // Fewer bytes than that are nowhere.
    SearchOptions options;
    options.bytesToBeat = every.leastBytes * 1.01;
    EXPECT_DOUBLE_EQ(searchStages(problem, costs, options).leastBytes, every.leastBytes) << "seed " << seed;
    options.bytesToBeat = plan.leastBytes;
    EXPECT_EQ(searchStages(problem, costs, options).leastBytes, 0) << "seed " << seed;
  }
  return plan.isFeasible();
}

TEST(StageSearch, equalsTryingEveryPlanOfUpToSevenLayers) {
  unsigned feasible = 0;
  for (unsigned seed = 0; seed < 1000; ++seed)
    feasible += expectEqualsEveryPlan(seed, 1 + seed % 7, false);
  // Problems of both kinds are there.
  EXPECT_GT(feasible, 200u);
  EXPECT_LT(feasible, 950u);
}

TEST(StageSearch, equalsTryingEveryPlanOfEightLayersOnEightDevices) {
  for (unsigned seed = 1000; seed < 1100; ++seed)
    expectEqualsEveryPlan(seed, 8, true);
}

// Stages that belong on given devices stand anywhere in the pipeline and leave the other devices to the others.
TEST(StageSearch, equalsTryingEveryPlanWithReservedRuns) {
  unsigned feasible = 0;
  for (unsigned seed = 2000; seed < 3000; ++seed)
    feasible += expectEqualsEveryPlan(seed, 1 + seed % 7, seed % 2, true);
  EXPECT_GT(feasible, 200u);
  EXPECT_LT(feasible, 950u);
}

// Where stages take turns, every one may have all devices.
TEST(StageSearch, equalsTryingEveryPlanWithSharedDevices) {
  unsigned feasible = 0;
  for (unsigned seed = 3000; seed < 3400; ++seed)
    feasible += expectEqualsEveryPlan(seed, 1 + seed % 5, seed % 2, seed % 3, true);
  EXPECT_GT(feasible, 80u);
  EXPECT_LT(feasible, 390u);
}

//===-- costs by formula --------------------------------------------------------------------------------------===//

/// t = sum of weights / n * (1 + 0.05 log2 n) + 0.1 for n > 1: what layers of given weights take on n devices.
class WeightCosts : public StageCosts {
public:
  explicit WeightCosts(std::vector<double> weights) : weights(std::move(weights)) {}

  const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned /*kind*/, unsigned devices) override {
    std::vector<StageOption> &found = known[{classOf(first, last), devices}];
    if (found.empty()) {
      ++asked;
      addOptions(std::accumulate(weights.begin() + first, weights.begin() + last, 0.0), last - first, devices, found);
    }
    return found;
  }
  /// Layers differ by their weights.
  uint64_t classOf(unsigned first, unsigned last) override {
    std::vector<double> part(weights.begin() + first, weights.begin() + last);
    return classes.try_emplace(part, classes.size()).first->second;
  }
  double transferSeconds(unsigned, unsigned, unsigned, Hop) override { return transfer; }
  bool growsWithLayers() const override { return true; }

  double transfer = 0;
  unsigned asked = 0;

protected:
  virtual void addOptions(double weight, unsigned /*layers*/, unsigned devices, std::vector<StageOption> &options) {
    StageOption option;
    option.forward = weight / devices * (1 + 0.05 * std::log2(devices)) + (devices > 1 ? 0.1 : 0);
    options.push_back(option);
  }

private:
  std::vector<double> weights;
  std::map<std::vector<double>, uint64_t> classes;
  std::map<std::pair<uint64_t, unsigned>, std::vector<StageOption>> known;
};

// The figure of the stage search: two stages of four layers on two devices each.
TEST(StageSearch, putsHeavyEndsOnTwoPairsOfDevices) {
  WeightCosts costs({4, 1, 1, 1, 1, 1, 1, 4});
  StageProblem problem;
  problem.numLayers = 8;
  problem.runs = {{4, 0, std::numeric_limits<double>::infinity(), {1, 2, 4}}};
  problem.microbatches = 32;
  problem.useAllDevices = true;
  StagePlan plan = searchStages(problem, costs);
  expectValid(problem, costs, plan);
  EXPECT_NEAR(plan.seconds, 124.575, 1e-9);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last, 4u);
  EXPECT_EQ(plan.stages[0].devices, 2u);
  EXPECT_EQ(plan.stages[1].devices, 2u);
}

/// What layers take on a device of kind 0, and twice as long on one of kind 1.
class CostsOfTwoKinds : public StageCosts {
public:
  explicit CostsOfTwoKinds(double layer = 1) : layer(layer) {}
  const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned /*devices*/) override {
    std::vector<StageOption> &found = known[{last - first, kind}];
    if (found.empty())
      found.emplace_back().forward = layer * (last - first) * (kind + 1.0);
    return found;
  }
  uint64_t classOf(unsigned first, unsigned last) override { return last - first; }
  double transferSeconds(unsigned, unsigned, unsigned, Hop) override { return 0; }

private:
  const double layer;
  std::map<std::pair<unsigned, unsigned>, std::vector<StageOption>> known;
};

// Without a search, too, devices have as many layers as they are fast, in either order.
TEST(StageSearch, givesFasterDevicesMoreEqualLayers) {
  for (unsigned faster : {0u, 1u}) {
    CostsOfTwoKinds costs;
    StageProblem problem;
    problem.numLayers = 12;
    problem.anyOrder = false;
    for (unsigned run : {0u, 1u})
      problem.runs.push_back({2, run == faster ? 0u : 1u, std::numeric_limits<double>::infinity(), {1}});
    problem.microbatches = 8;
    SearchOptions options;
    options.equalLayersOnly = true;
    StagePlan plan = searchStages(problem, costs, options);
    expectValid(problem, costs, plan);
    ASSERT_EQ(plan.stages.size(), 4u);
    for (const Stage &stage : plan.stages)
      EXPECT_EQ(stage.last - stage.first, stage.run == faster ? 4u : 2u);
    EXPECT_EQ(plan.lowerBound, 0);
  }
}

// Seven runs have 5,040 orders. Any of those that are tried makes the ideal pipeline: two layers on each of 16 fast
// devices, one on each of 12 slow ones, so that every stage takes two seconds.
TEST(StageSearch, givesFasterDevicesMoreEqualLayersInManyRuns) {
  CostsOfTwoKinds costs;
  StageProblem problem;
  problem.numLayers = 44;
  problem.anyOrder = true;
  for (unsigned count = 1; count <= 7; ++count)
    problem.runs.push_back({count, (count + 1) % 2, std::numeric_limits<double>::infinity(), {1}});
  problem.microbatches = 8;
  SearchOptions options;
  options.equalLayersOnly = true;
  StagePlan plan = searchStages(problem, costs, options);
  expectValid(problem, costs, plan);
  EXPECT_DOUBLE_EQ(plan.seconds, 28 * 2 + 7 * 2);
}

// That there are fewer layers than stages needs no search.
TEST(StageSearch, asksNothingWhereStagesAreMoreThanLayers) {
  class NoCosts : public CostsOfTwoKinds {
    const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned devices) override {
      ADD_FAILURE() << "asked for layers " << first << " to " << last;
      return CostsOfTwoKinds::options(first, last, kind, devices);
    }
  } costs;
  StageProblem problem;
  problem.numLayers = 8;
  problem.numStages = 9;
  for (unsigned count = 1; count <= 7; ++count)
    problem.runs.push_back({count, count % 2, std::numeric_limits<double>::infinity(), {1}});
  problem.microbatches = 8;
  SearchOptions options;
  options.explainInfeasible = true;
  StagePlan plan = searchStages(problem, costs, options);
  EXPECT_FALSE(plan.isFeasible());
  EXPECT_EQ(plan.leastBytes, 0);
}

// Layers without a cost say nothing about devices.
TEST(StageSearch, takesLayersWithoutCostOnTwoKinds) {
  CostsOfTwoKinds costs(0);
  StageProblem problem;
  problem.numLayers = 12;
  problem.anyOrder = false;
  for (unsigned kind : {0u, 1u})
    problem.runs.push_back({2, kind, std::numeric_limits<double>::infinity(), {1}});
  problem.microbatches = 8;
  for (bool equalLayersOnly : {true, false}) {
    SearchOptions options;
    options.equalLayersOnly = equalLayersOnly;
    StagePlan plan = searchStages(problem, costs, options);
    expectValid(problem, costs, plan);
    EXPECT_EQ(plan.seconds, 0);
  }
}

// A chain of weights 1 to 6 on two devices, one each: [1, 2, 3, 4] and [5, 6].
TEST(StageSearch, cutsAChainInTwo) {
  WeightCosts costs({1, 2, 3, 4, 5, 6});
  StageProblem problem;
  problem.numLayers = 6;
  problem.runs = {{2, 0, std::numeric_limits<double>::infinity(), {1}}};
  problem.microbatches = 32;
  StagePlan plan = searchStages(problem, costs);
  expectValid(problem, costs, plan);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last, 4u);
  EXPECT_EQ(plan.seconds, 21 + 31 * 11);
}

// The formula of a step is that of the table for equal stages, and what the simulator finds.
TEST(StageSearch, costsStepsAsTheSimulatorDoes) {
  for (Schedule schedule : {*findSchedule("gpipe"), *findSchedule("1f1b"), *findSchedule("zb-h1"),
                            *findSchedule("zb-h2"), *findSchedule("zb-v")})
    for (unsigned stages : {2, 4, 8}) {
      StageProblem problem;
      problem.numLayers = stages;
      problem.runs = {{stages, 0, infinity, {1}}};
      problem.microbatches = 3 * stages;
      problem.schedule = schedule;
      problem.chunks = schedule->fewestChunks;
      WeightCosts costs(std::vector<double>(stages, 1));
      std::vector<Stage> plan(stages);
      for (unsigned i = 0; i < stages; ++i) {
        plan[i] = {i, i + 1, 0, i, 1, {}, 1};
        plan[i].option.forward = 3;
        plan[i].option.backward = 5;
        plan[i].option.backwardWeight = 2;
      }
      PipelineTimeline timeline = simulatePipeline(std::vector<StageTimes>(stages, {3, 3, 2, 0}),
                                                   {schedule, problem.microbatches, problem.chunks, {}});
      EXPECT_NEAR(stepSeconds(problem, costs, plan), timeline.longestSpan(), 1e-9) << schedule->name;
      for (unsigned i = 0; i < stages; ++i)
        EXPECT_EQ(plan[i].inFlight, timeline.stages[i].inFlight) << schedule->name << ", stage " << i;
    }
}

/// A decoder of many equal layers: with and without recomputation, of which the first binds in memory. Numbers are
/// those of GPT-3 in magnitude: 1.8e9 parameters a layer, a sequence of 2048.
class DecoderCosts : public WeightCosts {
public:
  explicit DecoderCosts(unsigned layers) : WeightCosts(weightsOf(layers)), numLayers(layers + 2) {}

  /// All layers but the first and the last are equal.
  uint64_t classOf(unsigned first, unsigned last) override {
    return uint64_t(last - first) * 4 + (first == 0) * 2 + (last == numLayers);
  }

protected:
  void addOptions(double weight, unsigned layers, unsigned devices, std::vector<StageOption> &options) override {
    if (devices > 64)
      return;
    for (bool recompute : {false, true}) {
      StageOption option;
      option.forward = weight / devices * (1 + 0.05 * std::log2(devices));
      option.backward = option.forward * (recompute ? 3 : 2);
      option.perStep = layers * 0.02 / std::sqrt(devices);
      option.fixedBytes = layers * 1.8e9 * 18 / devices;
      option.microbatchBytes = layers * (recompute ? 0.05e9 : 3.2e9 / devices);
      option.id = recompute;
      options.push_back(option);
    }
  }

private:
  static std::vector<double> weightsOf(unsigned layers) {
    std::vector<double> weights(layers + 2, 1.0);
    weights.front() = 0.1;
    weights.back() = 0.6;
    return weights;
  }

  unsigned numLayers;
};

static StageProblem decoderProblem(unsigned layers, unsigned devices, unsigned microbatches) {
  StageProblem problem;
  problem.numLayers = layers + 2;
  DeviceRun run{devices, 0, 80e9, {}};
  for (unsigned size = 1; size <= devices; size *= 2)
    run.stageSizes.push_back(size);
  problem.runs = {run};
  problem.microbatches = microbatches;
  return problem;
}

static double processorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// GPT-3 on 1,024 devices, for all numbers of microbatches that are tried: at once, and exactly.
TEST(StageSearch, isFastForManyLayersAndDevices) {
  for (unsigned microbatches : {1, 4, 16, 64, 256, 1536}) {
    DecoderCosts costs(96);
    StageProblem problem = decoderProblem(96, 1024, microbatches);
    double begin = processorSeconds();
    StagePlan plan = searchStages(problem, costs);
    EXPECT_LT(processorSeconds() - begin, 0.3) << microbatches;
    expectValid(problem, costs, plan);
    EXPECT_NEAR(plan.lowerBound, plan.seconds, 1e-9 * plan.seconds) << microbatches;
  }
}

// With zero bubbles every stage keeps as much as the first one, which the stages left do not tell: with many stages,
// some numbers of them are tried. 49 GB of each device hold parameters; of the rest all, some or nothing is enough.
TEST(StageSearch, keepsMemoryWithoutBubbles) {
  unsigned feasible = 0;
  for (Schedule schedule : {*findSchedule("zb-h1"), *findSchedule("zb-h2")})
    for (double memory = 54e9; memory < 60e9; memory += 1e9) {
      DecoderCosts costs(96);
      StageProblem problem = decoderProblem(96, 64, 64);
      problem.runs.front().memory = memory;
      problem.schedule = schedule;
      StagePlan plan = searchStages(problem, costs);
      if (!plan.isFeasible()) {
        EXPECT_GT(plan.leastBytes, memory);
        continue;
      }
      expectValid(problem, costs, plan);
      EXPECT_LE(plan.lowerBound, plan.seconds);
      ++feasible;
    }
  EXPECT_GT(feasible, 0u);
}

// Twelve times as many layers take no longer, since equal ones are grouped; the bound is then one of work.
TEST(StageSearch, groupsManyEqualLayers) {
  DecoderCosts costs(1200);
  StageProblem problem = decoderProblem(1200, 16384, 4096);
  double begin = processorSeconds();
  StagePlan plan = searchStages(problem, costs);
  EXPECT_LT(processorSeconds() - begin, 2);
  expectValid(problem, costs, plan);
  EXPECT_LE(plan.lowerBound, plan.seconds);
  EXPECT_GT(plan.lowerBound, 0.85 * plan.seconds);
}

// The same problem has the same plan, and a search that may not take long says how far off it can be.
TEST(StageSearch, isDeterministicAndHonoursItsTime) {
  DecoderCosts costs(96);
  StageProblem problem = decoderProblem(96, 256, 64);
  StagePlan plan = searchStages(problem, costs), again = searchStages(problem, costs);
  ASSERT_EQ(plan.stages.size(), again.stages.size());
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    EXPECT_EQ(plan.stages[i].last, again.stages[i].last);
    EXPECT_EQ(plan.stages[i].devices, again.stages[i].devices);
    EXPECT_EQ(plan.stages[i].option.id, again.stages[i].option.id);
  }
  SearchOptions options;
  options.timeBudget = 1e-6;
  double last = std::numeric_limits<double>::infinity();
  options.progress = [&](double seconds) {
    EXPECT_LT(seconds, last);
    last = seconds;
  };
  StagePlan hasty = searchStages(problem, costs, options);
  EXPECT_LE(hasty.lowerBound, plan.seconds * (1 + 1e-9));
  EXPECT_GE(hasty.seconds, plan.seconds * (1 - 1e-9));
}

// A plan that is no better than what is known is not looked for; the bound holds nevertheless.
TEST(StageSearch, leavesOutWhatDoesNotBeatKnownSeconds) {
  DecoderCosts costs(24);
  StageProblem problem = decoderProblem(24, 64, 16);
  StagePlan plan = searchStages(problem, costs);
  SearchOptions options;
  options.secondsToBeat = plan.seconds * 1.01;
  EXPECT_NEAR(searchStages(problem, costs, options).seconds, plan.seconds, 1e-9 * plan.seconds);
  options.secondsToBeat = plan.seconds * 0.99;
  StagePlan none = searchStages(problem, costs, options);
  EXPECT_FALSE(none.isFeasible());
  EXPECT_NEAR(none.lowerBound, options.secondsToBeat, 1e-9);
}
