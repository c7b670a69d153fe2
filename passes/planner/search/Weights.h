// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What counts how much where the best choices of layers are looked for.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_WEIGHTS_H
#define CLEAVE_PASSES_PLANNER_SEARCH_WEIGHTS_H

#include "passes/planner/search/Keeping.h"
#include "passes/planner/solver/LaneSum.h"

#include <algorithm>
#include <array>

namespace cleave::search {

/// What the choices of an interval are best for: seconds of a microbatch, plus these.
struct Weights {
  double reduction = 0;      ///< For each second of joining gradients.
  double secondsPerByte = 0; ///< For each byte of a device's memory.
  /// As `reduction`, where that is less, in the piece with which a stage begins: what joins its gradients comes last,
  /// when no backward pass is left to hide it.
  double reductionAtStart = 0;
  /// What a second of gradients of weights saves: schedules that delay them fill idle time with them.
  double delayed = 0;
  /// A relaxation, for bounds: whatever is fixed here, each operator computes its activations again, and each
  /// parameter's replicas share its state, just where that is worth it at the price of a byte. No stage's keeping costs
  /// less.
  std::optional<FixedKeeping> relaxed = std::nullopt;
  /// What a second of the optimizer counts, as a part of what it takes for each microbatch.
  double optimizer = 1;
  double forward = 0; ///< Added for each second of operators' forward pass.
  /// Where keeping is relaxed: the microbatches whose activations a device keeps.
  double inFlight = 1;
  /// Where keeping is relaxed: what computes again keeps the tensors with which pieces begin. Not so where nothing else
  /// may be done and keeping all takes less.
  bool checkpoints = false;
  /// Keys and values of attention that can go around do so, whatever time it takes.
  bool ringsOnly = false;
  /// Where keeping is relaxed, and how activations are got is open: each piece does it in one way for all its
  /// operators, the best one for it, instead of each operator for itself. Not for bundles.
  bool byPiece = false;
  bool operator==(const Weights &) const = default;

  /// What counts in one piece.
  Weights ofPiece(bool isFirst) const {
    Weights own = *this;
    own.reduction = isFirst ? std::max(reduction, reductionAtStart) : reduction;
    own.reductionAtStart = 0;
    return own;
  }
};

/// Weights that are asked for together.
using WeightBundle = std::array<Weights, solver::numLanes>;

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_WEIGHTS_H
