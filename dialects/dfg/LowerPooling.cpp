// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling: a reduction over the windows of a padded input; averages divide by the number of elements that count.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

namespace cleave::dfg {

namespace {
/// One spatial dimension of a pooling.
struct PoolDim {
  int64_t input, window, stride, before, dilation;
};
} // namespace

/// The number of window elements that lie inside the input, at a position of the result.
static Value elementsInside(const ElementBuilder &e, Value position, const PoolDim &dim) {
  OpBuilder &builder = e.getBuilder();
  Location location = e.getLocation();
  // Element k lies at start + k * dilation; those with 0 <= start + k * dilation < input count.
  Value start = e.sub(e.mul(position, e.index(dim.stride)), e.index(dim.before));
  auto divided = [&](Value value) {
    return arith::DivSIOp::create(builder, location, value, e.index(dim.dilation)).getResult();
  };
  Value zero = e.index(0);
  Value first = divided(e.add(e.max(e.sub(zero, start), zero), e.index(dim.dilation - 1)));
  Value room = e.max(e.sub(e.index(dim.input), start), zero);
  Value end = e.min(divided(e.add(room, e.index(dim.dilation - 1))), e.index(dim.window));
  return e.max(e.sub(end, first), zero);
}

/// Divides each window's sum by the number of its elements inside the input.
static Value dividedByCount(const LinalgBuilder &lower, Value sum, ArrayRef<PoolDim> dims, Type element) {
  ArrayRef<int64_t> shape = tensorType(sum).getShape();
  return lower.map(
      shape, element, sum, lower.identity(shape.size()), [&](const ElementBuilder &e, ValueRange elements) {
        OpBuilder &builder = e.getBuilder();
        Value count = e.index(1);
        for (auto [i, dim] : llvm::enumerate(dims))
          count = e.mul(count, elementsInside(e, linalg::IndexOp::create(builder, e.getLocation(), i + 2), dim));
        Value number = arith::IndexCastOp::create(builder, e.getLocation(), builder.getI64Type(), count);
        return e.convert(e.div(elements[0], e.convert(number, elements[0].getType())), element);
      });
}

FailureOr<SmallVector<Value>> PoolOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), input = tensorType(operands[0]);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  bool isMax = getKind() == PoolKind::Max;
  unsigned rank = result.getRank(), space = rank - 2;
  ArrayRef<int64_t> pads = getPads();
  SmallVector<int64_t> low(2, 0), high(2, 0);
  low.append(pads.begin(), pads.begin() + space);
  high.append(pads.begin() + space, pads.end());
  auto neutral = [&](Type type) { return isMax ? scalars.lowest(type) : scalars.constant(type, 0); };
  Value padded = lower.padded(operands[0], low, high, neutral(input.getElementType()));

  // Loops: those of the result, then the window, of which a tensor without elements tells the sizes.
  SmallVector<AffineExpr> from = {lower.dim(0), lower.dim(1)}, window;
  SmallVector<int64_t> reduced;
  SmallVector<PoolDim> dims;
  bool partial = false;
  for (unsigned i = 0; i < space; ++i) {
    from.push_back(lower.dim(2 + i) * getStrides()[i] + lower.dim(rank + i) * getDilations()[i]);
    window.push_back(lower.dim(rank + i));
    reduced.push_back(rank + i);
    dims.push_back({input.getDimSize(i + 2), getWindow()[i], getStrides()[i], pads[i], getDilations()[i]});
    partial |= pads[i] > 0 || pads[space + i] > 0;
  }
  unsigned loops = rank + space;
  Type wide = computeType(input.getElementType());
  SmallVector<AffineMap> maps = {lower.mapOf(loops, from), lower.mapOf(loops, window), lower.without(loops, reduced)};
  Value sizes = lower.empty(getWindow(), builder.getI1Type());
  Value joined = lower.reduceInto(lower.filled(result.getShape(), neutral(wide)), {padded, sizes}, maps, reduced,
                                  [&](const ElementBuilder &e, ValueRange elements) {
                                    Value value = e.widen(elements[0]);
                                    return isMax ? e.max(elements[2], value) : e.add(elements[2], value);
                                  });
  if (isMax)
    return SmallVector<Value>{lower.converted(joined, result.getElementType())};
  if (partial && !getCountIncludePad())
    return SmallVector<Value>{dividedByCount(lower, joined, dims, result.getElementType())};
  int64_t count = 1;
  for (int64_t size : getWindow())
    count *= size;
  Value average = lower.map(result.getShape(), result.getElementType(), joined, lower.identity(rank),
                            [&](const ElementBuilder &e, ValueRange elements) {
                              Value divisor = e.constant(elements[0].getType(), static_cast<double>(count));
                              return e.convert(e.div(elements[0], divisor), result.getElementType());
                            });
  return SmallVector<Value>{average};
}

} // namespace cleave::dfg
