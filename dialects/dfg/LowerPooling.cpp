// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling: a reduction over the windows of a padded input; averages divide by the number of elements that count.

#include "dialects/dfg/PoolLoops.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

namespace cleave::dfg {

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

//===-- pool_gradient -----------------------------------------------------------------------------------------===//

static Value loopIndex(const ElementBuilder &e, unsigned loop) {
  return linalg::IndexOp::create(e.getBuilder(), e.getLocation(), loop);
}

PoolLoops::PoolLoops(const LinalgBuilder &lower, PoolGradientOp op)
    : lower(lower), rank(tensorType(op.getResult()).getRank()) {
  wide = {lower.dim(0), lower.dim(1)};
  for (unsigned i = 0; i < rank - 2; ++i) {
    wide.push_back(lower.dim(2 + i) * op.getStrides()[i] + lower.dim(rank + i) * op.getDilations()[i]);
    window.push_back(lower.dim(rank + i));
    windowLoops.push_back(rank + i);
    dims.push_back({tensorType(op.getResult()).getDimSize(i + 2), op.getWindow()[i], op.getStrides()[i],
                    op.getPads()[i], op.getDilations()[i]});
  }
  sizes = lower.empty(op.getWindow(), lower.getBuilder().getI1Type());
}

Value PoolLoops::paddedPosition(const ElementBuilder &e, size_t dim) const {
  return e.add(e.mul(loopIndex(e, 2 + dim), e.index(dims[dim].stride)),
               e.mul(loopIndex(e, rank + dim), e.index(dims[dim].dilation)));
}

Value PoolLoops::number(const ElementBuilder &e) const {
  Value number = e.index(0);
  for (auto [i, dim] : llvm::enumerate(dims))
    number = e.add(e.mul(number, e.index(dim.window)), loopIndex(e, rank + i));
  return arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), e.getBuilder().getI64Type(), number);
}

Value PoolLoops::isInside(const ElementBuilder &e) const {
  Value inside = e.integer(e.getBuilder().getI1Type(), 1);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Value at = paddedPosition(e, i);
    Value belongs = e.min(e.lessOrEqual(e.index(dim.before), at), e.less(at, e.index(dim.before + dim.input)));
    inside = e.min(inside, belongs);
  }
  return inside;
}

SmallVector<Value> PoolLoops::inputIndex(const ElementBuilder &e) const {
  SmallVector<Value> index = {loopIndex(e, 0), loopIndex(e, 1)};
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Value at = e.sub(paddedPosition(e, i), e.index(dim.before));
    index.push_back(e.min(e.max(at, e.index(0)), e.index(dim.input - 1)));
  }
  return index;
}

Value isLarger(const ElementBuilder &e, Value value, Value best) {
  auto isNumber = [&](Value x) { return e.equal(x, x); };
  return e.max(e.less(best, value), e.less(isNumber(value), isNumber(best)));
}

/// The number of each window's first largest element; NaN counts as larger than every number.
static Value firstLargest(const PoolLoops &loops, PoolGradientOp op, Value input) {
  const LinalgBuilder &lower = loops.lower;
  ElementBuilder scalars(lower.getBuilder(), op.getLoc());
  ArrayRef<int64_t> shape = tensorType(op.getCotangent()).getShape(), pads = op.getPads();
  SmallVector<int64_t> low(2, 0), high(2, 0);
  low.append(pads.begin(), pads.begin() + pads.size() / 2);
  high.append(pads.begin() + pads.size() / 2, pads.end());
  Type element = tensorType(input).getElementType(), wide = computeType(element);
  Type index = lower.getBuilder().getI64Type();
  Value padded = lower.padded(input, low, high, scalars.lowest(element));
  AffineMap narrow = loops.narrowMap();
  SmallVector<Value> targets = {lower.filled(shape, scalars.lowest(wide)),
                                lower.filled(shape, scalars.integer(index, -1))};
  return lower.reduce(targets, {padded, loops.sizes}, {loops.wideMap(), loops.windowMap(), narrow, narrow},
                      loops.windowLoops, [&](const ElementBuilder &e, ValueRange elements) {
                        Value value = e.widen(elements[0]), best = elements[2], first = elements[3];
                        Value none = e.min(e.less(first, e.integer(index, 0)), loops.isInside(e));
                        Value take = e.max(isLarger(e, value, best), none);
                        return SmallVector<Value>{e.select(take, value, best), e.select(take, loops.number(e), first)};
                      })[1];
}

Value averageShares(const PoolLoops &loops, PoolGradientOp op, Value cotangent) {
  const LinalgBuilder &lower = loops.lower;
  Type wide = computeType(elementOf(cotangent));
  Value share = lower.converted(cotangent, wide);
  if (!op.getCountIncludePad() && llvm::any_of(op.getPads(), [](int64_t pad) { return pad > 0; }))
    return dividedByCount(lower, share, loops.dims, wide);
  double count = 1;
  for (int64_t size : op.getWindow())
    count *= static_cast<double>(size);
  return lower.map(
      tensorType(share).getShape(), wide, share, lower.identity(loops.rank),
      [&](const ElementBuilder &e, ValueRange elements) { return e.div(elements[0], e.constant(wide, count)); });
}

bool isPartition(PoolGradientOp op) {
  ArrayRef<int64_t> narrow = tensorType(op.getCotangent()).getShape(), wide = tensorType(op.getResult()).getShape();
  for (size_t i = 0; i < op.getWindow().size(); ++i)
    if ((op.getStrides()[i] != op.getWindow()[i] && narrow[i + 2] != 1) || op.getDilations()[i] != 1 ||
        narrow[i + 2] * op.getWindow()[i] != wide[i + 2])
      return false;
  return llvm::all_of(op.getPads(), [](int64_t pad) { return pad == 0; });
}

/// The average of windows that are a partition, backwards: each element is that of its window, divided by the number of
/// the window's. Windows and their elements are dimensions of their own.
static Value spreadOverPartition(const LinalgBuilder &lower, PoolGradientOp op, Value cotangent) {
  ArrayRef<int64_t> narrow = tensorType(cotangent).getShape();
  SmallVector<int64_t> shape(narrow.take_front(2));
  SmallVector<AffineExpr> from = {lower.dim(0), lower.dim(1)};
  double count = 1;
  for (auto [i, size] : llvm::enumerate(op.getWindow())) {
    from.push_back(lower.dim(static_cast<unsigned>(shape.size())));
    shape.append({narrow[i + 2], size});
    count *= static_cast<double>(size);
  }
  Type element = tensorType(cotangent).getElementType();
  Value spread = lower.map(shape, element, cotangent, lower.mapOf(static_cast<unsigned>(shape.size()), from),
                           [&](const ElementBuilder &e, ValueRange elements) {
                             Value wide = e.widen(elements[0]);
                             return e.convert(e.div(wide, e.constant(wide.getType(), count)), element);
                           });
  return lower.reshaped(spread, tensorType(op.getResult()).getShape());
}

/// Every element of the cotangent adds its share to the elements of its window, in an input with its padding around it.
FailureOr<SmallVector<Value>> PoolGradientOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), narrow = tensorType(operands[0]);
  Type element = result.getElementType(), wide = computeType(element);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  if (narrow.getNumElements() == 0)
    return SmallVector<Value>{lower.filled(result.getShape(), scalars.constant(element, 0))};
  bool isMax = getKind() == PoolKind::Max;
  if (!isMax && isPartition(*this))
    return SmallVector<Value>{spreadOverPartition(lower, *this, operands[0])};
  PoolLoops loops(lower, *this);
  SmallVector<int64_t> whole(result.getShape()), offsets(2, 0), reduced = loops.windowLoops;
  for (auto [i, dim] : llvm::enumerate(loops.dims)) {
    int64_t reach = (narrow.getDimSize(i + 2) - 1) * dim.stride + (dim.window - 1) * dim.dilation + 1;
    whole[i + 2] = std::max(reach, dim.before + dim.input);
    offsets.push_back(dim.before);
    reduced.push_back(2 + static_cast<int64_t>(i));
  }
  llvm::sort(reduced);
  SmallVector<Value> inputs = {isMax ? lower.converted(operands[0], wide) : averageShares(loops, *this, operands[0]),
                               loops.sizes};
  SmallVector<AffineMap> maps = {loops.narrowMap(), loops.windowMap()};
  if (isMax) {
    inputs.push_back(firstLargest(loops, *this, operands[1]));
    maps.push_back(loops.narrowMap());
  }
  maps.push_back(loops.wideMap());
  Value sum = lower.reduceInto(lower.filled(whole, scalars.constant(wide, 0)), inputs, maps, reduced,
                               [&](const ElementBuilder &e, ValueRange elements) {
                                 if (!isMax)
                                   return e.add(elements[2], elements[0]);
                                 Value own = e.equal(elements[2], loops.number(e));
                                 return e.add(elements[3], e.select(own, elements[0], e.constant(wide, 0)));
                               });
  if (ArrayRef<int64_t>(whole) != result.getShape())
    sum = lower.sliced(sum, offsets, result.getShape(), SmallVector<int64_t>(whole.size(), 1));
  return SmallVector<Value>{lower.converted(sum, element)};
}

} // namespace cleave::dfg
