// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as tables of text: what the parts have in common, and in which order they come.

#include "tools/cleave/EqualRows.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/Figures.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace cleave::tool {

/// "1460.78 Mflop", or in larger units where there are many.
static std::string workText(double flops) {
  return flops >= 1e12 ? decimalText(flops) + "flop" : numberText(flops / 1e6, 2) + " Mflop";
}

static void printHeader(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  const runtime::PlanContents &plan = summary.plan;
  out << shortened(plan.model, lineWidth - 8) << "\n"
      << "strategy " << plan.strategy << ", " << countText(plan.devices.size(), "device") << ", "
      << countText(summary.entry.operators.size(), "operator") << ", " << workText(summary.flops) << " a step\n";
  auto textOf = [&](uint32_t i) {
    const runtime::Mesh &mesh = plan.meshes[i];
    return shortened(meshText(mesh), lineWidth - 30) + ", " + countText(mesh.devices.size(), "device");
  };
  size_t hidden = 0, shown = 0;
  for (uint32_t i = 0; i != plan.meshes.size(); ++i)
    if (!plan.meshes[i].axes.empty()) {
      if (detail == Detail::All || shown++ < rowLimit)
        out << "mesh " << textOf(i) << "\n";
      else
        ++hidden;
    }
  out << moreText(hidden);
}

static void printPorts(raw_ostream &out, StringRef what, const std::vector<runtime::Port> &ports) {
  for (const runtime::Port &port : ports) {
    std::string type = port.type.text();
    size_t taken = std::min<size_t>(type.size() + what.size() + 2, lineWidth / 2);
    out << what << " " << shortened(port.name, lineWidth - taken) << " " << shortened(type, lineWidth / 2) << "\n";
  }
}

/// How many of the kernels come from where.
static void printKernels(raw_ostream &out, const PlanSummary &summary) {
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
  printHeader(out, summary, detail);
  explainPrediction(out, summary);
  explainDecision(out, summary);
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
