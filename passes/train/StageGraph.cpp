// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depths by one walk, and by one back for what is only prepared; then one stage a mesh and depth.

#include "passes/train/StageGraph.h"

#include "passes/planner/ModelNode.h"

#include <map>

using namespace mlir;

namespace cleave {

using Depths = llvm::MapVector<Operation *, unsigned>;

static bool areApart(Operation *left, Operation *right) {
  return dist::getPlace(left).getMesh() != dist::getPlace(right).getMesh();
}

/// The changes of mesh that lead to each operator.
static Depths findDepths(dfg::GraphOp graph) {
  Depths depths;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (followsItsUsers(&op))
      continue;
    unsigned depth = 0;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && depths.contains(producer))
        depth = std::max(depth, depths[producer] + areApart(producer, &op));
    depths[&op] = depth;
  }
  return depths;
}

/// Operators that prepare what others compute with: labels, masks, weights in another shape. They depend on inputs
/// alone or on parameters alone.
static llvm::DenseSet<Operation *> findPreparations(const Depths &depths) {
  enum : unsigned { Nothing = 0, Inputs = 1, Parameters = 2, Both = 3 };
  llvm::DenseMap<Operation *, unsigned> sources;
  llvm::DenseSet<Operation *> preparations;
  for (const auto &[op, depth] : depths) {
    unsigned &from = sources[op];
    from = isa<dfg::ReadOp>(op) ? Parameters : Nothing;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      from |= !producer                    ? unsigned(Inputs)
              : isa<dfg::ReadOp>(producer) ? unsigned(Parameters)
                                           : sources.lookup(producer);
    }
    if (from != Both)
      preparations.insert(op);
  }
  return preparations;
}

/// What is prepared is prepared with the first of its users: on the way of labels to a loss, or of a bias to a late
/// layer, there is no stage that would work beside those of the model.
static void sinkPreparations(Depths &depths) {
  llvm::DenseSet<Operation *> preparations = findPreparations(depths);
  llvm::DenseMap<Attribute, unsigned> starts;
  for (const auto &[op, depth] : depths)
    if (!preparations.contains(op)) {
      auto [start, isNew] = starts.try_emplace(dist::getPlace(op).getMesh(), depth);
      start->second = std::min(start->second, depth);
    }
  for (auto &[op, depth] : llvm::reverse(depths)) {
    if (!preparations.contains(op))
      continue;
    // What nobody uses, as a counter's new value, waits for its mesh to begin.
    std::optional<unsigned> first;
    if (auto start = starts.find(dist::getPlace(op).getMesh()); op->use_empty() && start != starts.end())
      first = start->second;
    for (Operation *user : op->getUsers())
      if (auto found = depths.find(user); found != depths.end()) {
        unsigned before = found->second - areApart(op, user);
        first = std::min(first.value_or(before), before);
      }
    depth = std::max(depth, first.value_or(depth));
  }
}

SmallVector<Segment> Stage::getSegments() const {
  SmallVector<Segment> segments;
  ArrayRef<Operation *> left = operators;
  while (!left.empty()) {
    dist::RecomputeAttr own;
    size_t size = 0;
    for (; size != left.size(); ++size) {
      dist::RecomputeAttr next = dist::getRecompute(left[size]);
      if (next && own && next.getSegment() != own.getSegment())
        break;
      own = own ? own : next;
    }
    segments.push_back({left.take_front(size), own});
    left = left.drop_front(size);
  }
  return segments;
}

std::vector<Stage> findStages(dfg::GraphOp graph) {
  Depths depths = findDepths(graph);
  sinkPreparations(depths);
  // By depth and the mesh's first appearance.
  llvm::MapVector<Attribute, unsigned> meshes;
  std::map<std::pair<unsigned, unsigned>, Stage> byDepth;
  for (auto [op, depth] : depths) {
    FlatSymbolRefAttr mesh = dist::getPlace(op).getMesh();
    auto number = static_cast<unsigned>(meshes.size());
    Stage &stage = byDepth[{depth, meshes.try_emplace(mesh, number).first->second}];
    stage.mesh = mesh;
    stage.depth = depth;
    stage.operators.push_back(op);
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
