// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depths by one walk, then one stage a mesh and depth.

#include "passes/train/StageGraph.h"

#include "passes/planner/ModelNode.h"

#include <map>

using namespace mlir;

namespace cleave {

std::vector<Stage> findStages(dfg::GraphOp graph) {
  llvm::DenseMap<Operation *, unsigned> depths;
  // By depth and the mesh's first appearance.
  llvm::MapVector<Attribute, unsigned> meshes;
  std::map<std::pair<unsigned, unsigned>, Stage> byDepth;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (followsItsUsers(&op))
      continue;
    FlatSymbolRefAttr mesh = dist::getPlace(&op).getMesh();
    unsigned depth = 0;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && depths.contains(producer))
        depth = std::max(depth, depths[producer] + (dist::getPlace(producer).getMesh() != mesh));
    depths[&op] = depth;
    auto number = static_cast<unsigned>(meshes.size());
    Stage &stage = byDepth[{depth, meshes.try_emplace(mesh, number).first->second}];
    stage.mesh = mesh;
    stage.depth = depth;
    stage.operators.push_back(&op);
  }
  std::vector<Stage> stages;
  llvm::DenseMap<Operation *, unsigned> stageOf;
  for (auto &[key, stage] : byDepth) {
    for (Operation *op : stage.operators)
      stageOf[op] = static_cast<unsigned>(stages.size());
    stages.push_back(std::move(stage));
  }
  for (auto [index, stage] : llvm::enumerate(stages))
    for (Operation *op : stage.operators)
      for (Value operand : op->getOperands())
        if (auto producer = stageOf.find(operand.getDefiningOp());
            producer != stageOf.end() && producer->second != index)
          stage.inputs.insert(producer->second);
  return stages;
}

} // namespace cleave
