// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups a graph's operators by model node and links the nodes.

#include "passes/planner/ModelNode.h"

#include "dialects/dist/Dist.h"

using namespace mlir;

namespace cleave {

StringRef nodeName(const ModelNode &node) {
  return node.name.empty() ? node.operators.front()->getName().getStringRef() : node.name;
}

bool followsItsUsers(Operation *op) {
  return (isa<dfg::ReadOp>(op) && !dist::getPlace(op)) || op->hasTrait<OpTrait::ConstantLike>();
}

std::vector<ModelNode> collectModelNodes(dfg::GraphOp graph) {
  std::vector<ModelNode> nodes;
  llvm::StringMap<unsigned> byName;
  llvm::DenseMap<Operation *, unsigned> nodeOf;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (followsItsUsers(&op))
      continue;
    StringRef name = dfg::getNodeName(op.getLoc());
    unsigned index = nodes.size();
    if (!name.empty())
      index = byName.try_emplace(name, index).first->second;
    if (index == nodes.size())
      nodes.emplace_back().name = name;
    ModelNode &node = nodes[index];
    node.operators.push_back(&op);
    if (auto group = op.getAttrOfType<StringAttr>(dist::groupAttrName); group && node.group.empty())
      node.group = group.getValue();
    nodeOf[&op] = index;
  }
  for (auto [index, node] : llvm::enumerate(nodes))
    for (Operation *op : node.operators)
      for (Value operand : op->getOperands()) {
        auto producer = nodeOf.find(operand.getDefiningOp());
        if (producer == nodeOf.end() || producer->second == index ||
            llvm::is_contained(node.producers, producer->second))
          continue;
        node.producers.push_back(producer->second);
        nodes[producer->second].consumers.push_back(index);
      }
  return nodes;
}

} // namespace cleave
