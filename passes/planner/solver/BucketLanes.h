// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of a layout for several objectives at once: what differs between them are the costs of choices, and what
// is wanted are the least values alone.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_BUCKETLANES_H
#define CLEAVE_PASSES_PLANNER_SOLVER_BUCKETLANES_H

#include "passes/planner/solver/BucketTree.h"
#include "passes/planner/solver/LaneSum.h"

namespace cleave::solver {

class BucketLanes {
public:
  /// Expects a layout without regard to what choices cost (Drop::Forbidden).
  explicit BucketLanes(std::shared_ptr<const BucketLayout> layout);

  /// BucketTree::keptValues of every lane. `seconds` has, by variable and choice as the problem counts them, a number
  /// for each lane; so have the values, by entry. `numbers` is memory to work in, of any contents.
  std::vector<double> keptValues(const PairNumbers &pairs, const std::vector<std::vector<double>> &seconds,
                                 std::vector<double> &numbers) const;

  const std::shared_ptr<const BucketLayout> &getLayout() const { return layout; }

private:
  /// A message, its terms with the fastest variable first and those with a number for each lane before shared ones.
  struct Step {
    struct Term {
      size_t offset = 0;
      bool isShared = false;
      const size_t *strides = nullptr; ///< Of the bucket's variable, then of the scope's.
    };
    unsigned numChoices = 1;
    size_t count = 1, entries = 1, offset = 0;
    std::vector<size_t> sizes; ///< Of the scope's variables but the last.
    std::vector<Term> terms;
    size_t numRows = 0;
  };
  void compute(const Step &step, const double *pairs, double *numbers) const;
  bool isPair(size_t offset) const { return offset >= layout->firstPair && offset < layout->firstMessage; }

  std::shared_ptr<const BucketLayout> layout;
  std::vector<Step> steps;
};

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_BUCKETLANES_H
