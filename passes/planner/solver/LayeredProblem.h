// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems of choices in which some variables are joined by chains of equal layers: a stage of a model.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_LAYEREDPROBLEM_H
#define CLEAVE_PASSES_PLANNER_SOLVER_LAYEREDPROBLEM_H

#include "passes/planner/solver/LayerChain.h"
#include "passes/planner/solver/Solve.h"

namespace cleave::solver {

/// A chain between two variables of the problem around it: the first one is the entry of the first layer, the second
/// one the exit of the last, whose own costs are those that the layer and the problem around it say, together.
struct ChainBetween {
  unsigned first = 0, second = 0;
  ChainProblem chain;
};

/// The memory limit is around.memoryLimit, for everything.
struct LayeredProblem {
  ChoiceProblem around;
  std::vector<ChainBetween> chains;
};

struct LayeredSolution {
  /// Choices around; seconds, bytes and bounds of everything.
  ChoiceSolution solution;
  /// By chain.
  std::vector<LayerChain::Choices> chains;
};

/// The same as `solve` finds for the problem written out, in time that grows with the logarithm of the numbers of
/// layers. Under a memory limit that binds, the first layers are such as are cheapest just below the multiplier and the
/// others such as are cheapest just above it, or the other way round: what gap is left is about that of one layer.
/// Where it is more than `options.relativeGap` and there are few layers, the problem is written out to close it. Other
/// methods than Elimination always write it out.
LayeredSolution solve(const LayeredProblem &problem, const SolveOptions &options = {});

/// The problem with all layers, and where their variables are in it.
struct WrittenOut {
  ChoiceProblem problem;
  /// By chain, by layer, by variable of the layer. Those around keep their indices.
  std::vector<std::vector<std::vector<unsigned>>> variables;
};
WrittenOut writeOut(const LayeredProblem &problem);

/// The cost of choices: seconds and bytes of everything.
Choice evaluate(const LayeredProblem &problem, const std::vector<unsigned> &around,
                const std::vector<LayerChain::Choices> &chains);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_LAYEREDPROBLEM_H
