// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as a picture, drawn by Graphviz.

#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;

/// Light colours on which black text reads well; devices take them in turn.
static constexpr StringLiteral palette[] = {"#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc",
                                            "#fdd0a2", "#c7e9c0", "#dadaeb", "#d9d9d9"};

static StringRef colorOf(uint32_t device) { return palette[device % std::size(palette)]; }

/// A string literal of the language; `lines` are centred below each other.
static std::string quoted(ArrayRef<std::string> lines) {
  std::string text = "\"";
  for (auto [i, line] : enumerate(lines)) {
    text += i == 0 ? "" : "\\n";
    for (char c : line) {
      if (c == '"' || c == '\\')
        text += '\\';
      text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return text + "\"";
}

/// What stands in an operator's box.
static std::vector<std::string> labelOf(const Operator &op) {
  std::vector<std::string> lines = {op.name, op.kind + " " + shapeText(op.shape)};
  if (!op.split.empty())
    lines.push_back(op.split);
  return lines;
}

static void writeOperators(raw_ostream &out, const PlanSummary &summary) {
  for (auto [i, op] : enumerate(summary.entry.operators)) {
    out << "  n" << i << " [label=" << quoted(labelOf(op)) << ", fillcolor=\"" << colorOf(summary.deviceOf(op))
        << "\", tooltip=" << quoted({summary.deviceNames(op) + ": " + op.decidedBy});
    if (op.kernel.empty() || !op.fusedWith.empty())
      out << ", style=\"filled,rounded,dashed\"";
    out << "];\n";
  }
}

static void writeEdges(raw_ostream &out, const PlanSummary &summary) {
  for (auto [i, op] : enumerate(summary.entry.operators))
    for (uint32_t input : op.inputs) {
      const Operator &producer = summary.entry.operators[input];
      out << "  n" << input << " -> n" << i;
      if (summary.deviceOf(producer) != summary.deviceOf(op))
        out << " [penwidth=2.5, color=\"#c0392b\", label=" << quoted({bytesText(producer.resultBytes)}) << "]";
      out << ";\n";
    }
}

static void writeLegend(raw_ostream &out, const PlanSummary &summary) {
  out << "  subgraph cluster_legend {\n    label=" << quoted({summary.plan.model, "strategy " + summary.plan.strategy})
      << ";\n    color=\"#999999\";\n";
  for (auto [i, device] : enumerate(summary.plan.devices)) {
    const DeviceSummary &sums = summary.devices[i];
    out << "    d" << i << " [fillcolor=\"" << colorOf(i) << "\", label="
        << quoted({device.name, std::to_string(sums.operators) + " operators", bytesText(sums.arenaBytes)}) << "];\n";
  }
  out << "  }\n";
}

void explainAsDot(raw_ostream &out, const PlanSummary &summary) {
  out << "digraph plan {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", "
         "fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=9];\n";
  writeLegend(out, summary);
  writeOperators(out, summary);
  writeEdges(out, summary);
  out << "}\n";
}

} // namespace cleave::tool
