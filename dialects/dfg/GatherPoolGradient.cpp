// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a pooling from the input's side. To go through windows and add to their elements is less arithmetic
// where windows overlap, but only one thread may do that for all windows of a sample's channel; positions of the input
// are independent. A window's first largest element is found before, once for all positions that it covers.

#include "dialects/dfg/GatherPoolGradient.h"

#include "dialects/dfg/PoolLoops.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace cleave::dfg {

namespace {

/// In one dimension, the windows that cover a position p of the padded input: element k of a window lies there where
/// p - k * dilation is a multiple of the stride. Such k are a fixed distance apart. Where there are few windows in all,
/// each is asked.
class CoveringWindows {
public:
  /// A window that covers a position, and the number of its element there; where `isThere` does not hold, some window.
  struct Found {
    Value window, element, isThere;
  };

  CoveringWindows(const PoolDim &dim, int64_t windows)
      : dim(dim), windows(windows), common(std::gcd(dim.stride, dim.dilation)), distance(dim.stride / common) {
    while (distance > 1 && dim.dilation / common % distance * inverse % distance != 1)
      ++inverse;
  }

  int64_t getWindowSize() const { return dim.window; }
  /// How often `find` has to be asked.
  int64_t most() const { return std::min(windows, elementsAt()); }
  /// The i-th window, in their order, that covers a position of the input.
  Found find(const ElementBuilder &e, Value position, Value i) const;
  /// Whether all numbers that `find` computes fit 32 bits.
  bool isSmall() const {
    constexpr int64_t limit = int64_t(1) << 30, factorLimit = int64_t(1) << 15;
    return dim.input + dim.before < limit && windows < limit && distance < factorLimit &&
           dim.window < limit / dim.dilation - distance && windows < limit / dim.stride;
  }

private:
  /// The elements of windows that may lie at one position.
  int64_t elementsAt() const { return llvm::divideCeil(dim.window, distance); }

  PoolDim dim;
  /// How many there are, the greatest common divisor of stride and dilation, and the distance between elements.
  int64_t windows, common, distance;
  /// Of dilation / common, modulo the distance.
  int64_t inverse = 1;
};

/// Builds the body of the gather: loops over the covering windows of each dimension inside each other.
class GatherBuilder {
public:
  /// `first`: the number of each window's element that gets its share; null where all do.
  GatherBuilder(ArrayRef<CoveringWindows> windows, Value shares, Value first, Type number)
      : windows(windows), shares(shares), first(first), number(number) {}

  /// The sum of the position at which the loops around stand.
  Value sumAtPosition(const ElementBuilder &e);

private:
  /// A window of the dimensions so far, the number of its element, and whether there is one; null where there always
  /// is.
  struct Window {
    SmallVector<Value> indices;
    Value element, isThere;
  };
  Value addWindows(const ElementBuilder &e, const Window &outer, size_t dim, Value sum) const;
  Value addShare(const ElementBuilder &e, const Window &window, Value sum) const;

  ArrayRef<CoveringWindows> windows;
  Value shares, first;
  /// In which positions and elements are counted.
  Type number;
  SmallVector<Value> positions;
};

} // namespace

CoveringWindows::Found CoveringWindows::find(const ElementBuilder &e, Value position, Value i) const {
  OpBuilder &builder = e.getBuilder();
  Location location = e.getLocation();
  auto number = [&](int64_t value) { return e.integer(position.getType(), value); };
  auto quotient = [&](Value value, int64_t divisor) {
    return divisor == 1 ? value : arith::DivUIOp::create(builder, location, value, number(divisor)).getResult();
  };
  auto remainder = [&](Value value, int64_t divisor) {
    return divisor == 1 ? number(0) : arith::RemUIOp::create(builder, location, value, number(divisor)).getResult();
  };
  Value padded = e.add(position, number(dim.before));
  if (windows <= elementsAt()) {
    Value distant = e.sub(padded, e.mul(i, number(dim.stride)));
    Value inside = e.max(distant, number(0)), element = quotient(inside, dim.dilation);
    Value isThere = e.min(e.lessOrEqual(number(0), distant), e.less(element, number(dim.window)));
    if (dim.dilation > 1)
      isThere = e.min(isThere, e.equal(remainder(inside, dim.dilation), number(0)));
    return {i, element, isThere};
  }
  Value smallest = remainder(quotient(padded, common), distance);
  if (inverse != 1)
    smallest = remainder(e.mul(smallest, number(inverse)), distance);
  // The later a window, the earlier its element.
  Value element = e.add(smallest, e.mul(e.sub(number(elementsAt() - 1), i), number(distance)));
  Value start = e.sub(padded, e.mul(element, number(dim.dilation)));
  Value window = quotient(e.max(start, number(0)), dim.stride);
  Value isThere = e.min(e.less(element, number(dim.window)), e.lessOrEqual(number(0), start));
  isThere = e.min(isThere, e.less(window, number(windows)));
  if (common > 1)
    isThere = e.min(isThere, e.equal(remainder(padded, common), number(0)));
  return {e.min(window, number(windows - 1)), element, isThere};
}

Value GatherBuilder::sumAtPosition(const ElementBuilder &e) {
  Window all;
  for (size_t loop = 0; loop < windows.size() + 2; ++loop) {
    Value index = linalg::IndexOp::create(e.getBuilder(), e.getLocation(), static_cast<int64_t>(loop));
    if (loop < 2)
      all.indices.push_back(index);
    else
      positions.push_back(arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), number, index));
  }
  all.element = e.integer(number, 0);
  return addWindows(e, all, 0, e.constant(computeType(elementOf(shares)), 0));
}

Value GatherBuilder::addWindows(const ElementBuilder &e, const Window &outer, size_t dim, Value sum) const {
  if (dim == windows.size())
    return addShare(e, outer, sum);
  const CoveringWindows &covering = windows[dim];
  auto addOne = [&](const ElementBuilder &inner, Value i, Value soFar) {
    CoveringWindows::Found found = covering.find(inner, positions[dim], i);
    Window window = outer;
    Type index = inner.getBuilder().getIndexType();
    window.indices.push_back(arith::IndexCastOp::create(inner.getBuilder(), inner.getLocation(), index, found.window));
    window.element =
        inner.add(inner.mul(outer.element, inner.integer(number, covering.getWindowSize())), found.element);
    window.isThere = outer.isThere ? inner.min(outer.isThere, found.isThere) : found.isThere;
    return addWindows(inner, window, dim + 1, soFar);
  };
  Value zero = e.integer(number, 0), one = e.integer(number, 1);
  if (covering.most() == 1)
    return addOne(e, zero, sum);
  auto loop = scf::ForOp::create(e.getBuilder(), e.getLocation(), zero, e.integer(number, covering.most()), one, sum,
                                 [&](OpBuilder &nested, Location location, Value i, ValueRange soFar) {
                                   ElementBuilder inner(nested, location);
                                   scf::YieldOp::create(nested, location, addOne(inner, i, soFar[0]));
                                 });
  return loop.getResult(0);
}

Value GatherBuilder::addShare(const ElementBuilder &e, const Window &window, Value sum) const {
  auto read = [&](Value tensor) {
    return tensor::ExtractOp::create(e.getBuilder(), e.getLocation(), tensor, window.indices).getResult();
  };
  Value isMine = window.isThere;
  if (first)
    isMine = e.min(isMine, e.equal(e.convert(read(first), number), window.element));
  return e.add(sum, e.select(isMine, e.widen(read(shares)), e.constant(sum.getType(), 0)));
}

/// The number of each window's first largest element, in as few bytes as it fits; -1 where a window has none.
static Value firstLargestInPlace(const PoolLoops &loops, PoolGradientOp op, Value input) {
  const LinalgBuilder &lower = loops.lower;
  OpBuilder &builder = lower.getBuilder();
  ElementBuilder scalars(builder, op.getLoc());
  ArrayRef<int64_t> shape = tensorType(op.getCotangent()).getShape();
  int64_t elements = 1;
  for (int64_t size : op.getWindow())
    elements *= size;
  constexpr int64_t mostOfByte = std::numeric_limits<int8_t>::max(), mostOfWord = std::numeric_limits<int32_t>::max();
  Type index = builder.getIntegerType(elements <= mostOfByte ? 8 : elements <= mostOfWord ? 32 : 64);
  AffineMap narrow = loops.narrowMap();
  SmallVector<Value> targets = {lower.filled(shape, scalars.lowest(computeType(elementOf(input)))),
                                lower.filled(shape, scalars.integer(index, -1))};
  return lower.reduce(targets, loops.sizes, {loops.windowMap(), narrow, narrow}, loops.windowLoops,
                      [&](const ElementBuilder &e, ValueRange elements) {
                        Value best = elements[1], first = elements[2];
                        Value value = e.widen(
                            tensor::ExtractOp::create(e.getBuilder(), e.getLocation(), input, loops.inputIndex(e)));
                        Value take = e.max(isLarger(e, value, best), e.less(first, e.integer(index, 0)));
                        take = e.min(take, loops.isInside(e));
                        Value number = e.convert(loops.number(e), index);
                        return SmallVector<Value>{e.select(take, value, best), e.select(take, number, first)};
                      })[1];
}

Value gatherPoolGradient(OpBuilder &builder, PoolGradientOp op, ValueRange operands) {
  LinalgBuilder lower(builder, op.getLoc());
  RankedTensorType result = tensorType(op.getResult()), narrow = tensorType(operands[0]);
  bool isMax = op.getKind() == PoolKind::Max;
  if (result.getNumElements() == 0 || narrow.getNumElements() == 0 || (!isMax && isPartition(op)))
    return Value();
  PoolLoops loops(lower, op);
  SmallVector<CoveringWindows> windows;
  for (auto [i, dim] : llvm::enumerate(loops.dims))
    windows.emplace_back(dim, narrow.getDimSize(i + 2));
  Value first = isMax ? firstLargestInPlace(loops, op, operands[1]) : Value();
  Value shares = isMax ? operands[0] : averageShares(loops, op, operands[0]);
  bool isSmall = llvm::all_of(windows, [](const CoveringWindows &each) { return each.isSmall(); });
  Type number = builder.getIntegerType(isSmall && !(first && elementOf(first).isInteger(64)) ? 32 : 64);
  Type element = result.getElementType();
  return lower.map(result.getShape(), element, {}, {}, [&](const ElementBuilder &e, ValueRange) {
    return e.convert(GatherBuilder(windows, shares, first, number).sumAtPosition(e), element);
  });
}

} // namespace cleave::dfg
