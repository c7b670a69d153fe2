// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a graph can be cut into stages. Private to the reading of graphs.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_STAGEBOUNDARIES_H
#define CLEAVE_PASSES_PLANNER_SEARCH_STAGEBOUNDARIES_H

#include "passes/planner/search/SearchGraph.h"

namespace cleave::search {

/// Finds the boundaries of a graph of which all else is known, at most `mostBoundaries` but for those at the ends of
/// pins. With `wholeLayers` none is inside of the layers that the graph repeats.
void findBoundaries(SearchGraph &graph, unsigned mostBoundaries, bool wholeLayers);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_STAGEBOUNDARIES_H
