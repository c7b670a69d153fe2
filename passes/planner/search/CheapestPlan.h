// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan whose step costs least by the prices of the devices that it uses, instead of taking least time.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H
#define CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H

#include "passes/planner/search/Search.h"

namespace cleave::search {

/// Some of a machine's devices as a machine of their own.
struct PartOfMachine {
  Machine machine;
  std::vector<unsigned> devices; ///< By device of the part: its number in the whole.
  std::string name;              ///< "2 x 8 v100 + 4 a100"
};

/// The sets of devices that are tried: of each entry of `hosts` none, one, two, four, … or all of its hosts; and of one
/// host alone one, two, four, … of its devices. Cheaper sets come first.
std::vector<PartOfMachine> partsOf(const Machine &machine);

/// On a given set of devices, all of which are paid for, the fastest plan is the cheapest one. So it is searched on one
/// set after the other, and of the plans whose step takes at most `request.mostSeconds` the cheapest is taken. A set
/// is left out where not even its devices' peaks would make it cheaper than the best one so far, or fast enough; of the
/// others the cheapest 64 are searched.
/// Failures as findPlan's; Status::Usage where a device has no price.
std::variant<FoundPlan, SearchFailure> findCheapestPlan(const SearchGraph &graph, const Machine &machine,
                                                        const SearchRequest &request);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H
