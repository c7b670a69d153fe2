// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exact minimisation by variable elimination (bucket elimination: Dechter 1999, "Bucket elimination: a unifying
// framework for reasoning"; nonserial dynamic programming: Bertelè, Brioschi 1972) in min-fill order. A variable is
// removed by writing down, for all choices of its neighbours, its best choice and cost. The cost is the sum of
// k^(w + 1) for k choices and width w, and models are nearly chains.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATION_H
#define CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATION_H

#include "passes/planner/solver/ChoiceProblem.h"
#include "passes/planner/solver/LaneSum.h"

#include <memory>
#include <optional>

namespace cleave::solver {

struct EliminationOptions {
  /// Seconds that a byte costs, added to every choice: the multiplier of the memory limit.
  double secondsPerByte = 0;
  /// The most entries that all tables may have; an elimination that needs more is not begun.
  uint64_t mostEntries = 1u << 26;
};

class BucketLanes;
struct PairNumbers;
class SharedLayouts;
class Elimination;

/// An elimination whose order and tables are found once, for a problem whose choices have several costs.
class EliminationPlan {
public:
  /// Nothing where the tables would have more than `mostEntries` entries. What choices of the problem cost does not
  /// matter, but for those that are forbidden. `layouts`: of other problems, all with the same `mostEntries`.
  static std::optional<EliminationPlan> make(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                             uint64_t mostEntries, SharedLayouts &layouts);
  /// Minimises the sum of the pairs' seconds and of these, by variable and choice.
  Elimination run(const std::vector<std::vector<double>> &seconds) const;
  /// Elimination::values of `numLanes` such sums at once: `seconds`, by variable and choice, and the values, by entry,
  /// have a number for each. `memory` is to work in, of any contents.
  std::vector<double> valuesOf(const std::vector<std::vector<double>> &seconds, std::vector<double> &memory) const;

private:
  std::shared_ptr<const BucketLanes> lanes;
  std::shared_ptr<const PairNumbers> numbers;
};

/// All variables but `kept` (at most three) eliminated: what the best choices of the others cost, for all choices of
/// the kept ones.
class Elimination {
public:
  /// Nothing where the width is too large for `options.mostEntries`.
  static std::optional<Elimination> run(const ChoiceProblem &problem, const std::vector<unsigned> &kept = {},
                                        const EliminationOptions &options = {});
  Elimination(Elimination &&) noexcept;
  Elimination &operator=(Elimination &&) noexcept;
  ~Elimination();

  /// Computes everything anew for another multiplier; much cheaper than `run`, since the order and the tables stay.
  void setSecondsPerByte(double secondsPerByte);

  /// The width of the order, and the entries of all tables.
  unsigned width() const;
  uint64_t numEntries() const;
  /// Of the kept variables' choices, the last one varying fastest: the least seconds + secondsPerByte * bytes, which
  /// includes the kept variables' own costs. One entry where none are kept.
  const std::vector<double> &values() const;
  /// The choices of all variables that attain values() at those of the kept ones. Of several that do, always the same;
  /// empty where the value is `forbidden`.
  std::vector<unsigned> choicesAt(const std::vector<unsigned> &kept) const;

private:
  friend class EliminationPlan;
  struct State;
  explicit Elimination(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// By variable and choice: the least seconds of all choices with this one, whatever the memory limit; `forbidden` where
/// there are none. Where tables of all choices would be too large, only undominated ones are looked at, and the others
/// count as forbidden; nothing where even these are too many.
std::optional<std::vector<std::vector<double>>> leastByChoice(const ChoiceProblem &problem,
                                                              uint64_t mostEntries = 1u << 24);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATION_H
