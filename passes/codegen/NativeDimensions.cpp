// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds loops that run over the same index, by joining loops and tensor dimensions into classes.

#include "passes/codegen/NativeDimensions.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

static ArrayRef<int64_t> shapeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); }

SharedDimensions::SharedDimensions(Block &block, size_t count) {
  number(block, count);
  for (Operation &op : block.without_terminator()) {
    if (isa<linalg::LinalgOp>(op) && !loopNodes.count(&op))
      break;
    connect(op);
  }
  if (ops.empty())
    return;
  linalg::LinalgOp last = ops.back();
  for (unsigned loop = 0; loop < last.getNumLoops(); ++loop)
    if (auto dimension = commonAt(loopNodes.lookup(last) + loop))
      common.push_back(*dimension);
}

/// Gives a node to every loop, and to every dimension of a tensor that an operation of the block computes.
void SharedDimensions::number(Block &block, size_t count) {
  Node next = 0;
  for (Operation &op : block.without_terminator()) {
    if (isa<linalg::LinalgOp>(op) && ops.size() == count)
      break;
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      ops.push_back(linalgOp);
      loopNodes[&op] = next;
      next += linalgOp.getNumLoops();
    }
    bool shows =
        isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ExtractSliceOp>(op) && isTracked(op.getOperand(0));
    if (!isa<linalg::LinalgOp, tensor::InsertSliceOp>(op) && !shows)
      continue;
    for (Value result : op.getResults()) {
      tensors.push_back(result);
      tensorNodes[result] = next;
      next += shapeOf(result).size();
    }
  }
  for (Node i = 0; i < next; ++i)
    classes.insert(i);
}

/// A slice and the tensor that it is a part of: the dimensions of which it has all are the same.
void SharedDimensions::connectSlice(Value slice, Value whole) {
  for (unsigned dim = 0; dim < shapeOf(whole).size(); ++dim) {
    bool all = shapeOf(slice)[dim] == shapeOf(whole)[dim];
    if (all && isTracked(slice) && isTracked(whole))
      classes.unionSets(node(slice, dim), node(whole, dim));
    if (!all && isTracked(slice))
      poisoned.insert(node(slice, dim));
    if (!all && isTracked(whole))
      poisoned.insert(node(whole, dim));
  }
}

void SharedDimensions::connect(Operation &op) {
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return connectOperands(linalgOp);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return connectSlice(slice.getResult(), slice.getSource());
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    connectSlice(insert.getSource(), insert.getResult());
    if (isTracked(insert.getDest()))
      for (unsigned dim = 0; dim < shapeOf(insert.getResult()).size(); ++dim)
        classes.unionSets(node(insert.getResult(), dim), node(insert.getDest(), dim));
    return;
  }
  if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op) || !isTracked(op.getOperand(0)))
    return;
  // The leading dimensions that both shapes have are the same; what the others mean differs.
  Value source = op.getOperand(0), result = op.getResult(0);
  ArrayRef<int64_t> from = shapeOf(source), to = shapeOf(result);
  size_t same = 0;
  while (same < from.size() && same < to.size() && from[same] == to[same])
    ++same;
  for (unsigned dim = 0; dim < same; ++dim)
    classes.unionSets(node(source, dim), node(result, dim));
  for (unsigned dim = same; dim < from.size(); ++dim)
    poisoned.insert(node(source, dim));
  for (unsigned dim = same; dim < to.size(); ++dim)
    poisoned.insert(node(result, dim));
}

void SharedDimensions::connectOperands(linalg::LinalgOp op) {
  Node first = loopNodes.lookup(op);
  auto connectMap = [&](Value tensor, AffineMap map) {
    if (!isTracked(tensor))
      return;
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      if (auto loop = dyn_cast<AffineDimExpr>(expr))
        classes.unionSets(node(tensor, dim), first + loop.getPosition());
      else
        poisoned.insert(node(tensor, dim));
    }
  };
  for (OpOperand &operand : op->getOpOperands())
    connectMap(operand.get(), op.getMatchingIndexingMap(&operand));
  for (OpResult result : op->getResults())
    connectMap(result, op.getMatchingIndexingMap(op.getDpsInitOperand(result.getResultNumber())));
  // Elements that the body reads by itself lie anywhere, unless the index is that of a loop.
  op.getBlock()->walk([&](tensor::ExtractOp extract) {
    if (!isTracked(extract.getTensor()))
      return;
    for (auto [dim, position] : llvm::enumerate(extract.getIndices())) {
      if (auto loop = position.getDefiningOp<linalg::IndexOp>())
        classes.unionSets(node(extract.getTensor(), dim), first + loop.getDim());
      else
        poisoned.insert(node(extract.getTensor(), dim));
    }
  });
}

std::optional<CommonDimension> SharedDimensions::commonAt(Node loop) const {
  for (Node member : llvm::make_range(classes.findLeader(loop), classes.member_end()))
    if (poisoned.contains(member))
      return std::nullopt;
  Node leader = classes.getLeaderValue(loop);
  auto memberOf = [&](Node first, unsigned count) {
    std::optional<unsigned> found;
    unsigned members = 0;
    for (unsigned i = 0; i < count; ++i)
      if (classes.getLeaderValue(first + i) == leader) {
        found = i;
        ++members;
      }
    return members == 1 ? found : std::nullopt;
  };
  CommonDimension dimension;
  for (linalg::LinalgOp op : ops) {
    auto own = memberOf(loopNodes.lookup(op), op.getNumLoops());
    if (!own || op.getIteratorTypesArray()[*own] != utils::IteratorType::parallel)
      return std::nullopt;
    dimension.loops.push_back(*own);
    dimension.size = op.getStaticLoopRanges()[*own];
  }
  for (Value tensor : tensors)
    if (!memberOf(tensorNodes.lookup(tensor), shapeOf(tensor).size()))
      return std::nullopt;
  return dimension;
}

std::optional<unsigned> SharedDimensions::dimensionOf(Value tensor, unsigned commonIndex) const {
  if (!isTracked(tensor))
    return std::nullopt;
  Node leader = classes.getLeaderValue(loopNodes.lookup(ops.front()) + common[commonIndex].loops.front());
  for (unsigned dim = 0; dim < shapeOf(tensor).size(); ++dim)
    if (classes.getLeaderValue(node(tensor, dim)) == leader)
      return dim;
  return std::nullopt;
}

} // namespace cleave
