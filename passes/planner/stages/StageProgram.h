// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dynamic programme across stages: with a bound of the largest load, and one of the seconds a step besides, the
// least sum of stages. F[s, k, d] is the least sum for the layers from cut k on, with at most s stages on the last d
// devices; a stage may begin there where memory holds what s stages keep in flight. Devices are counted in the largest
// unit that all admissible stages share, and a state is left out when too few devices are on either side of it.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_STAGEPROGRAM_H
#define CLEAVE_PASSES_PLANNER_STAGES_STAGEPROGRAM_H

#include "passes/planner/stages/StageEdges.h"

#include <algorithm>

namespace cleave::stages {

/// Devices of one group, in the order of the pipeline.
struct PlacedRun {
  unsigned count = 0, group = 0;
};

/// Bounds of what a stage takes.
struct StageBounds {
  double load = 0, perStep = 0;
};

/// A path of edges with the ways that it takes, the sum of its stages, and its maxima: of stages and of transfers.
struct StagePath {
  struct Stage {
    const StageEdge *edge;
    const StageWay *way;
    unsigned run; ///< In the order of the pipeline; `noRun` of stages on reserved ones.
  };
  static constexpr unsigned noRun = unreachable;
  std::vector<Stage> stages;
  double sum = std::numeric_limits<double>::infinity();
  /// No less than those of its stages, which rounding may make negative.
  double load = -infinity, perStep = -infinity;
  bool isFeasible() const { return !stages.empty(); }
};

class StageProgram {
public:
  /// `edges` and `problem` must outlive the programme. Reserved runs are not in `runs`: their stages take none of
  /// these devices.
  StageProgram(const StageProblem &problem, const StageEdges &edges, std::vector<PlacedRun> runs)
      : problem(problem), edges(edges), runs(std::move(runs)) {}

  /// Keeps the edges within bounds that are on paths whose sum may be at most `mostSum`. False where no path is left.
  /// To be called before the others.
  bool select(StageBounds bounds, double mostSum);
  /// No path of selected edges has a smaller sum, on however many devices.
  double leastSum() const { return freeSum.front(); }
  /// The least sum where only so many microbatches are in flight as the least possible number of stages keeps, and any
  /// number of stages is good: no path's sum is smaller. It may be one that the problem permits (`isPermitted`).
  StagePath relaxed();
  /// Whether the least sum can be found in the memory that this may take.
  bool canBeExact() const;
  /// The least sum.
  StagePath exact();
  bool isPermitted(const StagePath &path) const;

  /// Steps of inner loops so far.
  uint64_t work() const { return steps; }

private:
  struct Part {
    unsigned group = 0, unit = 1;
    unsigned low = 0, high = 0; ///< Positions (low, high] belong to the run, counted from the end of the pipeline.
    /// By position from low + 1 on: 1 where a stage that begins there comes after another host.
    std::vector<double> crosses;
  };
  /// An edge in one of its ways, in units; none on a reserved run.
  struct Step {
    const StageEdge *edge;
    const StageWay *way;
    unsigned last, group, devices, units, mostStages;
    /// What it adds to the sum, by Hop; infinite where these transfers take longer than the bound of loads.
    std::array<double, numHops> totals;
  };

  void selectWays(StageBounds bounds);
  Hop hopAt(const Part &part, unsigned position) const {
    return hopAfter((part.high - position) * part.unit, edges.groups[part.group].hostSize);
  }
  /// Of a step whose stage begins at a position of a part.
  Hop hopOf(const Step &step, const Part *part, unsigned position) const {
    return isReserved(step) ? Hop::BetweenRuns : hopAt(*part, position);
  }
  void leaveOutAbove(double mostSum);
  void layOutRuns(const std::vector<unsigned> &units);
  bool findBands();
  void improve(unsigned cut, std::vector<double> &here, const std::vector<double> &after, unsigned stagesLeft);
  void improveReserved(unsigned cut, std::vector<double> &here, const std::vector<double> &after, unsigned stagesLeft);
  bool isReserved(const Step &step) const { return edges.groups[step.group].reserved; }
  unsigned mostStages() const;
  void beginLevels();
  /// Only positions that can be there are stored.
  size_t at(unsigned cut, unsigned position) const { return rows[cut] + position - lowest[cut]; }
  const Part *partOf(unsigned position) const;
  StagePath pathFrom(size_t level, bool isRelaxed) const;

  const StageProblem &problem;
  const StageEdges &edges;
  std::vector<PlacedRun> runs;
  std::vector<Part> parts; ///< The last run first.
  unsigned numPositions = 0;
  std::vector<std::vector<const StageWay *>> selected; ///< By ways of edges.
  std::vector<std::vector<Step>> stepsFrom;            ///< By cut.
  std::vector<unsigned> leastStages;                   ///< By cut: stages that are needed from there.
  std::vector<double> freeSum;                         ///< By cut: the least sum from there on any number of devices.
  std::vector<unsigned> lowest, highest;               ///< By cut: positions that can be there.
  std::vector<size_t> rows;                            ///< By cut: where its positions are stored; and the size of all.
  std::vector<std::vector<double>> levels; ///< By stages left: sums by cut and position. Memory is kept between calls.
  uint64_t steps = 0;
};

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_STAGEPROGRAM_H
