// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pins of a placement file as constraints of the search: layers that are pinned to a device or mesh become a stage
// there, and the search decides about all others.
//
//   groups: { embed: ["embed*"], head: ["head*"] }        embed ─▶ block0 ─▶ … ─▶ block7 ─▶ head
//   devices: { embed: 0, head: [3] }                      └ on 0   └──── on 1 and 2, or with ────┘  └ on 3
//                                                                  one of the two, as is best

#ifndef CLEAVE_PASSES_PLANNER_PLACEBYPINS_H
#define CLEAVE_PASSES_PLANNER_PLACEBYPINS_H

#include "passes/planner/GraphSplits.h"
#include "passes/planner/PlacementFile.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/search/SearchGraph.h"

namespace cleave {

/// What a placement fixes about the nodes of a graph.
struct Pins {
  /// Devices and meshes to which nodes are pinned, those of equal devices and axes once.
  std::vector<MeshSpec> meshes;
  /// By node: an index into `meshes`, or search::none.
  std::vector<unsigned> nodes;

  /// Whether nodes are left for somebody else to decide about.
  bool leaveNodes() const { return llvm::is_contained(nodes, search::none); }
};

/// The pins of nodes that somebody placed; those without a mesh are free.
Pins findPins(llvm::ArrayRef<NodePlace> places);

/// Why the pinned operators of a graph, whose `pin` is set, cannot be stages of a pipeline; empty where they can. They
/// can where pins share no device, or all of them, and what is pinned to one mesh stands together in the graph's order,
/// with nothing between that is pinned elsewhere.
std::string whyNoStages(const search::SearchGraph &graph, const Pins &pins);

/// The splits that somebody fixed, as the search takes them: axes by their number in the operator's mesh.
search::FixedFactors fixedFactors(const search::SearchGraph &graph, GraphSplits &splits);

/// Fixes how keys come to attention whose softmax is of a node that a pattern fits, the first one that does. Returns
/// the patterns that decide about none, and why.
std::vector<std::pair<const NamePattern *, std::string>>
fixKeys(const search::SearchGraph &graph, const Placement &placement, search::FixedFactors &fixed);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEBYPINS_H
