// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the texts of splits back to factors and axes.

#include "passes/planner/PlaceByDecision.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

static llvm::Error otherModel(const llvm::Twine &what) {
  return llvm::createStringError("a plan's decision expects the model that it was made for, got " + what +
                                 "; compile the model for the other machine");
}

/// The factor that goes by this name or alias; none where there is none.
static unsigned findFactor(const SplitRule &rule, llvm::StringRef name) {
  auto found = llvm::find_if(
      rule.factors, [&](const Factor &factor) { return (factor.alias.empty() ? factor.name : factor.alias) == name; });
  return found == rule.factors.end() ? search::none : found - rule.factors.begin();
}

/// "batch/data 2/data2 4, out_channel/model 4": a factor and the axes that cut it, each with its size.
static bool readSplit(llvm::StringRef text, const SplitRule &rule, const MeshSpec &mesh, search::FixedSplit &split) {
  split.closed = true;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ", ", -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    llvm::SmallVector<llvm::StringRef> axes;
    part.split(axes, '/');
    unsigned factor = findFactor(rule, axes.front());
    for (llvm::StringRef each : llvm::ArrayRef(axes).drop_front()) {
      auto [name, size] = each.split(' ');
      auto axis = llvm::find_if(
          mesh.axes, [&](const MeshAxis &known) { return known.name == name && std::to_string(known.size) == size; });
      if (factor == search::none || axis == mesh.axes.end())
        return false;
      split.axes.emplace_back(axis - mesh.axes.begin(), factor);
    }
  }
  return true;
}

llvm::Expected<search::SearchGraph> readDecided(dfg::GraphOp graph, const Decision &decision,
                                                search::SearchRequest &request) {
  std::vector<unsigned> pins;
  for (const ModelNode &node : collectModelNodes(graph)) {
    auto known = decision.nodes.find(node.name);
    if (known == decision.nodes.end())
      return otherModel("one with a node \"" + nodeName(node) + "\", which the plan lacks");
    pins.push_back(known->second.stage);
  }
  request.pinned.clear();
  for (const Decision::Stage &stage : decision.stages) {
    if (stage.mesh.axes.size() > search::mostAxes)
      return otherModel("one with a mesh of more than " + llvm::Twine(search::mostAxes) + " axes");
    request.pinned.push_back(stage.mesh);
  }
  request.isDecided = true;
  request.optimizerInHost = decision.optimizerInHost;
  request.considersOthers = false;
  search::SearchGraph read = search::readGraph(graph, pins);
  request.fixed.clear();
  for (auto [index, op] : llvm::enumerate(read.operators)) {
    const ModelNode &node = read.nodes[op.node];
    const Decision::Node &decided = decision.nodes.find(node.name)->second;
    size_t position = llvm::find(node.operators, op.op) - node.operators.begin();
    if (node.operators.size() != decided.splits.size() ||
        !readSplit(decided.splits[position], op.rule, decision.stages[decided.stage].mesh, request.fixed[index]))
      return otherModel("one whose node \"" + nodeName(node) + "\" has other operators");
  }
  for (const search::AttentionRow &row : read.attentions)
    for (unsigned index : row.operators)
      request.fixed[index].isRing =
          decision.nodes.find(read.nodes[read.operators[row.softmax].node].name)->second.isRing;
  return read;
}

} // namespace cleave
