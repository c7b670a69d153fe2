// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sees blocked operands with one dimension more, and the result as a blocked value again.

#include "passes/codegen/WholeBlocks.h"

#include "passes/codegen/DimensionOrder.h"
#include "passes/codegen/LayoutTypes.h"

#include "runtime/MemoryLayout.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Accumulation.h"
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave {

namespace {

/// Which dimension is cut into blocks of which size.
struct Blocks {
  int64_t dim = 0, size = 0;

  /// Whether values of that shape consist of whole blocks.
  bool divide(ArrayRef<int64_t> shape) const { return shape[dim] % size == 0; }

  /// A row-major type's bytes in blocks.
  RankedTensorType laid(RankedTensorType type) const {
    runtime::TensorType result = toRuntimeType(type);
    result.layout = runtime::blockedLayout(result.shape, dim, size);
    return fromRuntimeType(type.getContext(), result);
  }

  /// The row-major type with one dimension more that is the same bytes: [.., C, ..] as [.., C/size, .., size].
  RankedTensorType opened(RankedTensorType type) const {
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] /= size;
    shape.push_back(size);
    return RankedTensorType::get(shape, type.getElementType());
  }
};

} // namespace

/// The blocks in which a value lies; none where it lies otherwise, or with padding.
static std::optional<Blocks> blocksOf(RankedTensorType type) {
  plan::LayoutAttr layout = plan::getLayout(type);
  if (!layout || layout.getBlocks().size() != 1 || layout.getPadded() != type.getShape())
    return std::nullopt;
  Blocks blocks{layout.getDims()[0], layout.getBlocks()[0]};
  RankedTensorType plain = plan::withoutLayout(type);
  if (!blocks.divide(type.getShape()) || runtime::needsReorder(toRuntimeType(type), toRuntimeType(blocks.laid(plain))))
    return std::nullopt;
  return blocks;
}

/// The bytes of `value` as a row-major type.
static Value seen(OpBuilder &builder, Value value, RankedTensorType as) {
  // It lies as it does because the operator in front has computed it so.
  if (auto view = value.getDefiningOp<plan::ViewOp>(); view && view.getInput().getType() == as)
    return view.getInput();
  return plan::ViewOp::create(builder, value.getLoc(), as, value);
}

/// An operand of an operator with a result of `rank` dimensions, for the operator on blocks; null where it has the
/// blocked dimension otherwise.
static Value onBlocks(OpBuilder &builder, Value operand, int64_t rank, const Blocks &blocks, ReplacedValues &values) {
  RankedTensorType type = plan::withoutLayout(tensorType(operand));
  if (type.getNumElements() == 1 && type.getRank() == 0)
    return operand;
  SmallVector<int64_t> shape(rank - type.getRank(), 1);
  llvm::append_range(shape, type.getShape());
  type = RankedTensorType::get(shape, type.getElementType());
  if (shape[blocks.dim] == 1) {
    shape.push_back(1);
    return seen(builder, values.denseOf(builder, operand), RankedTensorType::get(shape, type.getElementType()));
  }
  if (!blocks.divide(shape))
    return nullptr;
  // One value for each index of the blocked dimension lies in blocks as it is.
  if (type.getNumElements() == shape[blocks.dim])
    return seen(builder, values.denseOf(builder, operand), blocks.opened(type));
  if (tensorType(operand).getRank() != rank)
    return nullptr;
  return seen(builder, values.inLayout(builder, operand, blocks.laid(type)), blocks.opened(type));
}

static Value largestOperand(Operation *op) {
  return *llvm::max_element(op->getOperands(), [](Value a, Value b) {
    return tensorType(a).getNumElements() < tensorType(b).getNumElements();
  });
}

/// Of the largest operands the first one that lies in blocks, if there is one.
static Value largestInBlocks(Operation *op, const ReplacedValues &values) {
  Value largest = largestOperand(op);
  for (Value operand : op->getOperands())
    if (tensorType(operand).getNumElements() == tensorType(largest).getNumElements() &&
        blocksOf(tensorType(values.current(operand))))
      return operand;
  return largest;
}

/// What an elementwise operator repeats by itself where another operand has its result's shape.
static Value beforeBroadcast(Value operand, const ReplacedValues &values) {
  auto broadcast = operand.getDefiningOp<dfg::BroadcastOp>();
  return broadcast && !values.isLaidOut(operand) ? broadcast.getInput() : operand;
}

bool computeOnBlocks(Operation *op, ReplacedValues &values) {
  if (!isa<ElementwiseInterface, dfg::ConcatOp>(op) || op->getNumOperands() == 0 || op->getNumResults() != 1 ||
      op->hasAttr(dist::accumulatesAttrName))
    return false;
  RankedTensorType result = tensorType(op->getResult(0));
  Value largest = largestInBlocks(op, values);
  std::optional<Blocks> blocks = blocksOf(tensorType(values.current(largest)));
  if (!blocks || tensorType(largest).getRank() != result.getRank() || !blocks->divide(result.getShape()))
    return false;
  bool repeats = isa<ElementwiseInterface>(op) && tensorType(largest).getShape() == result.getShape();
  OpBuilder builder(op);
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    if (mapping.contains(operand))
      continue;
    Value own = repeats && operand != largest ? beforeBroadcast(operand, values) : operand;
    Value seen = onBlocks(builder, own, result.getRank(), *blocks, values);
    if (!seen)
      return false;
    mapping.map(operand, seen);
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(blocks->opened(result));
  values.replace(op);
  values.setCurrent(op->getResult(0),
                    plan::ViewOp::create(builder, op->getLoc(), blocks->laid(result), made->getResult(0)));
  return true;
}

/// `reduce` of another value along other dimensions.
static Value reduceLike(OpBuilder &builder, dfg::ReduceOp reduce, Value value, ArrayRef<int64_t> dims) {
  auto made = dfg::ReduceOp::create(builder, reduce.getLoc(), value, reduce.getKindAttr(),
                                    builder.getDenseI64ArrayAttr(dims), reduce.getKeepDimsAttr());
  // Sums may be wider than what they add.
  made.getResult().setType(made.getType().clone(reduce.getType().getElementType()));
  return made;
}

bool reduceBlocks(Operation *op, ReplacedValues &values) {
  auto reduce = dyn_cast<dfg::ReduceOp>(op);
  if (!reduce || op->hasAttr(dist::accumulatesAttrName))
    return false;
  Value input = reduce.getInput();
  std::optional<Blocks> blocks = blocksOf(tensorType(values.current(input)));
  if (!blocks)
    return false;
  RankedTensorType from = plan::withoutLayout(tensorType(input)), result = reduce.getType();
  SmallVector<int64_t> dims = llvm::to_vector(reduce.getDims());
  llvm::sort(dims);
  bool isReduced = llvm::is_contained(dims, blocks->dim);
  OpBuilder builder(op);
  Value made = seen(builder, values.current(input), blocks->opened(from));
  if (isReduced) {
    dims.push_back(from.getRank());
  } else if (dims.size() > 1) {
    // In two steps: each lane adds its numbers one after the other, and a sum of sums is more exact than a long one.
    made = reduceLike(builder, reduce, made, ArrayRef(dims).drop_front());
    dims.truncate(1);
  }
  made = reduceLike(builder, reduce, made, dims);
  values.replace(op);
  // The blocked dimension of the result. Where nothing follows it, blocks in a row are the dimension.
  Blocks left = *blocks;
  if (!reduce.getKeepDims())
    left.dim -= llvm::count_if(reduce.getDims(), [&](int64_t dim) { return dim < blocks->dim; });
  if (isReduced || llvm::all_of(result.getShape().drop_front(left.dim + 1), [](int64_t size) { return size == 1; })) {
    if (made.getType() != result)
      made = plan::ViewOp::create(builder, op->getLoc(), result, made);
    reduce.getResult().replaceAllUsesWith(made);
  } else {
    values.setCurrent(reduce.getResult(), plan::ViewOp::create(builder, op->getLoc(), left.laid(result), made));
  }
  return true;
}

bool joinInOrder(Operation *op, ReplacedValues &values) {
  auto concat = dyn_cast<dfg::ConcatOp>(op);
  if (!concat)
    return false;
  auto order = permutationOf(tensorType(values.current(largestOperand(op))));
  if (!order)
    return false;
  OpBuilder builder(op);
  SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    RankedTensorType type = plan::withoutLayout(tensorType(operand));
    parts.push_back(seen(builder, values.inLayout(builder, operand, laidType(type, *order)), permuted(type, *order)));
  }
  int64_t dim = llvm::find(*order, static_cast<int64_t>(concat.getDim())) - order->begin();
  RankedTensorType result = tensorType(concat.getResult());
  Value made = dfg::ConcatOp::create(builder, op->getLoc(), permuted(result, *order), parts, dim);
  values.replace(op);
  values.setCurrent(concat.getResult(), plan::ViewOp::create(builder, op->getLoc(), laidType(result, *order), made));
  return true;
}

} // namespace cleave
