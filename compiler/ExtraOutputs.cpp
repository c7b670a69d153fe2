// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Appends results to a graph.

#include "compiler/ExtraOutputs.h"

#include "passes/planner/ModelNode.h"

#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace cleave {

using runtime::Error;
using runtime::Status;

Error addOutputs(ModuleOp module, const std::vector<std::string> &patterns) {
  auto graphs = module.getOps<dfg::GraphOp>();
  if (patterns.empty() || graphs.empty())
    return Error::success();
  dfg::GraphOp graph = *graphs.begin();
  std::vector<ModelNode> nodes = collectModelNodes(graph);
  SmallVector<const ModelNode *> chosen;
  std::vector<bool> isChosen(nodes.size());
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return makeError(Status::Usage, "--tensor expects a name with * and ?, got \"", pattern,
                       "\": ", llvm::toString(glob.takeError()));
    bool found = false;
    for (size_t i = 0; i != nodes.size(); ++i)
      if (!nodes[i].name.empty() && glob->match(nodes[i].name))
        isChosen[i] = found = true;
    if (!found)
      return makeError(Status::Usage, "--tensor expects the name of a node, got \"", pattern,
                       "\"; see `cleave explain` for the names");
  }
  Operation *end = graph.getBody().front().getTerminator();
  SmallVector<Type> types(graph.getResultTypes());
  SmallVector<std::string> names;
  for (size_t i = 0; i != nodes.size(); ++i) {
    if (!isChosen[i])
      continue;
    Operation *last = nodes[i].operators.back();
    for (auto [index, result] : llvm::enumerate(last->getResults())) {
      names.push_back(nodes[i].name.str() + (last->getNumResults() > 1 ? ":" + std::to_string(index) : ""));
      types.push_back(result.getType());
      end->insertOperands(end->getNumOperands(), result);
    }
  }
  size_t first = types.size() - names.size();
  Builder builder(module.getContext());
  SmallVector<DictionaryAttr> attributes;
  for (size_t i = 0; i != first; ++i)
    attributes.push_back(graph.getResultAttrDict(i));
  for (const std::string &name : names)
    attributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr("dfg.name", builder.getStringAttr(name))));
  graph.setType(builder.getFunctionType(graph.getArgumentTypes(), types));
  graph.setAllResultAttrs(attributes);
  return Error::success();
}

} // namespace cleave
