// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise fusion on tensors with a rule for when it pays.

#include "passes/codegen/NativeFusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave {

/// Whether the operation hands on elements as they are.
static bool movesOnly(linalg::LinalgOp op) { return isa<linalg::YieldOp>(op.getBlock()->front()); }

/// Whether elements are made of their positions and of constants alone, by a few operations: in a kernel that reads
/// other things, too, such values would be known before it runs if they were worth to be kept.
static bool countsOnly(linalg::LinalgOp op) {
  constexpr size_t most = 64;
  auto isSimple = [](Operation &inner) {
    StringRef dialect = inner.getName().getDialectNamespace();
    return isa<linalg::IndexOp, linalg::YieldOp>(inner) || dialect == "arith" || dialect == "math";
  };
  auto isConstant = [](Value input) { return isa_and_nonnull<arith::ConstantOp>(input.getDefiningOp()); };
  return llvm::all_of(op.getDpsInputs(), isConstant) && op.getNumReductionLoops() == 0 &&
         llvm::all_of(*op.getBlock(), isSimple) && op.getBlock()->getOperations().size() <= most;
}

/// Joining computes the producer's element as often as the consumer reads it: that may be more than once only where
/// there is nothing to compute. A producer with several users would be computed for each.
static bool paysToFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::LinalgOp>();
  auto consumer = dyn_cast<linalg::LinalgOp>(operand->getOwner());
  if (!producer || !consumer)
    return true;
  for (OpOperand &init : producer.getDpsInitsMutable())
    if (producer.payloadUsesValueFromOperand(&init))
      return false;
  if ((movesOnly(producer) || countsOnly(producer)) && consumer.getNumReductionLoops() == 0)
    return true;
  int64_t reads = 1;
  for (int64_t size : consumer.getStaticLoopRanges())
    reads *= size;
  int64_t elements = cast<RankedTensorType>(operand->get().getType()).getNumElements();
  return reads <= elements &&
         llvm::all_of(producer->getUsers(), [&](Operation *user) { return user == consumer.getOperation(); });
}

/// An operation that computes elements one by one, for one reader.
static bool servesOne(Operation *op) {
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  return generic && generic.getNumReductionLoops() == 0 && generic->hasOneUse();
}

/// Joining across a reshape counts dimensions of one operation apart, as those of the other are. `operand` is the
/// reshape's, or that of who reads it: elementwise operations join that nobody else reads.
static bool paysToExpand(OpOperand *operand) {
  Operation *producer = operand->get().getDefiningOp(), *consumer = operand->getOwner();
  if (isa<tensor::ExpandShapeOp>(consumer))
    return servesOne(producer);
  auto generic = dyn_cast<linalg::GenericOp>(consumer);
  return isa_and_nonnull<tensor::CollapseShapeOp>(producer) && producer->hasOneUse() && generic &&
         generic.getNumReductionLoops() == 0 && servesOne(producer->getOperand(0).getDefiningOp());
}

/// What leads from an index of the result of an operation that only permutes dimensions to that of its input; null for
/// others.
static AffineMap permutationMap(linalg::GenericOp op) {
  if (!op || op.getNumDpsInputs() != 1 || op.getNumResults() != 1 || op.getNumReductionLoops() != 0 ||
      op.getBody()->getTerminator()->getOperand(0) != op.getBody()->getArgument(0))
    return AffineMap();
  AffineMap input = op.getIndexingMapsArray()[0], result = op.getIndexingMapsArray()[1];
  if (!input.isPermutation() || !result.isPermutation())
    return AffineMap();
  return input.compose(inversePermutation(result));
}

namespace {

/// Reads what another operation permutes where it lies. Reductions read elements many times, so that they would not be
/// joined with others; but to permute is nothing to compute.
class ReadPermuted : public OpRewritePattern<linalg::GenericOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    if (op.getNumReductionLoops() == 0)
      return failure();
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    bool changed = false;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
      AffineMap permutation = permutationMap(producer);
      if (!permutation)
        continue;
      AffineMap &map = maps[operand->getOperandNumber()];
      map = permutation.compose(map);
      rewriter.modifyOpInPlace(op, [&] { operand->set(producer.getDpsInputs()[0]); });
      changed = true;
    }
    if (changed)
      rewriter.modifyOpInPlace(op, [&] { op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps)); });
    return success(changed);
  }
};

/// Reads what a reshape shows with more dimensions of one element where it lies.
class ReadUnitDims : public OpRewritePattern<linalg::GenericOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    bool changed = false;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      auto shown = operand->get().getDefiningOp<tensor::ExpandShapeOp>();
      AffineMap &map = maps[operand->getOperandNumber()];
      AffineMap kept = shown ? withoutUnitDims(shown, map, maps.back()) : AffineMap();
      if (!kept)
        continue;
      map = kept;
      rewriter.modifyOpInPlace(op, [&] { operand->set(shown.getSrc()); });
      changed = true;
    }
    if (changed)
      rewriter.modifyOpInPlace(op, [&] { op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps)); });
    return success(changed);
  }

private:
  /// `map`, which indexes what is shown, as one of what is behind it; null where more than dimensions of one element
  /// were added, or only they say how long a loop is.
  static AffineMap withoutUnitDims(tensor::ExpandShapeOp shown, AffineMap map, AffineMap result) {
    SmallVector<AffineExpr> kept;
    for (auto [group, size] : llvm::zip_equal(shown.getReassociationIndices(), shown.getSrcType().getShape())) {
      bool found = false;
      for (int64_t dim : group) {
        AffineExpr position = map.getResult(static_cast<unsigned>(dim));
        if (!found && shown.getResultType().getDimSize(dim) == size) {
          kept.push_back(position);
          found = true;
        } else if (shown.getResultType().getDimSize(dim) != 1 ||
                   !(isa<AffineConstantExpr>(position) || result.getResultPosition(position))) {
          return AffineMap();
        }
      }
      if (!found)
        return AffineMap();
    }
    return AffineMap::get(map.getNumDims(), 0, kept, map.getContext());
  }
};

/// Writes the result of a reduction that begins with one value everywhere in the order in which its only user, which
/// computes or moves elements one by one, reads it.
class WritePermuted : public OpRewritePattern<linalg::GenericOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    if (op.getNumReductionLoops() != 0 || op.getNumResults() != 1 || !op.getIndexingMapsArray().back().isIdentity())
      return failure();
    for (OpOperand *operand : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(operand);
      auto reduction = operand->get().getDefiningOp<linalg::GenericOp>();
      if (!map.isPermutation() || map.isIdentity() || !reduction || !mayBePermuted(reduction))
        continue;
      Value written = permute(reduction, map, rewriter);
      if (permutationMap(op)) {
        rewriter.replaceOp(op, written);
      } else {
        SmallVector<AffineMap> maps = op.getIndexingMapsArray();
        maps[operand->getOperandNumber()] = rewriter.getMultiDimIdentityMap(map.getNumDims());
        rewriter.modifyOpInPlace(op, [&] {
          operand->set(written);
          op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
        });
      }
      rewriter.eraseOp(reduction);
      return success();
    }
    return failure();
  }

private:
  static bool mayBePermuted(linalg::GenericOp reduction) {
    return reduction.getNumResults() == 1 && reduction.getNumReductionLoops() != 0 && reduction->hasOneUse() &&
           reduction.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  }

  /// The reduction with dimension `i` of its result where `map` takes dimension map(i) from.
  static Value permute(linalg::GenericOp reduction, AffineMap map, PatternRewriter &rewriter) {
    rewriter.setInsertionPoint(reduction);
    auto fill = reduction.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
    auto type = cast<RankedTensorType>(reduction.getResultTypes()[0]);
    type = type.clone(applyPermutationMap(inversePermutation(map), type.getShape()));
    Value target = tensor::EmptyOp::create(rewriter, fill.getLoc(), type.getShape(), type.getElementType());
    target = linalg::FillOp::create(rewriter, fill.getLoc(), fill.getInputs()[0], target).getResult(0);
    SmallVector<AffineMap> maps = reduction.getIndexingMapsArray();
    maps.back() = inversePermutation(map).compose(maps.back());
    IRMapping mapping;
    mapping.map(reduction.getDpsInits()[0], target);
    auto written = cast<linalg::GenericOp>(rewriter.clone(*reduction, mapping));
    rewriter.modifyOpInPlace(written, [&] {
      written.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      written.getResult(0).setType(type);
    });
    return written.getResult(0);
  }
};

} // namespace

void fuseLinalgOperations(Operation *container) {
  RewritePatternSet patterns(container->getContext());
  patterns.add<ReadPermuted, ReadUnitDims, WritePermuted>(container->getContext());
  linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, paysToExpand);
  linalg::populateElementwiseOpsFusionPatterns(patterns, paysToFuse);
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  (void)applyPatternsGreedily(container, std::move(patterns), config);
}

} // namespace cleave
