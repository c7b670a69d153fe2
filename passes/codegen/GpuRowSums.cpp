// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch joins along one set of dimensions, and what joins more of them has to read the elements from memory:
//
//   %m = max of each row of %x                            %m = max of each row of %x             ┐ one launch:
//   %l = %x - %m                  all of %l through  ->   %l = %x - %m                           │ %l stays in
//   %s = sum of all of %l         memory                  %r = sum of each row of %l             ┘ registers
//                                                         %s = sum of %r

#include "passes/codegen/GpuRowSums.h"

#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave {

/// Loops by number.
using LoopSet = llvm::SmallSetVector<unsigned, 6>;

/// The sizes of the loops that a reduction joins.
static SmallVector<int64_t> joinedSizes(linalg::GenericOp op) {
  SmallVector<unsigned> loops;
  op.getReductionDims(loops);
  SmallVector<int64_t> sizes =
      llvm::map_to_vector(loops, [&](unsigned loop) { return op.getStaticLoopRanges()[loop]; });
  llvm::sort(sizes);
  return sizes;
}

/// The loops of rows in what leads by `map` from loops of `sizes` to elements of `tensor`: where these, or what they
/// are made of, are one a row, joined over all of it. Empty where there is nothing of the kind.
static LoopSet findRows(Value tensor, AffineMap map, ArrayRef<int64_t> sizes) {
  auto producer = tensor.getDefiningOp<linalg::GenericOp>();
  if (!producer || !map.isProjectedPermutation())
    return {};
  if (producer.getNumReductionLoops() > 0) {
    LoopSet rows;
    SmallVector<int64_t> rowSizes;
    for (unsigned loop = 0; loop < sizes.size(); ++loop)
      if (!map.isFunctionOfDim(loop)) {
        rows.insert(loop);
        rowSizes.push_back(sizes[loop]);
      }
    llvm::sort(rowSizes);
    return rowSizes == joinedSizes(producer) ? rows : LoopSet();
  }
  for (OpOperand *operand : producer.getDpsInputOperands()) {
    AffineMap result = producer.getIndexingMapsArray()[producer.getNumDpsInputs()];
    if (!result.isPermutation())
      return {};
    AffineMap toOperand = producer.getMatchingIndexingMap(operand).compose(inversePermutation(result)).compose(map);
    LoopSet rows = findRows(operand->get(), toOperand, sizes);
    if (!rows.empty())
      return rows;
  }
  return {};
}

/// The loops of the rows that the reduction's elements are made by; empty where it joins no more than those.
static LoopSet rowsToJoinFirst(linalg::GenericOp op) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  auto isReduction = [&](unsigned loop) { return op.getIteratorTypesArray()[loop] == utils::IteratorType::reduction; };
  for (OpOperand *operand : op.getDpsInputOperands()) {
    LoopSet rows = findRows(operand->get(), op.getMatchingIndexingMap(operand), sizes);
    if (!rows.empty() && rows.size() < op.getNumReductionLoops() && llvm::all_of(rows, isReduction))
      return rows;
  }
  return {};
}

/// Replaces the reduction by one along `rows` and one along what else it joins.
static void divide(linalg::GenericOp op, const LoopSet &rows, TypedAttr neutral) {
  OpBuilder builder(op);
  Location location = op.getLoc();
  Value init = op.getDpsInits()[0];
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> kept;
  SmallVector<utils::IteratorType> ofRows, ofRest;
  // What a loop of the operation becomes in the second reduction.
  SmallVector<AffineExpr> moved;
  for (auto [loop, size] : llvm::enumerate(op.getStaticLoopRanges())) {
    bool isOfRow = rows.contains(static_cast<unsigned>(loop));
    ofRows.push_back(isOfRow ? utils::IteratorType::reduction : utils::IteratorType::parallel);
    moved.push_back(isOfRow ? builder.getAffineConstantExpr(0)
                            : builder.getAffineDimExpr(static_cast<unsigned>(kept.size())));
    if (isOfRow)
      continue;
    ofRest.push_back(op.getIteratorTypesArray()[loop]);
    kept.push_back(builder.getAffineDimExpr(static_cast<unsigned>(loop)));
    shape.push_back(size);
  }
  unsigned loops = op.getNumLoops(), rest = static_cast<unsigned>(kept.size());
  MLIRContext *context = builder.getContext();

  Value start = arith::ConstantOp::create(builder, location, neutral);
  Value target = tensor::EmptyOp::create(builder, location, shape, neutral.getType());
  target = linalg::FillOp::create(builder, location, start, target).getResult(0);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap toResult = maps.back().replaceDimsAndSymbols(moved, {}, rest, 0);
  maps.back() = AffineMap::get(loops, 0, kept, context);
  auto sums = linalg::GenericOp::create(builder, location, target.getType(), op.getDpsInputs(), target, maps, ofRows);
  IRMapping mapping;
  op.getRegion().cloneInto(&sums.getRegion(), mapping);

  SmallVector<AffineMap> restMaps = {AffineMap::getMultiDimIdentityMap(rest, context), toResult};
  auto total = linalg::GenericOp::create(builder, location, init.getType(), sums.getResult(0), init, restMaps, ofRest,
                                         [&](OpBuilder &nested, Location, ValueRange elements) {
                                           Operation *join = nested.clone(*joinIn(op, 0));
                                           join->setOperands({elements[1], elements[0]});
                                           linalg::YieldOp::create(nested, location, join->getResult(0));
                                         });
  op.replaceAllUsesWith(total);
  op.erase();
}

void divideSumsByRows(Operation *container) {
  SmallVector<linalg::GenericOp> reductions;
  container->walk([&](linalg::GenericOp op) {
    if (op.getNumReductionLoops() > 1 && op.getNumResults() == 1)
      reductions.push_back(op);
  });
  for (linalg::GenericOp op : reductions) {
    Operation *join = joinIn(op, 0);
    std::optional<TypedAttr> neutral = join ? arith::getNeutralElement(join) : std::nullopt;
    LoopSet rows = neutral ? rowsToJoinFirst(op) : LoopSet();
    if (!rows.empty())
      divide(op, rows, *neutral);
  }
}

} // namespace cleave
