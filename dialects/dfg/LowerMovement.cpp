// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that move elements: one linalg operation that reads at a computed index, or slices inserted into a result.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave::dfg {

using Lowered = FailureOr<SmallVector<Value>>;

/// A result whose element at an index is the input's element at `source` of it.
static Lowered moved(Operation *op, OpBuilder &builder, Value input,
                     llvm::function_ref<SmallVector<AffineExpr>(const LinalgBuilder &)> source) {
  LinalgBuilder lower(builder, op->getLoc());
  RankedTensorType result = tensorType(op->getResult(0));
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  return SmallVector<Value>{lower.map(result.getShape(), result.getElementType(), input,
                                      lower.mapOf(result.getRank(), source(lower)),
                                      [](const ElementBuilder &, ValueRange elements) { return elements[0]; })};
}

Lowered ReshapeOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  return SmallVector<Value>{lower.reshaped(operands[0], tensorType(getResult()).getShape())};
}

Lowered TransposeOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  return moved(*this, builder, operands[0], [&](const LinalgBuilder &lower) {
    SmallVector<AffineExpr> source(getPermutation().size());
    for (auto [i, dim] : llvm::enumerate(getPermutation()))
      source[dim] = lower.dim(i);
    return source;
  });
}

Lowered BroadcastOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  return moved(*this, builder, operands[0], [&](const LinalgBuilder &lower) {
    AffineMap map = lower.broadcast(tensorType(operands[0]).getShape(), tensorType(getResult()).getShape());
    return llvm::to_vector(map.getResults());
  });
}

Lowered SliceOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  return SmallVector<Value>{lower.sliced(operands[0], getStarts(), result.getShape(), getStrides())};
}

Lowered ReverseOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  return moved(*this, builder, operands[0], [&](const LinalgBuilder &lower) {
    SmallVector<AffineExpr> source;
    for (auto [i, size] : llvm::enumerate(tensorType(operands[0]).getShape()))
      source.push_back(llvm::is_contained(getDims(), static_cast<int64_t>(i)) ? size - 1 - lower.dim(i) : lower.dim(i));
    return source;
  });
}

Lowered ConcatOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  Value joined = lower.empty(result.getShape(), result.getElementType());
  SmallVector<int64_t> offsets(result.getRank(), 0);
  for (Value operand : operands) {
    if (tensorType(operand).getNumElements() > 0)
      joined = lower.inserted(operand, joined, offsets);
    offsets[getDim()] += tensorType(operand).getDimSize(getDim());
  }
  return SmallVector<Value>{joined};
}

Lowered PadOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType input = tensorType(operands[0]), result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  if (input == result)
    return SmallVector<Value>{operands[0]};
  Value target = lower.map(result.getShape(), result.getElementType(), operands[1], lower.mapOf(result.getRank(), {}),
                           [](const ElementBuilder &, ValueRange elements) { return elements[0]; });
  if (input.getNumElements() == 0)
    return SmallVector<Value>{target};
  return SmallVector<Value>{lower.inserted(operands[0], target, getLow())};
}

Lowered GatherOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType input = tensorType(operands[0]), indices = tensorType(operands[1]);
  RankedTensorType result = tensorType(getResult());
  unsigned dim = getDim(), indexRank = indices.getRank();
  int64_t size = input.getDimSize(dim);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  if (size == 0)
    return failure();
  SmallVector<AffineExpr> position;
  for (unsigned i = 0; i < indexRank; ++i)
    position.push_back(lower.dim(dim + i));
  return SmallVector<Value>{lower.map(
      result.getShape(), result.getElementType(), operands[1], lower.mapOf(result.getRank(), position),
      [&](const ElementBuilder &e, ValueRange elements) {
        OpBuilder &nested = e.getBuilder();
        Location location = e.getLocation();
        Value at = arith::IndexCastOp::create(nested, location, nested.getIndexType(), elements[0]);
        at = e.select(e.less(at, e.index(0)), e.add(at, e.index(size)), at);
        at = e.min(e.max(at, e.index(0)), e.index(size - 1));
        SmallVector<Value> source;
        for (unsigned i = 0, rank = input.getRank(); i < rank; ++i)
          source.push_back(
              i == dim ? at : linalg::IndexOp::create(nested, location, i < dim ? i : i + indexRank - 1).getResult());
        return tensor::ExtractOp::create(nested, location, operands[0], source).getResult();
      })};
}

Lowered IotaOp::lowerToLinalg(OpBuilder &builder, ValueRange) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  Type element = result.getElementType();
  return SmallVector<Value>{lower.map(result.getShape(), element, {}, {}, [&](const ElementBuilder &e, ValueRange) {
    OpBuilder &nested = e.getBuilder();
    Value index = linalg::IndexOp::create(nested, e.getLocation(), getDim());
    return e.convert(arith::IndexCastOp::create(nested, e.getLocation(), nested.getI64Type(), index), element);
  })};
}

Lowered MaskOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType type = tensorType(operands[0]);
  if (type.getNumElements() == 0)
    return SmallVector<Value>{operands[0]};
  SmallVector<AffineMap> maps(operands.size(), AffineMap::get(type.getRank(), 0, builder.getContext()));
  maps[0] = lower.identity(type.getRank());
  double fill = getFill().convertToDouble();
  return SmallVector<Value>{lower.map(
      type.getShape(), type.getElementType(), operands, maps, [&](const ElementBuilder &e, ValueRange elements) {
        OpBuilder &nested = e.getBuilder();
        Type element = type.getElementType();
        Value value = elements[0];
        Value other =
            std::isinf(fill) ? (fill < 0 ? e.lowest(element) : e.highest(element)) : e.constant(element, fill);
        for (auto [k, dim] : llvm::enumerate(getDims())) {
          Value index = arith::IndexCastOp::create(nested, e.getLocation(), nested.getI64Type(),
                                                   linalg::IndexOp::create(nested, e.getLocation(), dim));
          // Positions are below what the dimension holds, so most divisions have no effect.
          int64_t inner = getInner()[k], size = getSizes()[k];
          if (inner != 1)
            index = e.div(index, e.integer(nested.getI64Type(), inner));
          if (inner * size != type.getDimSize(dim))
            index = e.remainder(index, e.integer(nested.getI64Type(), size));
          value = e.select(e.less(index, elements[1 + k]), value, other);
        }
        return value;
      })};
}

} // namespace cleave::dfg
