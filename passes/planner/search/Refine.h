// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The splits of one stage once more, when its devices, its schedule and the way that it gets activations are known: all
// its pieces as one problem under the memory that there is, solved by any method. The search across stages sees splits
// only as they are best for a few prices of memory; what is between these prices is found here.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_REFINE_H
#define CLEAVE_PASSES_PLANNER_SEARCH_REFINE_H

#include "passes/planner/search/Recomputing.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/stages/StageSearch.h"

#include <functional>

namespace cleave::search {

/// By piece, the choices of its variables.
using PieceChoices = std::vector<std::vector<unsigned>>;

/// What choices of pieces in a row, each but the last ending at the tensor at which the next one begins, amount to.
IntervalSums sumsOf(const std::vector<const Piece *> &pieces, const PieceChoices &choices);
/// Each by itself, without what joins the gradient with which the first one begins.
std::vector<IntervalSums> sumsByPiece(const std::vector<const Piece *> &pieces, const PieceChoices &choices);

struct RefineRequest {
  /// In a row, as Intervals gives them.
  std::vector<const Piece *> pieces;
  /// The splits so far, within the limit.
  PieceChoices choices;
  /// What the stage costs with given sums, and with what its pieces compute again.
  std::function<stages::StageOption(const IntervalSums &, const Recomputation &)> optionOf;
  /// By piece.
  std::vector<Recompute> recompute;
  /// What a second of joining gradients is worth.
  Weights weights;
  double microbatches = 1;
  double inFlight = 1;
  double memoryLimit = 0; ///< Bytes of a device.
  solver::SolveOptions solver;
};

struct Refined {
  /// Empty where nothing was found within the limit (or the time), so that the splits so far stay.
  PieceChoices choices;
  IntervalSums sums;
  Recomputation again;
  /// The problem was too large for the method; `combinations` says how large.
  bool isTooLarge = false;
  double combinations = 0;
};

/// The most combinations that Method::Exhaustive looks at.
inline constexpr double mostCombinations = 1e8;

/// The fastest splits within the limit, transients counted, unless it takes too many ranges of those to find them.
Refined refine(const RefineRequest &request);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_REFINE_H
