// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The costs behind the search's bound, against the options that the search has: for each way to run each interval of
// layers there is one that is no worse in anything that a plan pays for.

#include "ModelGraph.h"

#include "passes/planner/search/LeastCosts.h"

#include <gtest/gtest.h>

#include <random>

using namespace cleave;
using namespace cleave::search;

namespace cleave::search {

/// Ways to run layers that no search looks at: splits that are best at random prices, with every way to keep
/// activations and state.
class EveryWay {
public:
  explicit EveryWay(Searcher &searcher) : searcher(searcher) {}

  std::vector<stages::StageOption> options(unsigned first, unsigned last, unsigned kind, unsigned devices,
                                           int64_t microbatches) {
    std::vector<stages::StageOption> options;
    const std::vector<Shape> &shapes = searcher.shapesOf(kind, devices);
    bool isWhole = last - first == searcher.intervals.numLayers();
    for (unsigned shape = 0; shape != shapes.size(); ++shape) {
      if (!searcher.mayBeOnGrid(kind, devices, shapes[shape], microbatches, isWhole))
        continue;
      unsigned setting = searcher.settingOf(kind, devices, shape, microbatches);
      for (unsigned round = 0; round != 4; ++round) {
        Weights weights = randomWeights(microbatches);
        const IntervalSums *sums = searcher.intervals.best(first, last, setting, weights);
        if (!sums)
          continue;
        for (Recompute recompute : waysToKeep(searcher.mayOffload())) {
          if (recompute != Recompute::None && !searcher.memoryBinds)
            continue;
          for (unsigned zero = 0; zero <= (searcher.memoryBinds ? 3 : 0); ++zero)
            options.push_back(
                searcher.optionOf(*sums, {first, last, kind, devices, setting, shape, weights, recompute, zero}));
        }
        if (isWhole && searcher.memoryBinds)
          for (unsigned mixture = 0; mixture != 8; ++mixture)
            options.push_back(
                searcher.optionOf(*sums, {first, last, kind, devices, setting, shape, weights, Recompute::None,
                                          static_cast<unsigned>(random() % 4),
                                          randomMixture(searcher.intervals.cutsOf(first, last).size() - 1)}));
      }
    }
    return options;
  }

  /// Whether layers repeat as the schedule's chunks need it.
  bool hasChunksFor(pipeline::Schedule schedule) const { return !searcher.chunksOf(*schedule).empty(); }

  /// The seconds of the best plan that the search finds with a schedule.
  double secondsWith(ScheduleChoice choice, Costs &costs, int64_t microbatches) const {
    return stages::searchStages(searcher.problemOf(microbatches, choice), costs).seconds;
  }

private:
  Weights randomWeights(int64_t microbatches) {
    auto power = [&] { return std::exp2(std::uniform_real_distribution<>(-8, 8)(random)); };
    Weights weights;
    weights.reduction = power() / static_cast<double>(microbatches);
    weights.secondsPerByte = random() % 2 == 0 ? 0 : power() * searcher.secondsPerByte(microbatches);
    weights.delayed = random() % 2 == 0 ? 0 : std::uniform_real_distribution<>(0, 0.9)(random);
    if (random() % 2 == 0) {
      weights.relaxed = {static_cast<Recompute>(random() % 3), random() % 4};
      weights.inFlight = 1 + random() % 4;
    }
    return weights;
  }

  /// A way for each piece, in runs of random lengths.
  std::shared_ptr<const std::vector<Recompute>> randomMixture(size_t numPieces) {
    std::vector<Recompute> byPiece(numPieces);
    unsigned mostRun = 1 + random() % numPieces;
    for (size_t piece = 0; piece != numPieces;) {
      llvm::ArrayRef<Recompute> ways = waysToKeep(searcher.mayOffload());
      Recompute own = ways[random() % ways.size()];
      for (unsigned run = 1 + random() % mostRun; run != 0 && piece != numPieces; --run)
        byPiece[piece++] = own;
    }
    return std::make_shared<const std::vector<Recompute>>(std::move(byPiece));
  }

  Searcher &searcher;
  std::mt19937 random{1};
};

} // namespace cleave::search

namespace {

struct OnDevices {
  unsigned first, last, kind, devices;
};

/// Whether `least` is no worse than `option` under a schedule, with any number of microbatches in flight. `bound`: the
/// same problem as bounds see it, with the least ramps. What a ramp is more than that comes off the load, which costs
/// no less unless the stage is slower while others are busy.
bool isNoWorse(const stages::StageOption &least, const stages::StageOption &option, const stages::StageProblem &problem,
               const stages::StageProblem &bound) {
  auto loadOf = [](const stages::StageOption &of, const stages::StageProblem &in) {
    return of.steadySeconds(in.fullMicrobatches(), in.ramp(of));
  };
  auto bytesOf = [](const stages::StageOption &of, double inFlight) {
    return of.fixedBytes + inFlight * of.microbatchBytes;
  };
  auto isAtMost = [](double left, double right) { return left <= right * (1 + 1e-9) + 1e-12; };
  const stages::StageProblem &ofLoad = option.steadySlowdown > 1 ? problem : bound;
  return isAtMost(bound.ramp(least), bound.ramp(option)) && isAtMost(bound.ramp(option), problem.ramp(option)) &&
         isAtMost(loadOf(least, bound), loadOf(option, ofLoad)) && isAtMost(least.perStep, option.perStep) &&
         isAtMost(bytesOf(least, 1), bytesOf(option, 1)) &&
         isAtMost(bytesOf(least, problem.microbatches), bytesOf(option, problem.microbatches));
}

struct CostedProblem {
  std::string model;
  std::map<std::string, int64_t> numbers;
  std::string machine;
  double memory;         ///< Bytes; 0: the machine's.
  double hostMemory = 0; ///< Bytes of its host that a device may take, over a way that is slow next to its memory.
};

void PrintTo(const CostedProblem &test, std::ostream *out) {
  *out << test.model << " on " << test.machine;
  if (test.memory > 0)
    *out << " in " << test.memory << " bytes";
  if (test.hostMemory > 0)
    *out << " and " << test.hostMemory << " of the host";
}

class LeastCostsTest : public testing::TestWithParam<CostedProblem> {};

// The options of the search, and others besides.
TEST_P(LeastCostsTest, AreNoWorseThanAnyOption) {
  ModelGraph model(GetParam().model, GetParam().numbers);
  auto machine = parseMachine(GetParam().machine);
  ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
  if (double bytes = GetParam().hostMemory; bytes > 0) {
    for (HostSpec &host : machine->hosts)
      host.memory = static_cast<uint64_t>(bytes) * host.numDevices();
    for (auto &[name, kind] : machine->kinds)
      kind.host = {20e9, 1e-5};
  }
  SearchRequest request;
  request.training = true;
  request.memoryLimit = GetParam().memory;
  auto tried = devicesToTry(*machine, request, false).front();
  Searcher searcher(model.graph, *machine, request, false, tried);
  std::set<int64_t> numbers = searcher.microbatchNumbers();
  searcher.exploreQuickly(llvm::to_vector(numbers));
  searcher.chooseNumbersOnAllGrids();
  for (int64_t number : numbers)
    searcher.explore(number);
  ASSERT_TRUE(searcher.best);
  // Slower stages than those of the best plan count as well here.
  searcher.secondsToBeat = 8 * searcher.best->seconds;
  searcher.best.reset();

  std::vector<OnDevices> intervals;
  auto layers = static_cast<unsigned>(model.graph.boundaries.size() - 1);
  std::vector<search::Run> runs = findRuns(*machine, tried.devices);
  // On the ring: a V's first stage has both ends.
  for (unsigned first = 0; first != layers; ++first)
    for (unsigned last = first + 1; last <= (first == layers - 1 ? first + layers - 1 : layers); ++last)
      for (auto [kind, run] : llvm::enumerate(runs))
        for (unsigned devices : stageSizes(run))
          intervals.push_back({first, last, static_cast<unsigned>(kind), devices});
  unsigned compared = 0;
  for (int64_t microbatches : {2, 4, 8}) {
    Costs costs(searcher, microbatches);
    EveryWay every(searcher);
    std::vector<std::vector<stages::StageOption>> optionsOf;
    for (auto [first, last, kind, devices] : intervals) {
      optionsOf.push_back(costs.options(first, last, kind, devices));
      llvm::append_range(optionsOf.back(), every.options(first, last, kind, devices, microbatches));
    }
    double enough = searcher.secondsToBeat;
    LeastCosts least(searcher, microbatches);
    least.setEnough(enough);
    for (const char *name : {"1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"}) {
      stages::StageProblem problem;
      problem.microbatches = microbatches;
      problem.schedule = *pipeline::findSchedule(name);
      problem.chunks = problem.schedule->fewestChunks;
      if (!every.hasChunksFor(problem.schedule))
        continue;
      stages::StageProblem bound = problem;
      bound.hasLeastRamps = true;
      double leastSeconds = least.boundOf({problem.schedule, problem.chunks});
      EXPECT_LE(leastSeconds, every.secondsWith({problem.schedule, problem.chunks}, costs, microbatches) * (1 + 1e-9))
          << name << ", " << microbatches << " microbatches";
      for (auto [interval, options] : llvm::zip_equal(intervals, optionsOf)) {
        auto [first, last, kind, devices] = interval;
        const std::vector<stages::StageOption> &bounds = least.options(first, last, kind, devices);
        bool isWhole = last - first == layers;
        double memory = runs.size() == 1 && request.memoryLimit > 0 ? request.memoryLimit : stages::infinity;
        for (const stages::StageOption &option : options) {
          double all = static_cast<double>(microbatches) * option.seconds();
          if (all > enough || option.fixedBytes + option.microbatchBytes > memory)
            continue;
          ++compared;
          // A step of one stage is bounded as a whole.
          bool isBounded = llvm::any_of(bounds, [&](const stages::StageOption &other) {
            return isWhole ? static_cast<double>(microbatches) * other.seconds() <= (all + option.perStep) * (1 + 1e-9)
                           : isNoWorse(other, option, problem, bound);
          });
          EXPECT_TRUE(isBounded || (isWhole && all + option.perStep >= enough))
              << name << ", " << microbatches << " microbatches, layers " << first << " to " << last << " on "
              << devices << ": " << option.seconds() << " s, " << option.perStep << " s a step, " << option.fixedBytes
              << " + " << option.microbatchBytes << " bytes";
        }
      }
    }
  }
  EXPECT_GT(compared, 100u);
}

constexpr double mebibyte = 1 << 20;
/// Most of its memory is for activations, and where these are computed again, for what crosses between layers.
const std::map<std::string, int64_t> longDecoder = {{"layers", 6},     {"hidden", 64},      {"heads", 4},
                                                    {"sequence", 256}, {"vocabulary", 256}, {"batch", 16}};
const std::map<std::string, int64_t> smallDecoder = {{"layers", 4},    {"hidden", 256},     {"heads", 4},
                                                     {"sequence", 64}, {"vocabulary", 512}, {"batch", 16}};

INSTANTIATE_TEST_SUITE_P(Models, LeastCostsTest,
                         testing::Values(CostedProblem{"gpt", smallDecoder, "a100-80g:4", 0},
                                         CostedProblem{"gpt", smallDecoder, "a100-80g:4", 48 * mebibyte},
                                         CostedProblem{"gpt", smallDecoder, "v100-16g:4", 30 * mebibyte},
                                         CostedProblem{"gpt", smallDecoder, "v100-16g:2+a100-80g:2", 0},
                                         CostedProblem{"gpt", longDecoder, "a100-80g:2", 12 * mebibyte},
                                         CostedProblem{"gpt", longDecoder, "a100-80g:2", 12 * mebibyte, 64 * mebibyte},
                                         CostedProblem{"gpt", smallDecoder, "v100-16g:4", 30 * mebibyte, 8 * mebibyte},
                                         CostedProblem{"moe",
                                                       {{"layers", 2},
                                                        {"hidden", 128},
                                                        {"heads", 4},
                                                        {"sequence", 32},
                                                        {"vocabulary", 256},
                                                        {"experts", 4},
                                                        {"batch", 16}},
                                                       "a100-80g:4",
                                                       20 * mebibyte},
                                         CostedProblem{"lenet", {{"batch", 64}}, "host:4x1", 0}));

} // namespace
