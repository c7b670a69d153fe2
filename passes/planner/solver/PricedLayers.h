// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A layered problem at given prices of a byte, without its memory limit.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_PRICEDLAYERS_H
#define CLEAVE_PASSES_PLANNER_SOLVER_PRICEDLAYERS_H

#include "passes/planner/solver/LayeredProblem.h"

namespace cleave::solver {

/// What is cheapest.
struct PricedAnswer {
  double least = forbidden;     ///< seconds + price * bytes
  std::vector<unsigned> around; ///< Empty where everything is forbidden.
  std::vector<LayerChain::Choices> chains;
  Choice cost = {forbidden, 0};
};

class PricedLayers {
public:
  explicit PricedLayers(const LayeredProblem &problem);

  /// False once a table would have been too large; answers mean nothing then.
  bool isUsable() const { return usable; }

  PricedAnswer solveAt(double secondsPerByte);

  /// Two prices for `solveMixed`.
  void setPrices(double first, double second);
  /// The first `numFirst` of all layers at the first price, the others at the second one, and what is around them at
  /// the mean. `least` mixes the prices and bounds nothing.
  PricedAnswer solveMixed(uint64_t numFirst);

  uint64_t numLayers() const;

private:
  /// The chains of a problem in which some are cut in two.
  struct Part {
    size_t chain = 0;
    LayerChain *layers = nullptr;
    unsigned first = 0, second = 0; ///< Variables.
  };
  PricedAnswer solveParts(ChoiceProblem around, const std::vector<Part> &parts, double secondsPerByte);

  const LayeredProblem &problem;
  bool usable = true;
  std::vector<LayerChain> firsts, seconds; // by chain
  double meanPrice = 0;
};

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_PRICEDLAYERS_H
