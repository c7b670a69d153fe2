// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The best splits of operators whose meshes somebody fixed: each mesh by itself, exactly, what somebody said about
// single operators being kept.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_SPLITSEARCH_H
#define CLEAVE_PASSES_PLANNER_SEARCH_SPLITSEARCH_H

#include "passes/planner/MeshSpec.h"
#include "passes/planner/search/Piece.h"
#include "passes/planner/solver/Solve.h"

namespace cleave::search {

/// By operator of the graph and axis of its mesh: the factor that is cut, or none.
using SplitsOfGraph = std::vector<std::array<unsigned, mostAxes>>;

/// By operator: of the first product of attention over cut queries and keys how these come.
using KeysOfGraph = std::vector<std::optional<dist::KeyExchange>>;

struct FoundSplits {
  SplitsOfGraph splits;
  KeysOfGraph keys;
};

/// Splits the operators for inference so that a step takes least. `meshes` holds each operator's. Nothing where no
/// splits satisfy `fixed`, or a mesh has more than mostAxes axes.
std::optional<FoundSplits> findSplits(const SearchGraph &graph, const Machine &machine,
                                      llvm::ArrayRef<const MeshSpec *> meshes, const FixedFactors &fixed, Keys keys,
                                      const solver::SolveOptions &options);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_SPLITSEARCH_H
