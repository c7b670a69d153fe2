// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search across stages: cuts, orders of devices, equal stages first, then all.

#include "passes/planner/stages/StageSearch.h"

#include "passes/planner/stages/BoundSearch.h"
#include "passes/planner/stages/LeastMemory.h"
#include "passes/planner/stages/WorkBound.h"

#include <algorithm>
#include <bit>
#include <ctime>

namespace cleave::stages {

Hop StageProblem::hopTo(const std::vector<Stage> &stages, size_t index) const {
  unsigned run = stages[index].run, before = 0;
  for (size_t i = 0; i != index; ++i)
    before += stages[i].run == run ? stages[i].devices : 0;
  return sharesDevices || runs[run].reserved ? Hop::BetweenRuns : hopAfter(before, runs[run].hostSize);
}

double stepSeconds(const StageProblem &problem, StageCosts &costs, std::vector<Stage> &stages) {
  double sum = 0, longest = 0, perStep = 0;
  for (unsigned i = 0; i < stages.size(); ++i) {
    Stage &stage = stages[i];
    auto count = static_cast<unsigned>(stages.size());
    stage.inFlight = problem.schedule.microbatchesInFlight({count, problem.microbatches, problem.chunks}, i);
    double ramp = problem.ramp(stage.option);
    Transfers transfers =
        problem.transfers(costs, stage.first, problem.runs[stage.run].kind, stage.devices, problem.hopTo(stages, i));
    sum += ramp + transfers.ramp;
    longest = std::max({longest, stage.option.steadySeconds(problem.fullMicrobatches(), ramp), transfers.load});
    perStep = std::max(perStep, stage.option.perStep);
  }
  return sum + longest + perStep;
}

namespace {

/// Steps of inner loops after which the search ends: a few tenths of a second.
constexpr uint64_t mostWork = 1'200'000'000;
/// Orders of runs that are tried: all of six runs.
constexpr unsigned mostOrders = 720;
/// Orders of which pipelines of equal stages are tried: all of four runs.
constexpr unsigned mostOrdersOfEqualLayers = 24;

class StageSearch {
public:
  StageSearch(const StageProblem &problem, StageCosts &costs, const SearchOptions &options)
      : problem(problem), costs(costs), options(options), groups(groupsOf(problem, groupOfRun)), cuts(findCuts()) {
    best.seconds = options.secondsToBeat;
    best.mostWork = mostWork;
    best.progress = options.progress;
    if (options.timeBudget > 0)
      best.isOutOfTime = [end = std::clock() + options.timeBudget * CLOCKS_PER_SEC] { return std::clock() > end; };
  }

  StagePlan run() {
    StagePlan plan;
    if (problem.numLayers == 0 || problem.microbatches == 0 || problem.numStages == 0u)
      return plan;
    // Every stage has a layer at least; no order of devices has to be tried to know that.
    if (problem.numStages && *problem.numStages > numUnits())
      return plan;
    std::vector<std::vector<unsigned>> orders = findOrders();
    if (!options.boundsOnly)
      tryEqualLayers(orders);
    if (!options.boundsOnly && !options.equalLayersOnly)
      searchEqualStages(orders);
    double lowerBound = options.equalLayersOnly ? 0 : searchAll(orders);
    if (!best.stages.empty())
      fill(plan);
    if (!isComplete)
      lowerBound = workBound(problem, costs, groups, mostSeconds());
    plan.lowerBound = std::min(lowerBound, best.seconds);
    if (best.stages.empty() && options.explainInfeasible && options.secondsToBeat == infinity)
      plan.leastBytes = findLeastBytes(orders);
    return plan;
  }

private:
  //===-- the problem made small ---------------------------------------------------------------------------===//

  /// All layers, or the cuts that the problem gives; where they are too many, runs of equal layers in groups of one
  /// size, the smallest that will do.
  std::vector<unsigned> findCuts() {
    if (!problem.cuts.empty())
      return problem.cuts.size() <= options.mostGroups + 1 ? problem.cuts : thinnedOut(problem.cuts);
    std::vector<unsigned> starts;
    for (unsigned layer = 0; layer < problem.numLayers; ++layer)
      if (layer == 0 || costs.classOf(layer - 1, layer) != costs.classOf(layer, layer + 1))
        starts.push_back(layer);
    starts.push_back(problem.numLayers);
    for (unsigned size = 1;; ++size) {
      std::vector<unsigned> found;
      for (size_t i = 0; i + 1 < starts.size(); ++i)
        for (unsigned layer = starts[i]; layer < starts[i + 1]; layer += size)
          found.push_back(layer);
      found.push_back(problem.numLayers);
      // Where the layers differ, there is nothing to be gained by larger groups of equal ones.
      if (found.size() <= options.mostGroups + 1 || size >= problem.numLayers) {
        isComplete = size == 1;
        return found.size() <= options.mostGroups + 1 ? found : thinnedOut(found);
      }
    }
  }

  std::vector<unsigned> thinnedOut(const std::vector<unsigned> &found) {
    isComplete = false;
    std::vector<unsigned> kept;
    for (unsigned i = 0; i <= options.mostGroups; ++i)
      kept.push_back(found[i * (found.size() - 1) / options.mostGroups]);
    return kept;
  }

  /// The orders of the runs that differ: by group and count.
  std::vector<std::vector<unsigned>> findOrders() {
    std::vector<unsigned> order;
    for (unsigned run = 0; run < problem.runs.size(); ++run)
      if (!groups[groupOfRun[run]].reserved)
        order.push_back(run);
    auto less = [&](unsigned a, unsigned b) {
      return std::make_pair(groupOfRun[a], problem.runs[a].count) <
             std::make_pair(groupOfRun[b], problem.runs[b].count);
    };
    if (!problem.anyOrder)
      return {order};
    std::stable_sort(order.begin(), order.end(), less);
    std::vector<std::vector<unsigned>> orders;
    do {
      if (orders.size() == mostOrders) {
        isComplete = false;
        break;
      }
      orders.push_back(order);
    } while (std::next_permutation(order.begin(), order.end(), less));
    return orders;
  }

  //===-- the search ---------------------------------------------------------------------------------------===//

  /// Pipelines whose stages have the same number of devices and, on each run, of layers: they ask for few options, and
  /// the longest stage of a good one leaves out most others. Of several runs the faster ones have more layers.
  void tryEqualLayers(const std::vector<std::vector<unsigned>> &orders) {
    bool isOneRun = problem.runs.size() == 1, areShared = problem.sharesDevices;
    for (const RunGroup &group : groups)
      areShared |= group.reserved;
    if (!isOneRun && areShared)
      return;
    // Of many orders some that have little in common: the first ones differ in their last runs alone.
    size_t few = std::min<size_t>(orders.size(), mostOrdersOfEqualLayers);
    for (size_t size = mostSizes(); size-- > 0;) {
      std::vector<EqualStages> stages = equalStagesOf(size);
      for (size_t tried = 0; tried != few; ++tried) {
        const std::vector<unsigned> &order = orders[tried * orders.size() / few];
        if (std::vector<unsigned> ends = endsOf(order, stages); ends.size() > 1)
          searchEdges(makeEdges(problem, costs, std::move(ends), groups, {mostSeconds(), size, 1}), {order});
      }
    }
  }

  /// Stages of a run, and the layers that one of them takes in some time.
  struct EqualStages {
    size_t count = 0;
    double speed = 1;
  };

  /// By run, stages of the `sizeAt`-th size of its group (the last one where it has fewer). How fast devices of several
  /// runs are is told by a layer in the middle.
  std::vector<EqualStages> equalStagesOf(size_t sizeAt) {
    std::vector<EqualStages> stages(problem.runs.size());
    size_t most = mostStagesOf(problem), all = 0, middle = numUnits() / 2;
    for (size_t run = 0; run != stages.size(); ++run) {
      const DeviceRun &devices = problem.runs[run];
      if (devices.stageSizes.empty())
        continue;
      unsigned size = devices.stageSizes[std::min(sizeAt, devices.stageSizes.size() - 1)];
      if (stages.size() > 1) {
        double least = infinity;
        for (const StageOption &option : costs.options(unitAt(middle), unitAt(middle + 1), devices.kind, size))
          least = std::min(least, option.seconds());
        // What takes no time tells nothing.
        stages[run].speed = least > 0 ? 1 / least : 1;
      }
      stages[run].count = stages[run].speed > 0 ? devices.count / size : 0;
      all += stages[run].count;
    }
    for (EqualStages &own : stages)
      own.count = all > most ? own.count * most / all : own.count;
    return stages;
  }

  /// Where those stages end, in an order of runs. Devices that are too slow for a layer are left out.
  std::vector<unsigned> endsOf(const std::vector<unsigned> &order, const std::vector<EqualStages> &stages) const {
    double all = 0, before = 0;
    for (const EqualStages &own : stages)
      all += static_cast<double>(own.count) * own.speed;
    std::vector<unsigned> ends = {problem.begin()};
    for (unsigned run : order)
      for (size_t stage = 0; stage != stages[run].count; ++stage) {
        before += stages[run].speed;
        // A whole number in spite of rounding.
        auto unit = static_cast<size_t>(static_cast<double>(numUnits()) * before / all + 1e-9);
        if (unsigned end = unitAt(unit); end != ends.back())
          ends.push_back(end);
      }
    return ends;
  }

  /// What stages are made of: layers, or what is between the problem's cuts.
  size_t numUnits() const { return problem.cuts.empty() ? problem.numLayers : problem.cuts.size() - 1; }
  unsigned unitAt(size_t unit) const { return problem.cuts.empty() ? unit : problem.cuts[unit]; }

  /// The most sizes of stages that a group has.
  size_t mostSizes() const {
    size_t most = 0;
    for (const RunGroup &group : groups)
      most = std::max(most, group.stageSizes.size());
    return most;
  }

  /// Pipelines whose stages have the same number of devices: few plans, often good ones.
  void searchEqualStages(const std::vector<std::vector<unsigned>> &orders) {
    // The largest parts first: few stages, for which few intervals are asked.
    for (size_t size = mostSizes(); size-- > 0;)
      searchEdges(makeEdges(problem, costs, cuts, groups, {mostSeconds(), size}), orders);
    best.work = 0;
  }

  double searchAll(const std::vector<std::vector<unsigned>> &orders) {
    return searchEdges(makeEdges(problem, costs, cuts, groups, {mostSeconds(), std::nullopt}), orders);
  }

  /// Improves the best plan by those of some edges, whose lower bound it returns.
  double searchEdges(const StageEdges &edges, const std::vector<std::vector<unsigned>> &orders) {
    double lowerBound = infinity;
    BoundValues values(edges);
    for (const std::vector<unsigned> &order : orders) {
      // What is left is not even set up, which takes as long as a short search.
      if (best.mustEnd())
        return std::min({lowerBound, values.least(), best.seconds});
      lowerBound = std::min(lowerBound, searchBounds(problem, edges, values, order, groupOfRun, best));
    }
    return lowerBound;
  }

  /// A stage that takes longer cannot belong to a better plan: every microbatch passes it.
  double mostSeconds() const { return best.seconds / problem.fullMicrobatches(); }

  double findLeastBytes(const std::vector<std::vector<unsigned>> &orders) {
    StageEdges edges = makeEdges(problem, costs, cuts, groups, {infinity, std::nullopt, 0, true});
    double bytes = options.bytesToBeat;
    for (const std::vector<unsigned> &order : orders)
      bytes = std::min(bytes, leastBytes(problem, edges, order, groupOfRun, bytes));
    return bytes < options.bytesToBeat ? bytes : 0;
  }

  //===-- the plan -----------------------------------------------------------------------------------------===//

  void fill(StagePlan &plan) {
    for (const PlannedStage &stage : best.stages)
      plan.stages.push_back({stage.first, stage.last, stage.run, 0, stage.devices, stage.option, 1});
    placeInRuns(plan.stages);
    plan.seconds = stepSeconds(problem, costs, plan.stages);
  }

  /// The largest stages first, so that stages of whole hosts, and even parts of hosts, lie where hosts begin; equal
  /// ones in the order of the pipeline. What is shared is the first devices.
  void placeInRuns(std::vector<Stage> &stages) const {
    std::vector<Stage *> bySize;
    bySize.reserve(stages.size());
    for (Stage &stage : stages)
      bySize.push_back(&stage);
    std::stable_sort(bySize.begin(), bySize.end(),
                     [](const Stage *a, const Stage *b) { return a->devices > b->devices; });
    std::vector<unsigned> used(problem.runs.size(), 0);
    for (Stage *stage : bySize) {
      stage->firstDevice = used[stage->run];
      if (!problem.sharesDevices)
        used[stage->run] += stage->devices;
    }
  }

  const StageProblem &problem;
  StageCosts &costs;
  const SearchOptions &options;
  std::vector<unsigned> groupOfRun;
  std::vector<RunGroup> groups;
  bool isComplete = true;
  std::vector<unsigned> cuts;
  Incumbent best;
};

} // namespace

static bool hasMemory(const StageProblem &problem, const StagePlan &plan) {
  return std::all_of(plan.stages.begin(), plan.stages.end(),
                     [&](const Stage &stage) { return stage.bytes() <= problem.runs[stage.run].memory; });
}

/// With so many stages all numbers of them are tried.
static constexpr unsigned mostStagesTried = 16;

/// 1, 2, 3, ...; above `mostStagesTried` powers of two and three times them, and the last.
static std::vector<unsigned> numbersOfStages(unsigned most) {
  std::vector<unsigned> numbers;
  for (unsigned number = 1; number < most; ++number)
    if (most <= mostStagesTried || std::has_single_bit(number) || (number % 3 == 0 && std::has_single_bit(number / 3)))
      numbers.push_back(number);
  numbers.push_back(most);
  return numbers;
}

StagePlan searchStages(const StageProblem &problem, StageCosts &costs, const SearchOptions &options) {
  StagePlan plan = StageSearch(problem, costs, options).run();
  // Where not even less memory would do, only the bytes that would are of interest.
  bool isDone = plan.isFeasible() ? hasMemory(problem, plan) : plan.leastBytes == 0;
  if (!problem.schedule->dependsOnEarlierStages || problem.numStages || isDone)
    return plan;
  StagePlan best;
  best.lowerBound = infinity;
  best.leastBytes = infinity;
  unsigned most = mostStagesOf(problem);
  SearchOptions rest = options;
  unsigned before = 0;
  for (unsigned number : numbersOfStages(most)) {
    StageProblem part = problem;
    part.mostStages = number;
    // What a plan keeps grows with its stages: those of numbers that are not tried keep more than this.
    if (options.boundsOnly)
      part.fewestStages = before + 1;
    before = number;
    StagePlan found = StageSearch(part, costs, rest).run();
    best.lowerBound = std::min(best.lowerBound, found.lowerBound);
    if (found.leastBytes > 0)
      best.leastBytes = rest.bytesToBeat = found.leastBytes;
    if (found.seconds < best.seconds) {
      best.stages = std::move(found.stages);
      best.seconds = rest.secondsToBeat = found.seconds;
    }
  }
  if (most > mostStagesTried && !options.boundsOnly)
    best.lowerBound = plan.lowerBound;
  best.lowerBound = std::min(std::max(best.lowerBound, plan.lowerBound), best.seconds);
  if (best.isFeasible() || best.leastBytes == infinity)
    best.leastBytes = 0;
  return best;
}

} // namespace cleave::stages
