// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places the operators of a graph as the search found best, and reports what it expects.

#ifndef CLEAVE_PASSES_PLANNER_PLACEBYSEARCH_H
#define CLEAVE_PASSES_PLANNER_PLACEBYSEARCH_H

#include "passes/planner/GraphSplits.h"
#include "passes/planner/PlanReport.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/search/SplitSearch.h"

namespace cleave {

/// The meshes of a found plan's stages: those of the request to which operators were pinned; of others "stage0", …, or
/// the device's own where a stage has one.
std::vector<MeshSpec> meshesOf(const search::FoundPlan &plan, llvm::ArrayRef<MeshSpec> pinned);

/// The place of every node of the graph; refers to the meshes.
std::vector<NodePlace> placeBySearch(const search::SearchGraph &graph, const search::FoundPlan &plan,
                                     llvm::ArrayRef<MeshSpec> meshes);

/// Cuts every operator as the plan says, along axes that it does not use yet. Nothing is left to follow.
void splitBySearch(GraphSplits &splits, const search::SearchGraph &graph, const search::FoundPlan &plan);
/// Writes on the operators of stages that compute activations again what that is (dist.recompute).
void markRecomputed(const search::SearchGraph &graph, const search::FoundPlan &plan);

/// Writes on attention whose keys are cut as queries are how devices get those of others (dist.keys).
void markKeys(const search::SearchGraph &graph, const search::FoundPlan &plan);
void markKeys(const search::SearchGraph &graph, const search::SplitsOfGraph &splits,
              const search::KeysOfGraph &decisions);

/// What the search expects, for the plan file.
PlanReport reportOf(const search::SearchGraph &graph, const search::FoundPlan &plan,
                    const search::SearchRequest &request, const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEBYSEARCH_H
