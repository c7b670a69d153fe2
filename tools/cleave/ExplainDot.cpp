// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as a picture, drawn by Graphviz.

#include "compiler/Figures.h"
#include "tools/cleave/EqualRows.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/GraphView.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;

/// A string literal of the language; `lines` are centred below each other.
static std::string quoted(ArrayRef<std::string> lines) {
  std::string text = "\"";
  for (auto [i, line] : enumerate(lines)) {
    text += i == 0 ? "" : "\\n";
    for (char c : json::isUTF8(line) ? line : json::fixUTF8(line)) {
      if (c == '"' || c == '\\')
        text += '\\';
      text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return text + "\"";
}

/// What stands in a node's box.
static std::vector<std::string> labelOf(const PlanSummary &summary, const GraphNode &node) {
  if (!node.single)
    return {node.label, countText(node.operators.size(), "operator")};
  const Operator &op = summary.entry.operators[node.operators.front()];
  std::vector<std::string> lines = {op.name, op.kind + " " + shapeText(op.shape)};
  if (!op.split.empty())
    lines.push_back(op.split);
  if (op.predictedSeconds >= 0)
    lines.push_back(secondsText(op.predictedSeconds));
  return lines;
}

static void writeNode(raw_ostream &out, const PlanSummary &summary, const GraphNode &node, size_t index) {
  const Operator &op = summary.entry.operators[node.operators.front()];
  out << "  n" << index << " [label=" << quoted(labelOf(summary, node)) << ", fillcolor=\"" << meshColor(node.mesh)
      << "\", tooltip=" << quoted({summary.deviceNames(op) + (node.single ? ": " + op.decidedBy : "")});
  if (!node.single)
    out << ", peripheries=2";
  else if (!summary.hasOwnKernel(op))
    out << ", style=\"filled,rounded,dashed\"";
  out << "];\n";
}

/// The nodes, those of a stage inside of a box with its name where there are several stages.
static void writeNodes(raw_ostream &out, const PlanSummary &summary, const GraphView &view) {
  std::map<uint32_t, std::vector<size_t>> stages;
  for (auto [i, node] : enumerate(view.nodes))
    stages[node.stage].push_back(i);
  for (const auto &[stage, nodes] : stages) {
    if (stages.size() > 1) {
      std::string devices =
          shortened(summary.deviceNames(summary.entry.operators[view.nodes[nodes.front()].operators.front()]), 40);
      out << "  subgraph cluster_stage" << stage
          << " {\n  label=" << quoted({"stage " + std::to_string(stage) + ": " + devices})
          << ";\n  color=\"#999999\";\n";
    }
    for (size_t i : nodes)
      writeNode(out, summary, view.nodes[i], i);
    if (stages.size() > 1)
      out << "  }\n";
  }
}

static void writeEdges(raw_ostream &out, const GraphView &view) {
  for (const GraphEdge &edge : view.edges) {
    out << "  n" << edge.from << " -> n" << edge.to;
    if (edge.bytes > 0)
      out << " [penwidth=2.5, color=\"#c0392b\", label=" << quoted({bytesText(edge.bytes)}) << "]";
    out << ";\n";
  }
}

/// A box a mesh: its devices, and the memory of its fullest.
static void writeLegend(raw_ostream &out, const PlanSummary &summary, const GraphView &view) {
  std::vector<std::string> title = {summary.plan.model, "strategy " + summary.plan.strategy};
  if (!view.note.empty())
    title.push_back(view.note);
  out << "  subgraph cluster_legend {\n    label=" << quoted(title) << ";\n    color=\"#999999\";\n";
  size_t shown = std::min(summary.plan.meshes.size(), rowLimit);
  for (uint32_t i = 0; i != shown; ++i) {
    const runtime::Mesh &mesh = summary.plan.meshes[i];
    double bytes = 0;
    for (uint32_t device : mesh.devices)
      bytes = std::max(bytes, summary.peakBytes(device));
    size_t operators = count_if(summary.entry.operators, [&](const Operator &op) { return op.mesh == i; });
    out << "    d" << i << " [fillcolor=\"" << meshColor(i) << "\", label="
        << quoted(
               {shortened(summary.deviceNames(mesh.devices), 40), countText(operators, "operator"), bytesText(bytes)})
        << "];\n";
  }
  if (summary.plan.meshes.size() > shown)
    out << "    more [label=" << quoted({std::to_string(summary.plan.meshes.size() - shown) + " more meshes"})
        << "];\n";
  out << "  }\n";
}

void explainAsDot(raw_ostream &out, const PlanSummary &summary) {
  GraphView view = viewGraph(summary, graphNodeLimit);
  out << "digraph plan {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", "
         "fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=9];\n";
  writeLegend(out, summary, view);
  writeNodes(out, summary, view);
  writeEdges(out, view);
  out << "}\n";
}

} // namespace cleave::tool
