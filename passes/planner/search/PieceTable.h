// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A piece on a grid: the least cost by the states of the tensors at its ends, for any weights.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_PIECETABLE_H
#define CLEAVE_PASSES_PLANNER_SEARCH_PIECETABLE_H

#include "passes/planner/search/Piece.h"
#include "passes/planner/search/Weights.h"
#include "passes/planner/solver/Elimination.h"
#include "passes/planner/solver/SharedLayouts.h"

#include <array>
#include <map>
#include <memory>

namespace cleave::search {

/// A piece in a setting.
class PieceTable {
public:
  /// `layouts` must outlive it.
  PieceTable(std::unique_ptr<Piece> piece, solver::SharedLayouts &layouts);

  /// The best choices under some weights.
  struct Solved {
    Weights weights;
    std::optional<solver::Elimination> elimination;
    std::map<std::pair<unsigned, unsigned>, Sums> sums;
    /// Where the piece may get activations in any way: by entry of the values the least ones of all ways, and whose.
    std::array<Solved *, std::size(everyRecompute)> ways = {};
    std::vector<double> leastOfWays;
    std::vector<Recompute> bestWays;

    bool hasWays() const { return ways.front() != nullptr; }
    /// By states at the entry and, varying faster, at the exit; null where there are no choices.
    const std::vector<double> *values() const {
      return hasWays() ? &leastOfWays : elimination ? &elimination->values() : nullptr;
    }
  };
  /// Of what is asked for again nothing is solved twice.
  Solved &solve(const Weights &weights);
  /// Elimination::values of each of a bundle's weights.
  std::vector<double> valuesUnder(const WeightBundle &bundle, std::vector<double> &memory);
  /// The piece's problem with the seconds that weights count, and no bytes.
  solver::ChoiceProblem weighted(const Weights &weights) const;
  /// Bytes of the operator whose least transient is the largest.
  double leastTransient();
  /// The best choices, by variable of the piece, with these states at its ends.
  std::vector<unsigned> choicesAt(const Weights &weights, unsigned entry, unsigned exit);
  /// What the best choices amount to.
  const Sums &sumsAt(Solved &solved, unsigned entry, unsigned exit);
  /// How the piece gets activations where it may do so in any way.
  Recompute wayAt(const Solved &solved, unsigned entry, unsigned exit) const {
    return solved.bestWays[static_cast<size_t>(entry) * exits + exit];
  }
  /// Bytes of the tensor with which the piece begins.
  /// What a stage does beside its operators at such a state of the end where it begins or ends.
  Sums entryAt(unsigned entry) const { return piece->entryVariable == none ? Sums() : piece->entryOf(entry); }
  Sums exitAt(unsigned exit) const { return piece->exitVariable == none ? Sums() : piece->exitOf(exit); }
  double entryBytesAt(unsigned entry) const { return piece->entryBytes.empty() ? 0 : piece->entryBytes[entry]; }

  std::unique_ptr<Piece> piece;
  unsigned entries = 1, exits = 1; ///< States of the tensors at its ends; one where there is none.
  /// By state at the ends, also where the piece has none: what a stage takes that begins or ends there.
  std::vector<double> entrySeconds, exitSeconds;

private:
  /// Whether tables for all weights have one plan.
  bool hasPlan();
  /// Each way to get activations by itself, and the best of them.
  void solveWays(Solved &made);
  /// By variable of the piece and choice: its seconds with all that weights count, memory included.
  std::vector<std::vector<double>> secondsUnder(const Weights &weights) const;
  /// What weights price of a choice.
  struct Priced {
    const solver::Choice *cost;
    const Sums *sums;
    bool gathersKeys;
    double joining, update;                ///< Seconds: a step's for gradients, a microbatch's for the optimizer.
    double updateShared;                   ///< What the optimizer takes at least where replicas share its state.
    double checkpoint;                     ///< Bytes of what is kept for computing again.
    double againSelective, againFull;      ///< Seconds of computing again.
    double stateBytes[4], stateSeconds[4]; ///< By level of sharing.
  };
  Priced pricedOf(unsigned variable, unsigned choice) const;
  double secondsUnder(const Weights &weights, const Priced &priced) const;
  /// The least that keeping, recomputing and sharing costs beside a choice's seconds. The optimizer's are counted there
  /// as those of a device that shares nothing.
  double cheapestKeeping(const Priced &priced, const Weights &weights) const;
  /// What sharing adds to a microbatch at least: gathering parameters in both passes, and for all but the last
  /// microbatch, half of joining gradients. S seconds of it beside B of computation that hides them take
  /// max(S, B + h min(S, B)), which is no less than B + h / (1 + h) S.
  double sharingSeconds(const Sums &sums, unsigned zero) const;
  /// The states at the ends as choices of the variables that are kept.
  std::vector<unsigned> keptChoices(unsigned entry, unsigned exit) const;

  /// A piece with larger tables is made smaller for each weights.
  static constexpr uint64_t mostPlannedEntries = 1u << 20;

  solver::SharedLayouts &layouts;
  std::optional<solver::EliminationPlan> plan;
  bool isPlanned = false;
  std::vector<unsigned> kept;
  double transient = -1; ///< Negative until it is asked for.
  std::vector<std::unique_ptr<Solved>> solved;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_PIECETABLE_H
