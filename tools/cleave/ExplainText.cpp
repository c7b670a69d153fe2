// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as tables of text: what the parts have in common, and in which order they come.

#include "compiler/Figures.h"
#include "tools/cleave/EqualRows.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/KindSummary.h"
#include "tools/cleave/ReplicaReport.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace cleave::tool {

static void printHeader(raw_ostream &out, const PlanSummary &summary) {
  const runtime::PlanContents &plan = summary.plan;
  out << shortened(plan.model, lineWidth() - 8) << "\n"
      << "strategy " << plan.strategy << ", " << countText(plan.devices.size(), "device") << ", "
      << countText(summary.entry.operators.size(), "operator") << ", " << workText(stepWork(summary)) << " a step\n";
  if (std::string idle = summary.idleText(); !idle.empty())
    out << idle << "\n";
  if (plan.replicas)
    out << replicasText(*plan.replicas) << "; their parameters are kept " << keeperText(plan) << "\n";
}

/// What the devices of each kind contribute, where there are several kinds, and what a step costs.
static void printKinds(raw_ostream &out, const PlanSummary &summary) {
  for (const auto &[kind, text] : kindTexts(summary))
    out << "kind " << shortened(kind, lineWidth() / 3) << ": " << text << "\n";
  if (std::string price = priceText(summary); !price.empty())
    out << "a step costs " << price << "\n";
}

/// What a step computes besides the model: the plan's settings, by the options that give them.
static void printSettings(raw_ostream &out, const PlanSummary &summary) {
  std::string line, dtype = "f32";
  bool trains = false;
  for (const runtime::Setting &setting : summary.plan.settings) {
    trains |= setting.name == "train" || setting.name == "loss";
    if (setting.name == "dtype")
      dtype = setting.value;
    if (setting.name != "train")
      line += (line.empty() ? "" : ", ") + setting.name + " " + setting.value;
  }
  if (!line.empty())
    out << "compiled with " << shortened(line, lineWidth() - 14) << "\n";
  // Which of the two it is decides how long gradients take to be joined (Searcher::precision).
  if (trains && dtype != "f32")
    out << "parameters and gradients are "
        << (summary.entry.isDecision() ? dtype + ", with f32 copies beside the optimizer's state" : "f32") << "\n";
}

/// The meshes with axes; many with equal axes in one line.
static void printMeshes(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  std::vector<const runtime::Mesh *> grids;
  for (const runtime::Mesh &mesh : summary.plan.meshes)
    if (!mesh.axes.empty())
      grids.push_back(&mesh);
  bool fold = detail == Detail::Folded && grids.size() > 4;
  auto rows = groupEqualRows(grids.size(), fold, [&](uint32_t i) -> std::vector<std::string> {
    return {meshText(*grids[i]).substr(grids[i]->name.size()), std::to_string(grids[i]->devices.size())};
  });
  size_t shown = fold ? std::min(rows.size(), rowLimit) : rows.size();
  for (const EqualRows &row : ArrayRef(rows).take_front(shown)) {
    const runtime::Mesh &first = *grids[row.indices.front()], &last = *grids[row.indices.back()];
    bool inARow = row.indices.back() - row.indices.front() + 1 == row.indices.size();
    std::string names =
        first.name + (row.indices.size() > 1 ? (inARow ? ".." : " to ") + last.name : "") + row.cells[0];
    out << (row.indices.size() > 1 ? std::to_string(row.indices.size()) + " meshes " : "mesh ")
        << shortened(names, lineWidth() - 40) << ", " << countText(first.devices.size(), "device")
        << (row.indices.size() > 1 ? " each\n" : "\n");
  }
  out << moreText(rows.size() - shown);
}

/// What each axis cuts, by the work of the operators: names alone do not tell, least of all those of placement files.
static void printAxes(raw_ostream &out, const PlanSummary &summary) {
  constexpr double leastShare = 0.005;
  std::map<StringRef, std::map<std::string, double>> cuts;
  double all = 0;
  for (const runtime::Operator &op : summary.entry.operators) {
    all += op.flops;
    for (const SplitFactor &part : readSplit(op.split))
      for (StringRef axis : part.axes)
        cuts[axis][part.factor.str()] += op.flops;
  }
  if (all == 0)
    return;
  for (auto &[axis, factors] : cuts) {
    std::vector<std::pair<double, std::string>> largest;
    for (auto &[factor, flops] : factors)
      if (flops >= leastShare * all)
        largest.push_back({-flops, factor});
    llvm::sort(largest);
    // The largest that fit into a line.
    std::string text, before = "axis " + shortened(axis, lineWidth() / 4) + " cuts ", after = " of the work";
    for (auto &[flops, factor] : largest) {
      std::string part = (text.empty() ? "" : ", ") + factor + " in " + percentText(-flops / all, 1);
      if (before.size() + text.size() + part.size() + after.size() > lineWidth())
        break;
      text += part;
    }
    if (!text.empty())
      out << before << text << after << "\n";
  }
}

static void printPorts(raw_ostream &out, StringRef what, const std::vector<runtime::Port> &ports) {
  for (const runtime::Port &port : ports) {
    std::string type = port.type.text();
    size_t taken = std::min<size_t>(type.size() + what.size() + 2, lineWidth() / 2);
    out << what << " " << shortened(port.name, lineWidth() - taken) << " " << shortened(type, lineWidth() / 2) << "\n";
  }
}

/// How many of the kernels come from where.
static void printKernels(raw_ostream &out, const PlanSummary &summary) {
  if (summary.plan.kernels.empty())
    return;
  std::map<std::string, size_t> sources;
  for (const runtime::Kernel &kernel : summary.plan.kernels) {
    const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
    ++sources[library ? library->library : "native code"];
  }
  out << "\n" << countText(summary.plan.kernels.size(), "kernel");
  for (auto [i, source] : enumerate(sources))
    out << (i == 0 ? ": " : ", ") << source.second << " of " << source.first;
  out << "\n";
}

void explainAsText(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  LayerFolding folding = detail == Detail::Folded ? LayerFolding(summary.plan, summary.entry, FoldAcross::Meshes)
                                                  : LayerFolding(summary.entry);
  printHeader(out, summary);
  explainPrediction(out, summary);
  printKinds(out, summary);
  printMeshes(out, summary, detail);
  printAxes(out, summary);
  explainDecision(out, summary);
  printSettings(out, summary);
  printPorts(out, "input", summary.entry.inputs);
  printPorts(out, "output", summary.entry.outputs);
  explainStages(out, summary, detail);
  explainDevices(out, summary, detail);
  explainOperators(out, summary, folding);
  printKernels(out, summary);
  explainCommunication(out, summary, folding, detail);
  explainLargest(out, summary, folding);
  explainAlternatives(out, summary, detail);
}

} // namespace cleave::tool
