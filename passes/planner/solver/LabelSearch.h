// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Closes the gap that a multiplier leaves: label setting over variables in reverse order of elimination, with the
// tables of elimination as bounds.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_LABELSEARCH_H
#define CLEAVE_PASSES_PLANNER_SOLVER_LABELSEARCH_H

#include "passes/planner/solver/BucketTree.h"

#include <functional>

namespace cleave::solver {

/// The trees of one layout, by what they minimise.
struct SearchTrees {
  const BucketTree &seconds, &bytes;
  /// seconds + secondsPerByte * bytes.
  const BucketTree &weighted;
  double secondsPerByte = 0;
};

struct LabelSearchOptions {
  double memoryLimit = forbidden;
  /// Only choices that take less seconds are looked for.
  double upperBound = forbidden;
  /// Labels kept after each variable, those with the least bounds.
  size_t mostLabels = 4096;
  /// Asked now and then; the search ends when it says so.
  std::function<bool()> isOutOfTime = [] { return false; };
};

struct LabelSearchResult {
  /// As the reduction counts them; empty where nothing better than the upper bound was found.
  std::vector<unsigned> choices;
  /// No choices take less, except those with seconds of the upper bound or more.
  double lowerBound = 0;
};

/// A label is a choice for some variables; it is dominated by one that chooses the same for all variables that others
/// still depend on and needs no more seconds and bytes. Exact where no label is left out: then lowerBound is the
/// upper bound or the seconds of what was found.
LabelSearchResult searchLabels(const ChoiceProblem &problem, const SearchTrees &trees,
                               const LabelSearchOptions &options);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_LABELSEARCH_H
