// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole operators on single devices, for models whose branches can run side by side: list scheduling over the model's
// nodes, as one more candidate beside what the search finds.

#ifndef CLEAVE_PASSES_PLANNER_PLACEBYLIST_H
#define CLEAVE_PASSES_PLANNER_PLACEBYLIST_H

#include "passes/planner/GraphSplits.h"
#include "passes/planner/PlanReport.h"
#include "passes/planner/placement/Place.h"
#include "passes/planner/search/Search.h"

namespace cleave {

/// A device for every node of a graph.
struct ListPlacement {
  /// By node of the graph; empty where there is none.
  std::vector<unsigned> devices;
  /// By node: seconds on its device.
  std::vector<double> nodeSeconds;
  double seconds = -1;   ///< When the last node is done.
  double lowerBound = 0; ///< No placement on single devices takes less; infinite where there can be none.
  /// By device of the machine: bytes of parameters, and of the largest operator's operands and results.
  std::vector<double> parameters, transients;

  bool isFeasible() const { return !devices.empty(); }
  double peakBytes() const;
};

/// The nodes of a graph as tasks on the devices of a machine: each as long as its operators take on the kind of device,
/// with the bytes of its parameters; `devices` are those of the machine that count, ascending. Operators that run once,
/// before the first step, take no time.
placement::PlacementProblem placementProblemOf(const search::SearchGraph &graph, const Machine &machine,
                                               llvm::ArrayRef<unsigned> devices, const search::SearchRequest &request);

/// The best placement that list scheduling finds, for inference, on devices that do not share cores, as many as there
/// are branches in any model. Nothing is scheduled where the lower bound is not below `secondsToBeat`, as it is not for
/// graphs without branches.
ListPlacement placeByList(const search::SearchGraph &graph, const Machine &machine,
                          const search::SearchRequest &request, double secondsToBeat);

/// What a plan's report says of a placement that is not taken, or of none.
search::Considered considered(const ListPlacement &placement);

/// A mesh for each device of the machine.
std::vector<MeshSpec> singleDeviceMeshes(const Machine &machine);

/// The place of every node; refers to the meshes, those of singleDeviceMeshes.
std::vector<NodePlace> placesOf(const ListPlacement &placement, llvm::ArrayRef<MeshSpec> meshes);

/// What is expected of the placement, for the plan file: a stage for each device in use. `other` is the plan that it
/// was compared with, and knows the bound of both.
PlanReport reportOf(const search::SearchGraph &graph, const ListPlacement &placement, const search::FoundPlan &other,
                    const search::SearchRequest &request, const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEBYLIST_H
