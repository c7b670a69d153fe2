// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan whose step costs least by the prices of the devices that it uses, instead of taking least time.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H
#define CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H

#include "passes/planner/search/Search.h"

namespace cleave::search {

/// Some of a machine's devices as a machine of their own.
struct PartOfMachine {
  std::vector<unsigned> hosts; ///< By entry of the machine's `hosts`: how many of them.
  unsigned devicesOfHost = 0;  ///< Of a single host: the number of its first devices that are taken; 0: all.
  Machine machine;
  std::vector<unsigned> devices; ///< By device of the part: its number in the whole.
  std::string name;              ///< "2 x 8 v100 + 4 a100"
};

/// The sets of devices that are tried first: of each entry of `hosts` each number of its hosts where these are at most
/// 64 sets together, otherwise none, one, two, four, … or all; and of one host alone one, two, three, … of its devices,
/// from eight on powers of two. Cheaper sets come first.
std::vector<PartOfMachine> partsOf(const Machine &machine);

/// On a given set of devices, all of which are paid for, the fastest plan is the cheapest one. So it is searched on one
/// set after the other, and of the plans whose step takes at most `request.mostSeconds` the cheapest is taken. A set
/// is left out where not even its devices' peaks would make it cheaper than the best one so far, or fast enough; of the
/// others the cheapest 64 are searched, and all devices where none of these would do. Then hosts are added to and taken
/// from the best set, a quarter of an entry's at first and one at last, while that makes it cheaper (a pattern search,
/// Hooke and Jeeves, 1961), in up to 32 further searches.
/// Failures as findPlan's; Status::Usage where a device has no price.
std::variant<FoundPlan, SearchFailure> findCheapestPlan(const SearchGraph &graph, const Machine &machine,
                                                        const SearchRequest &request);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_CHEAPESTPLAN_H
