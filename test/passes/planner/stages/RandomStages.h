// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stage problems for tests: random tables, and all plans of a small problem one by one.

#ifndef CLEAVE_TEST_PASSES_PLANNER_STAGES_RANDOMSTAGES_H
#define CLEAVE_TEST_PASSES_PLANNER_STAGES_RANDOMSTAGES_H

#include "passes/planner/stages/StageSearch.h"

#include <map>
#include <random>
#include <tuple>

namespace cleave::stages {

/// Options by interval, kind and devices, given in advance.
class TableCosts : public StageCosts {
public:
  std::map<std::tuple<unsigned, unsigned, unsigned, unsigned>, std::vector<StageOption>> table;
  std::vector<double> transfers;
  std::array<double, numHops> farther = {1, 1, 1}; ///< How many times as long they take, by Hop.
  std::map<std::pair<unsigned, unsigned>, uint64_t> classes;
  bool grows = false;
  /// Layers that belong to reserved runs.
  std::vector<std::pair<unsigned, unsigned>> reserved;

  const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned devices) override {
    ++asked;
    return table[{first, last, kind, devices}];
  }
  uint64_t classOf(unsigned first, unsigned last) override {
    auto found = classes.find({first, last});
    return found == classes.end() ? first * 1000 + last : found->second;
  }
  double transferSeconds(unsigned at, unsigned /*kind*/, unsigned /*devices*/, Hop hop) override {
    return transfers.empty() ? 0 : transfers[at] * farther[unsigned(hop)];
  }
  bool growsWithLayers() const override { return grows; }

  unsigned asked = 0;
};

/// A problem of `numLayers` layers and at most 8 devices of one or two kinds, all 8 where `isFull`, and its tables:
/// several options an interval that trade time for memory, some intervals without any, limits that bind in some of the
/// problems. Where schedules may have chunks, some have twice as many layers, which lie on a ring.
void makeRandomProblem(std::mt19937 &random, unsigned numLayers, bool isFull, StageProblem &problem, TableCosts &costs,
                       bool mayHaveChunks = false);

/// Gives one or two separate ranges of layers reserved runs of their own, at the end of the problem's runs; now and
/// then no other devices are left.
void reserveRuns(std::mt19937 &random, StageProblem &problem, TableCosts &costs);

/// What trying every plan finds.
struct EveryPlan {
  double seconds = std::numeric_limits<double>::infinity();
  double leastBytes = std::numeric_limits<double>::infinity();
};
EveryPlan tryEveryPlan(const StageProblem &problem, StageCosts &costs);

} // namespace cleave::stages

#endif // CLEAVE_TEST_PASSES_PLANNER_STAGES_RANDOMSTAGES_H
