// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans for devices of unlike speed, each with a part of the batch in proportion to what it can do.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_SHARES_H
#define CLEAVE_PASSES_PLANNER_SEARCH_SHARES_H

#include "passes/planner/search/Search.h"

namespace cleave::search {

/// Devices that compute equally fast, as coordinates along an axis, and what they do together.
struct ShareGroup {
  int64_t coordinates = 1;
  double speed = 1;    ///< Of one of them, in any unit.
  int64_t samples = 0; ///< Of all of them together.
};

/// Divides samples so that the last to be done is done as early as possible, where a group's coordinates take whole
/// samples: the largest of ceil(samples / coordinates) / speed is least. Greedy, which is optimal: what is next goes to
/// the group that is done with it first. Returns that largest value.
double divideSamples(llvm::MutableArrayRef<ShareGroup> groups, int64_t samples);

/// The same, each group taking at least a sample for each of its coordinates and a multiple of their number: blocks of
/// a group are equal then, also those of dimensions into which the batch is merged, and nothing is exchanged for these.
/// Nothing where no division is like that.
std::optional<double> divideEvenly(llvm::MutableArrayRef<ShareGroup> groups, int64_t samples);

/// The best plan of one stage whose batch all devices of the machine share in proportion to their speed (and, where the
/// kinds have as many devices, whose layers groups of equal devices share). Nothing where devices are alike, where the
/// request fixes anything about devices or splits, or no such plan fits.
///
/// Speeds are those with which devices of one kind alone would run the model in equal parts, and then in the parts that
/// follow from them, until these take equally long; what does not shrink with a part, as reading weights, counts so.
/// What is exchanged is costed as on equal devices of the mean speed.
std::optional<FoundPlan> findShares(const SearchGraph &graph, const Machine &machine, const SearchRequest &request);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_SHARES_H
