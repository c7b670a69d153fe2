// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph of a plan in as many nodes as a picture can hold.

#ifndef CLEAVE_TOOLS_CLEAVE_GRAPHVIEW_H
#define CLEAVE_TOOLS_CLEAVE_GRAPHVIEW_H

#include "tools/cleave/PlanSummary.h"

namespace cleave::tool {

/// What a node of the picture stands for.
enum class GraphDetail {
  Operators, ///< one operator each; repeated layers of a mesh are shown once, the others are one node
  Modules,   ///< consecutive operators of a mesh whose names begin alike, up to the first separator
  Meshes     ///< all operators of a mesh and stage
};

struct GraphNode {
  std::vector<uint32_t> operators; ///< indices, ascending; never empty
  std::string label;               ///< an operator's name; what others are called
  bool single = false;             ///< stands for the operator itself
  uint32_t mesh = 0, stage = 0;
};

/// What nodes of `to` read from nodes of `from`. `bytes` is what crosses where their meshes differ, otherwise 0.
struct GraphEdge {
  uint32_t from = 0, to = 0;
  double bytes = 0;
};

/// Nodes are in the order of their first operators, edges by target and source. No loops: what a node reads from itself
/// is left out.
struct GraphView {
  GraphDetail detail = GraphDetail::Operators;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  /// How much the picture leaves out, for people; "" where it shows every operator.
  std::string note;
};

/// The view with the most detail that has at most `limit` nodes; where even the coarsest has more, its first `limit`.
GraphView viewGraph(const PlanSummary &summary, size_t limit);

/// How many boxes a person finds their way in.
inline constexpr size_t graphNodeLimit = 500;

/// A light colour on which black text reads well; meshes take them in turn.
llvm::StringRef meshColor(uint32_t mesh);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_GRAPHVIEW_H
