// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of variable elimination (Dechter 1999) and, where they would be too large, of mini-bucket elimination
// (Dechter, Rish 2003): the costs that meet in a variable are then minimised in several groups, each on its own, which
// gives a lower bound.
//
//   layout     what does not depend on what is minimised: the order, and which table is computed from which
//   BucketTree the numbers for one objective, weights of seconds and bytes
//
// A table lists its variables in the order of elimination and the last one varies fastest. So the variable that is
// eliminated from it is always the slowest, and all tables that meet in it end with the same variable or lack it: the
// innermost loops run over contiguous numbers.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_BUCKETTREE_H
#define CLEAVE_PASSES_PLANNER_SOLVER_BUCKETTREE_H

#include "passes/planner/solver/Reduction.h"

#include <memory>
#include <optional>

namespace cleave::solver {

/// What is minimised: seconds * (sum of seconds) + bytes * (sum of bytes). Forbidden stays forbidden.
struct Objective {
  double seconds = 1, bytes = 0;

  double of(const Choice &choice) const;
  double ofPair(double pairSeconds) const;
};

/// A table that takes part in the elimination of a variable: at choices (x, a, b, …) of the variable and the scope of
/// its message, the entry `offset + x * strides[0] + a * strides[1] + …`.
struct BucketTerm {
  size_t offset = 0;
  /// Index of the first stride in BucketLayout::strides.
  unsigned strides = 0;
};

/// The minimum over a variable's choices of the sum of some terms, for all choices of the variables in `scope`.
struct BucketMessage {
  std::vector<unsigned> scope;
  unsigned firstTerm = 0, lastTerm = 0;
  size_t offset = 0, entries = 1;
  /// Another message has the same numbers at the same offset.
  bool isShared = false;
};

/// All that is known of a variable when it is eliminated; several messages where one would be too large.
struct Bucket {
  unsigned variable = 0;
  unsigned firstMessage = 0, lastMessage = 0;
};

/// Calls `visit` with the place in a table of every combination of digits, the last one varying fastest.
template <typename Visit> void forEachPlace(const std::vector<size_t> &sizes, const size_t *strides, Visit visit) {
  std::vector<size_t> at(sizes.size());
  size_t place = 0;
  for (size_t entry = 0;; ++entry) {
    visit(entry, place);
    size_t digit = sizes.size();
    for (; digit != 0; --digit) {
      place += strides[digit - 1];
      if (++at[digit - 1] != sizes[digit - 1])
        break;
      place -= strides[digit - 1] * sizes[digit - 1];
      at[digit - 1] = 0;
    }
    if (digit == 0)
      return;
  }
}

struct BucketLayout {
  Reduction reduction;
  std::vector<unsigned> kept;
  std::vector<Bucket> buckets; ///< In the order of elimination.
  std::vector<BucketMessage> messages;
  std::vector<BucketTerm> terms;
  std::vector<size_t> strides;
  /// Where the numbers of a variable's own costs and of oriented pairs are; the messages follow.
  struct Source {
    unsigned index = 0; ///< A variable, or one of reduction.pairs.
    bool isTransposed = false;
    size_t offset = 0;
  };
  std::vector<Source> ownCosts, pairCosts;
  size_t firstPair = 0, firstMessage = 0;
  size_t entries = 0;
  unsigned width = 0;
  bool isExact = true; ///< One message a variable.
  /// Offsets of messages without variables, whose sum is the optimum; none where variables are kept.
  std::vector<size_t> roots;
  /// Tables over kept variables alone; strides by the position in `kept`.
  struct Rest {
    size_t offset = 0;
    std::vector<size_t> strides;
  };
  std::vector<Rest> rests;

  unsigned numChoices(unsigned variable) const { return static_cast<unsigned>(reduction.alive[variable].size()); }
  /// Of the kept variables.
  std::vector<size_t> keptSizes() const {
    std::vector<size_t> sizes;
    for (unsigned variable : kept)
      sizes.push_back(numChoices(variable));
    return sizes;
  }
};

enum class TooLarge {
  GiveUp, ///< No layout.
  Split   ///< Mini-buckets.
};

/// Nothing where all tables together would have more than `mostEntries` entries and the caller gives up then.
std::shared_ptr<const BucketLayout> makeBucketLayout(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                                     uint64_t mostEntries, TooLarge tooLarge,
                                                     Drop drop = Drop::Dominated);

/// What a layout without regard to what choices cost (Drop::Forbidden) does not say of a problem: the numbers of its
/// pairs, where the layout has them from `firstPair` on, and those that are folded into choices, as in Reduction.
struct PairNumbers {
  std::vector<double> pairs;
  std::vector<std::vector<double>> folded;
};

/// The numbers.
class BucketTree {
public:
  BucketTree(std::shared_ptr<const BucketLayout> layout, const Objective &objective);
  /// Minimises the pairs' seconds and these of choices, by variable as the problem counts them.
  BucketTree(std::shared_ptr<const BucketLayout> layout, std::shared_ptr<const PairNumbers> pairs,
             const std::vector<std::vector<double>> &seconds);

  /// Computes everything anew for another objective.
  void setObjective(const Objective &objective);

  const BucketLayout &getLayout() const { return *layout; }
  /// The least value over all choices; a lower bound of it if the layout is not exact. Without kept variables.
  double least() const;
  /// Of the kept variables' choices, the last one varying fastest.
  std::vector<double> keptValues() const;

  /// By choice of a bucket's variable: by how much the least value grows when the later variables are as in
  /// `choices` (counted in what the reduction left) and this one is chosen so; `forbidden` where that is impossible.
  /// Without a bound's error the least of them is 0. `increases` has numChoices entries.
  void increasesAt(const Bucket &bucket, const std::vector<unsigned> &choices, double *increases) const;

  /// By variable and choice, counted in what the reduction left: the least value over all choices of the others;
  /// `forbidden` where that is impossible. A second pass over the tables, from the last variable to
  /// the first (Kask, Dechter, Larrosa, Dechter 2005, "Unifying tree decompositions for reasoning in graphical
  /// models"). Expects an exact layout without kept variables.
  std::vector<std::vector<double>> leastByChoice() const;

  /// Completes choices of the kept variables, as reduction counts them, to the best choices of all.
  void complete(std::vector<unsigned> &choices) const;

private:
  void fillSources(bool withPairs);
  void fillPairs();
  /// What a layout has at an offset.
  const double *numbersAt(size_t offset) const {
    if (!pairs)
      return numbers.data() + offset;
    size_t size = layout->firstMessage - layout->firstPair;
    return offset < layout->firstPair      ? numbers.data() + offset
           : offset < layout->firstMessage ? pairs->pairs.data() + (offset - layout->firstPair)
                                           : numbers.data() + (offset - size);
  }
  void computeAll();
  void compute(const Bucket &bucket, const BucketMessage &message);
  double sumAt(const BucketMessage &message, const std::vector<unsigned> &choices) const;
  double rootsSum() const;
  void addTermsAt(const BucketMessage &message, const std::vector<unsigned> &choices, unsigned numChoices,
                  double *sums) const;

  std::shared_ptr<const BucketLayout> layout;
  Objective objective;
  double constant = 0; ///< Of what is minimised.
  /// By offset of the layout, but for the pairs where others have them, too.
  std::vector<double> numbers;
  std::shared_ptr<const PairNumbers> pairs;
};

/// Choices as the problem counts them, from those that a reduction left.
std::vector<unsigned> originalChoices(const Reduction &reduction, const std::vector<unsigned> &choices);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_BUCKETTREE_H
