// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts of problems that differ in their numbers alone: the same variables, edges and forbidden choices, as a piece
// of a model has with other sizes of microbatches, or on other numbers of devices. The order of elimination and the
// tables follow from these, so that they are found once for all of them.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_SHAREDLAYOUTS_H
#define CLEAVE_PASSES_PLANNER_SOLVER_SHAREDLAYOUTS_H

#include "passes/planner/solver/BucketLanes.h"

#include <optional>
#include <string>
#include <unordered_map>

namespace cleave::solver {

class SharedLayouts {
public:
  /// A problem as its layout and its numbers.
  struct Match {
    std::shared_ptr<const BucketLanes> lanes;
    std::shared_ptr<const PairNumbers> numbers;
  };
  /// Without regard to what choices cost (Drop::Forbidden); nothing where the tables would have more than `mostEntries`
  /// entries, which is the same in all calls.
  std::optional<Match> find(const ChoiceProblem &problem, const std::vector<unsigned> &kept, uint64_t mostEntries);

private:
  /// By form of the problem. Problems of one form differ in which edges depend on one side alone.
  std::unordered_map<std::string, std::vector<std::shared_ptr<const BucketLanes>>> known;
};

/// The numbers of a problem of the layout's form; nothing where other edges than the layout's depend on one side alone.
std::shared_ptr<const PairNumbers> pairNumbersOf(const ChoiceProblem &problem, const BucketLayout &layout);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_SHAREDLAYOUTS_H
