// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random stage problems, and the search that tries everything.

#include "RandomStages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cleave::stages {

using pipeline::findSchedule;
using pipeline::Schedule;

//===-- random problems ---------------------------------------------------------------------------------------===//

namespace {

class ProblemMaker {
public:
  ProblemMaker(std::mt19937 &random, StageProblem &problem, TableCosts &costs)
      : random(random), problem(problem), costs(costs) {}

  void make(unsigned numLayers, bool isFull, bool mayHaveChunks) {
    problem.microbatches = upTo(0, 3) ? upTo(1, 12) : 1;
    const Schedule schedules[] = {*findSchedule("1f1b"),  *findSchedule("gpipe"), *findSchedule("zb-h1"),
                                  *findSchedule("zb-h2"), *findSchedule("zb-v"),  *findSchedule("dualpipe-v")};
    problem.schedule = schedules[upTo(0, 1) ? 0 : upTo(1, mayHaveChunks ? 5 : 3)];
    makeLayers(numLayers);
    problem.training = problem.microbatches > 1 || upTo(0, 1);
    problem.useAllDevices = upTo(0, 1);
    problem.anyOrder = upTo(0, 3);
    if (upTo(0, 4) == 0)
      problem.numStages = upTo(1, numLayers);
    makeRuns(isFull);
    bool hasTransfers = upTo(0, 1);
    if (upTo(0, 1))
      costs.farther = {1, real(1, 8), real(1, 8)};
    for (unsigned layer = 0; layer <= at(numLayers); ++layer)
      costs.transfers.push_back(hasTransfers ? real(0, 2) : 0);
    bool hasSteps = upTo(0, 1);
    if (upTo(0, 2) == 0)
      mostSlowdown = real(1, 4);
    for (unsigned kind = 0; kind < 2; ++kind)
      for (unsigned devices = 1; devices <= 8; ++devices)
        for (unsigned first = 0; first < numLayers; ++first)
          for (unsigned last = first + 1; last <= numLayers; ++last)
            costs.table[{at(first), at(last), kind, devices}] = makeOptions(last - first, kind, devices, hasSteps);
  }

private:
  unsigned upTo(unsigned low, unsigned high) { return std::uniform_int_distribution<unsigned>(low, high)(random); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); }

  /// With two chunks stages have two layers for each; the first one of a V has the last layer in front, on the ring.
  void makeLayers(unsigned number) {
    problem.numLayers = number;
    if (!problem.schedule.hasChunks())
      return;
    problem.chunks = 2;
    problem.numLayers = 2 * number;
    for (unsigned index = 0; index <= number; ++index)
      problem.cuts.push_back(2 * (number + index) - 1);
  }
  unsigned at(unsigned cut) const { return problem.cuts.empty() ? cut : problem.cuts[cut]; }

  void makeRuns(bool isFull) {
    unsigned numRuns = upTo(1, 3), left = 8;
    double memory = upTo(0, 1) ? real(20, 120) : std::numeric_limits<double>::infinity();
    for (unsigned i = 0; i < numRuns && left > 0; ++i) {
      DeviceRun run;
      run.count = i + 1 == numRuns ? (isFull ? left : upTo(1, left)) : upTo(1, std::min(left, 4u));
      run.kind = upTo(0, 1);
      run.memory = run.kind == 0 ? memory : memory * 1.5;
      run.hostSize = upTo(1, 4);
      for (unsigned size = 1; size <= run.count; size = upTo(0, 3) ? size * 2 : size + 1)
        if (size > 1 || upTo(0, 3))
          run.stageSizes.push_back(size);
      left -= run.count;
      problem.runs.push_back(run);
    }
  }

  std::vector<StageOption> makeOptions(unsigned layers, unsigned kind, unsigned devices, bool hasSteps) {
    std::vector<StageOption> options(upTo(0, 9) ? upTo(1, 3) : 0);
    uint32_t id = 0;
    for (StageOption &option : options) {
      double work = layers * real(2, 6) / (kind ? 1.5 : 1) / std::pow(devices, real(0.5, 1));
      double saved = real(0.3, 1);
      option.forward = work / 3;
      option.backward = work * (1 - saved / 3);
      option.backwardWeight = option.backward * real(0.3, 0.5);
      option.perStep = hasSteps ? real(0, 8) : 0;
      option.fixedBytes = layers * real(2, 10) / devices;
      option.microbatchBytes = layers * saved * 8 / devices;
      option.id = id++;
      option.steadySlowdown = real(1, mostSlowdown);
    }
    return options;
  }

  std::mt19937 &random;
  StageProblem &problem;
  TableCosts &costs;
  double mostSlowdown = 1; ///< Of stages while others are busy.
};

} // namespace

void makeRandomProblem(std::mt19937 &random, unsigned numLayers, bool isFull, StageProblem &problem, TableCosts &costs,
                       bool mayHaveChunks) {
  ProblemMaker(random, problem, costs).make(numLayers, isFull, mayHaveChunks);
}

void reserveRuns(std::mt19937 &random, StageProblem &problem, TableCosts &costs) {
  auto upTo = [&](unsigned low, unsigned high) { return std::uniform_int_distribution<unsigned>(low, high)(random); };
  if (upTo(0, 9) == 0)
    problem.runs.clear();
  unsigned from = 0;
  for (unsigned kind = 2; kind < 2 + upTo(1, 2) && from < problem.numLayers; ++kind) {
    unsigned first = upTo(from, problem.numLayers - 1), last = upTo(first + 1, problem.numLayers), devices = upTo(1, 3);
    from = last;
    double memory = upTo(0, 1) ? upTo(20, 150) : std::numeric_limits<double>::infinity();
    problem.runs.push_back({devices, kind, memory, {devices}, true});
    // What other kinds, and those reserved before, have for layers in the range is no longer theirs; the new run has
    // options where all of it is, and nothing that belongs elsewhere.
    for (auto &[key, options] : costs.table) {
      auto [begin, end, otherKind, count] = key;
      if (begin < last && end > first)
        options.clear();
    }
    for (unsigned begin = 0; begin <= first; ++begin)
      for (unsigned end = last; end <= problem.numLayers; ++end) {
        bool isElsewhere = false;
        for (const auto &[low, high] : costs.reserved)
          isElsewhere |= begin < high && end > low;
        if (!isElsewhere)
          costs.table[{begin, end, kind, devices}] = {
              {1.0 + upTo(0, 8), 1.0 + upTo(0, 8), upTo(0, 3) * 1.0, upTo(1, 30) * 1.0, upTo(0, 20) * 1.0, 0.5, 0},
              {2.0 + upTo(0, 8), 1.0 + upTo(0, 8), 0, upTo(1, 20) * 1.0, upTo(0, 10) * 1.0, 0.25, 1}};
      }
    costs.reserved.emplace_back(first, last);
  }
}

//===-- every plan --------------------------------------------------------------------------------------------===//

namespace {

class PlanTrier {
public:
  PlanTrier(const StageProblem &problem, StageCosts &costs) : problem(problem), costs(costs), cuts(problem.cuts) {
    for (unsigned layer = 0; problem.cuts.empty() && layer <= problem.numLayers; ++layer)
      cuts.push_back(layer);
  }

  EveryPlan run() {
    std::vector<unsigned> order;
    for (unsigned run = 0; run < problem.runs.size(); ++run)
      if (!problem.runs[run].reserved && !problem.sharesDevices)
        order.push_back(run);
    do
      extend(order, 0, order.empty() ? 0 : problem.runs[order[0]].count, 0, false);
    while (problem.anyOrder && std::next_permutation(order.begin(), order.end()));
    return best;
  }

private:
  /// Adds a stage that begins at a cut, on the devices that are left of a run, in all ways.
  void extend(const std::vector<unsigned> &order, unsigned at, unsigned left, unsigned cut, bool hasIdle) {
    if (cut + 1 == cuts.size()) {
      bool allUsed = !hasIdle && left == 0 && at + 1 >= order.size();
      finish(allUsed);
      return;
    }
    if (at + 1 < order.size())
      extend(order, at + 1, problem.runs[order[at + 1]].count, cut, hasIdle || left > 0);
    for (unsigned index = 0; index < problem.runs.size(); ++index)
      if (problem.sharesDevices || problem.runs[index].reserved)
        for (unsigned devices : problem.runs[index].stageSizes)
          for (unsigned last = cut + 1; last != cuts.size(); ++last)
            for (const StageOption &option : costs.options(cuts[cut], cuts[last], problem.runs[index].kind, devices)) {
              chosen.push_back({cuts[cut], cuts[last], index, 0, devices, option, 1});
              extend(order, at, left, last, hasIdle);
              chosen.pop_back();
            }
    if (at >= order.size())
      return;
    const DeviceRun &run = problem.runs[order[at]];
    for (unsigned devices : run.stageSizes)
      for (unsigned last = cut + 1; devices <= left && last != cuts.size(); ++last)
        for (const StageOption &option : costs.options(cuts[cut], cuts[last], run.kind, devices)) {
          chosen.push_back({cuts[cut], cuts[last], order[at], 0, devices, option, 1});
          extend(order, at, left - devices, last, hasIdle);
          chosen.pop_back();
        }
  }

  void finish(bool allUsed) {
    unsigned stages = chosen.size();
    // One stage has no use for chunks.
    if ((problem.numStages && *problem.numStages != stages) || stages > mostStages() ||
        (stages == 1 && problem.chunks > 1))
      return;
    double sum = 0, longest = 0, perStep = 0, fullest = 0;
    bool fits = true;
    for (unsigned i = 0; i < stages; ++i) {
      const Stage &stage = chosen[i];
      double kept = std::min<double>(keptOf(stages, stages - i), problem.microbatches);
      double bytes = stage.option.fixedBytes + kept * stage.option.microbatchBytes;
      double seconds = stage.option.forward + stage.option.backward;
      double filling = fillingOf(stage.option);
      unsigned before = 0;
      for (unsigned j = 0; j != i; ++j)
        before += chosen[j].run == stage.run ? chosen[j].devices : 0;
      const DeviceRun &run = problem.runs[stage.run];
      Hop hop = problem.sharesDevices || run.reserved || before == 0 ? Hop::BetweenRuns
                : before % run.hostSize == 0                         ? Hop::BetweenHosts
                                                                     : Hop::WithinHost;
      double oneWay = i == 0 ? 0 : problem.chunks * costs.transferSeconds(stage.first, run.kind, stage.devices, hop);
      double transfers = oneWay * (problem.training ? 2 : 1);
      sum += filling + transfers;
      longest = std::max({longest, stage.option.steadySlowdown * (problem.microbatches * seconds - filling),
                          problem.microbatches * oneWay - transfers});
      perStep = std::max(perStep, stage.option.perStep);
      fullest = std::max(fullest, bytes);
      fits &= bytes <= problem.runs[stage.run].memory;
    }
    best.leastBytes = std::min(best.leastBytes, fullest);
    if (fits && (allUsed || !problem.useAllDevices))
      best.seconds = std::min(best.seconds, sum + longest + perStep);
  }

  /// The table of schedules: idle (p - 1)(F + B + W), less 2 W or 3 W, or in a V of two chunks what the longer of F and
  /// B takes more than W, and half of what they differ at least, or what it takes more than half of W, and half of it
  /// at least; microbatches kept by a stage with so many left, itself included: with zero bubbles as many as by the
  /// first one.
  double fillingOf(const StageOption &option) const {
    double forward = option.forward, weights = option.backwardWeight, input = option.backward - weights;
    if (problem.schedule == *findSchedule("zb-v"))
      return std::max(std::max(forward, input) - weights, std::abs(forward - input) / 2);
    if (problem.schedule == *findSchedule("dualpipe-v"))
      return std::max(std::max(forward, input) - weights / 2, std::max(forward, input) / 2);
    return std::max(forward + option.backward - gapsFilled() * weights, 0.0);
  }
  double gapsFilled() const {
    return problem.schedule == *findSchedule("zb-h1") ? 2 : problem.schedule == *findSchedule("zb-h2") ? 3 : 0;
  }
  /// With fewer microbatches the pipeline is never full, and these formulas do not hold.
  unsigned mostStages() const {
    if (problem.schedule == *findSchedule("dualpipe-v"))
      return std::max(problem.microbatches / 2, 1u);
    return problem.schedule == *findSchedule("zb-h1") ? problem.microbatches
           : problem.schedule == *findSchedule("zb-h2") || problem.schedule == *findSchedule("zb-v")
               ? (problem.microbatches + 1) / 2
               : problem.numLayers;
  }
  double keptOf(unsigned stages, unsigned left) const {
    // Of two chunks one more.
    if (problem.schedule == *findSchedule("dualpipe-v"))
      return stages + 0.5;
    return problem.schedule == *findSchedule("gpipe")   ? problem.microbatches
           : problem.schedule == *findSchedule("zb-h2") ? 2 * stages - 1
           : problem.schedule == *findSchedule("zb-h1") || problem.schedule == *findSchedule("zb-v") ? stages
                                                                                                     : left;
  }

  const StageProblem &problem;
  StageCosts &costs;
  std::vector<unsigned> cuts;
  std::vector<Stage> chosen;
  EveryPlan best;
};

} // namespace

EveryPlan tryEveryPlan(const StageProblem &problem, StageCosts &costs) { return PlanTrier(problem, costs).run(); }

} // namespace cleave::stages
