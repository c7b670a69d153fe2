// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches the bounds of the largest load (M t - f) and of the seconds a step besides, best first. A cell is a range of
// both: no plan in it takes less than the least sum at its largest bounds plus the maxima at its smallest ones.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_BOUNDSEARCH_H
#define CLEAVE_PASSES_PLANNER_STAGES_BOUNDSEARCH_H

#include "passes/planner/stages/StageProgram.h"

#include <functional>

namespace cleave::stages {

/// A way to run layers [first, last).
struct PlannedStage {
  unsigned first = 0, last = 0;
  unsigned run = 0, devices = 0; ///< An index into StageProblem::runs.
  StageOption option;
};

/// The best stages so far, and when to end.
struct Incumbent {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<PlannedStage> stages; ///< In the order of the pipeline.

  uint64_t work = 0;                                        ///< Steps of inner loops that were made,
  uint64_t mostWork = std::numeric_limits<uint64_t>::max(); ///< and may be made.
  std::function<bool()> isOutOfTime = [] { return false; };
  std::function<void(double)> progress;

  bool mustEnd() const { return work >= mostWork || isOutOfTime(); }
};

/// What may be the largest load and the largest seconds a step of a path, in ascending order.
struct BoundValues {
  explicit BoundValues(const StageEdges &edges);
  /// No path takes less; infinite where there is none.
  double least() const;

  std::vector<double> loads, perSteps;
};

/// Improves the incumbent by the best path of `edges`, whose bounds are `values`, over the runs in `order`. Returns a
/// lower bound of all these paths' seconds, or the incumbent's seconds if they are less.
double searchBounds(const StageProblem &problem, const StageEdges &edges, const BoundValues &values,
                    const std::vector<unsigned> &order, const std::vector<unsigned> &groupOfRun, Incumbent &best);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_BOUNDSEARCH_H
