// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups operators into nodes, and what they read into edges.

#include "tools/cleave/GraphView.h"

#include "compiler/Figures.h"
#include "tools/cleave/LayerFolding.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;

/// Light colours in an order in which neighbours differ most.
static constexpr StringLiteral palette[] = {"#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc",
                                            "#fdd0a2", "#c7e9c0", "#dadaeb", "#d9d9d9"};

StringRef meshColor(uint32_t mesh) { return palette[mesh % std::size(palette)]; }

static GraphNode startNode(const PlanSummary &summary, uint32_t index, std::string label) {
  const Operator &op = summary.entry.operators[index];
  return {{index}, std::move(label), false, op.mesh, op.stage};
}

/// A node an operator; the layers that are like those before, one node.
static std::vector<GraphNode> operatorNodes(const PlanSummary &summary) {
  LayerFolding folding(summary.plan, summary.entry, FoldAcross::Nothing);
  std::vector<GraphNode> nodes;
  for (const LayerFolding::Row &row : folding.rows()) {
    nodes.push_back(startNode(summary, row.index, summary.entry.operators[row.index].name));
    GraphNode &node = nodes.back();
    node.single = !row.layers;
    if (!row.layers)
      continue;
    node.label = row.layers->others() + ": as " + row.layers->labels.front();
    for (uint32_t i = row.index + 1; i != row.layers->end(); ++i)
      node.operators.push_back(i);
  }
  return nodes;
}

/// Nodes of operators in a row on the same mesh with the same key.
static std::vector<GraphNode> groupedNodes(const PlanSummary &summary,
                                           function_ref<StringRef(const Operator &)> keyOf) {
  std::vector<GraphNode> nodes;
  const Operator *last = nullptr;
  for (auto [i, op] : enumerate(summary.entry.operators)) {
    if (last && PlanSummary::sameMesh(*last, op) && keyOf(*last) == keyOf(op))
      nodes.back().operators.push_back(static_cast<uint32_t>(i));
    else
      nodes.push_back(startNode(summary, static_cast<uint32_t>(i), keyOf(op).str()));
    last = &op;
  }
  return nodes;
}

/// What stands before the first separator of the name; a whole name that has none.
static StringRef moduleOf(const Operator &op) {
  StringRef name = StringRef(op.name).ltrim('/');
  return name.take_front(name.find_first_of("/."));
}

/// One node for all operators of a mesh and stage.
static std::vector<GraphNode> meshNodes(const PlanSummary &summary) {
  std::vector<GraphNode> nodes;
  std::map<std::pair<uint32_t, uint32_t>, size_t> known;
  for (auto [i, op] : enumerate(summary.entry.operators)) {
    auto [node, isNew] = known.try_emplace({op.stage, op.mesh}, nodes.size());
    if (isNew)
      nodes.push_back(startNode(summary, static_cast<uint32_t>(i), summary.plan.meshes[op.mesh].name));
    else
      nodes[node->second].operators.push_back(static_cast<uint32_t>(i));
  }
  return nodes;
}

static std::vector<GraphNode> nodesOf(const PlanSummary &summary, GraphDetail detail) {
  switch (detail) {
  case GraphDetail::Operators:
    return operatorNodes(summary);
  case GraphDetail::Modules:
    return groupedNodes(summary, moduleOf);
  case GraphDetail::Meshes:
    return meshNodes(summary);
  }
  return {};
}

static void addEdges(GraphView &view, const PlanSummary &summary) {
  constexpr uint32_t none = UINT32_MAX;
  std::vector<uint32_t> nodeOf(summary.entry.operators.size(), none);
  for (auto [i, node] : enumerate(view.nodes))
    for (uint32_t index : node.operators)
      nodeOf[index] = static_cast<uint32_t>(i);
  std::map<std::pair<uint32_t, uint32_t>, double> edges; // by target, source
  std::set<std::pair<uint32_t, uint32_t>> counted;       // by producing operator and target: a tensor crosses once
  for (auto [i, op] : enumerate(summary.entry.operators))
    for (uint32_t input : op.inputs) {
      uint32_t from = nodeOf[input], to = nodeOf[i];
      if (from == to || from == none || to == none)
        continue;
      double &bytes = edges[{to, from}];
      const Operator &producer = summary.entry.operators[input];
      if (!PlanSummary::sameMesh(producer, op) && counted.insert({input, to}).second)
        bytes += producer.resultBytes;
    }
  for (auto &[ends, bytes] : edges)
    view.edges.push_back({ends.second, ends.first, bytes});
}

static std::string noteOf(const GraphView &view, size_t numOperators, size_t hidden) {
  if (hidden)
    return "the first " + std::to_string(view.nodes.size()) + " meshes; " + std::to_string(hidden) +
           " more are left out";
  bool whole = all_of(view.nodes, [](const GraphNode &node) { return node.single; });
  if (whole)
    return "";
  const char *what = view.detail == GraphDetail::Operators ? "equal layers are one node"
                     : view.detail == GraphDetail::Modules ? "a node is a module of the model"
                                                           : "a node is all that a mesh computes";
  return countText(numOperators, "operator") + " in " + countText(view.nodes.size(), "node") + ": " + what;
}

GraphView viewGraph(const PlanSummary &summary, size_t limit) {
  GraphView view;
  for (GraphDetail detail : {GraphDetail::Operators, GraphDetail::Modules, GraphDetail::Meshes}) {
    view.detail = detail;
    view.nodes = nodesOf(summary, detail);
    if (view.nodes.size() <= limit)
      break;
  }
  size_t hidden = view.nodes.size() > limit ? view.nodes.size() - limit : 0;
  view.nodes.resize(view.nodes.size() - hidden);
  addEdges(view, summary);
  view.note = noteOf(view, summary.entry.operators.size(), hidden);
  return view;
}

} // namespace cleave::tool
