// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages that a plan can be made of: one edge for each interval of layers and number of devices, with the ways to
// run it. A plan is a path of edges from the first cut to the last one. Intervals of equal layers share their ways.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_STAGEEDGES_H
#define CLEAVE_PASSES_PLANNER_STAGES_STAGEEDGES_H

#include "passes/planner/stages/StageSearch.h"

#include <array>

namespace cleave::stages {

/// Runs whose devices are alike: they differ in their counts only.
struct RunGroup {
  unsigned kind = 0;
  double memory = 0;
  std::vector<unsigned> stageSizes;
  unsigned hostSize = 1;
  bool reserved = false; ///< Its stages leave all devices to others: it is, or devices are shared.
};

/// A way to run some layers on some devices.
struct StageWay {
  /// The most stages, itself included, that may be left where this one begins: with more of them the schedule keeps
  /// more microbatches in flight than memory holds.
  unsigned mostStages = 0;
  double ramp = 0; ///< StageProblem::ramp of its option.
  double load = 0; ///< steadySeconds of its option: the largest of a plan counts.
  StageOption option;
};

/// The ways to run layers of one class on some devices of a run of a group; those that add the least to the sum first.
struct StageWays {
  StageWays(unsigned group, unsigned devices) : group(group), devices(devices) {}

  unsigned group, devices;
  std::vector<StageWay> ways;
};

/// To a stage, by Hop.
using StageTransfers = std::array<Transfers, numHops>;

/// A stage from one cut to a later one.
struct StageEdge {
  unsigned first = 0, last = 0; ///< Indices of cuts.
  unsigned transfers = 0;       ///< An index into StageEdges::transfers.
  unsigned ways = 0;            ///< An index into StageEdges::ways.
};

/// Sorted by first cut, last cut, group and devices.
struct StageEdges {
  /// Layers between which stages may be cut, from 0 to the number of layers, ascending.
  std::vector<unsigned> cuts;
  std::vector<RunGroup> groups;
  std::vector<StageWays> ways;
  std::vector<StageTransfers> transfers;
  std::vector<StageEdge> edges;
  /// By cut: the first of its edges; one entry more than cuts.
  std::vector<size_t> begin;

  unsigned lastCut() const { return cuts.size() - 1; }
};

/// Which edges are wanted.
struct EdgeFilter {
  /// Those that take no longer.
  double mostSeconds = std::numeric_limits<double>::infinity();
  /// Those of `sizeAt`-th size of their group (the last one where it has fewer); else all.
  std::optional<size_t> sizeAt = std::nullopt;
  /// Those that pass no more cuts; 0: no limit.
  unsigned mostCuts = 0;
  /// Also those that no memory holds.
  bool ignoreMemory = false;
};

/// The groups of a problem's runs, and by run its group.
std::vector<RunGroup> groupsOf(const StageProblem &problem, std::vector<unsigned> &groupOfRun);

/// The most stages that a problem's plans can have.
unsigned mostStagesOf(const StageProblem &problem);

/// Asks for the options of intervals; of several for the same devices those are kept that no other one equals or
/// beats in what they add to the sum, load, seconds a step and memory.
StageEdges makeEdges(const StageProblem &problem, StageCosts &costs, std::vector<unsigned> cuts,
                     std::vector<RunGroup> groups, const EdgeFilter &filter);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_STAGEEDGES_H
