// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that read, write or find positions. Everything is computed from the side of the result, so that results can
// be divided among cores: sorting merges by searching, for each position of the result, the element that comes there;
// scattering sorts the positions and searches each element's updates among them.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave::dfg {

using Lowered = FailureOr<SmallVector<Value>>;

//===-- positions ---------------------------------------------------------------------------------------------===//

static Value toIndex(const ElementBuilder &e, Value value) {
  return arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), e.getBuilder().getIndexType(), value);
}

static Value fromIndex(const ElementBuilder &e, Value value) {
  return arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), e.getBuilder().getI64Type(), value);
}

/// Positions before the first element count from the end.
static Value fromEnd(const ElementBuilder &e, Value at, int64_t size) {
  return e.select(e.less(at, e.index(0)), e.add(at, e.index(size)), at);
}

static Value inside(const ElementBuilder &e, Value at, int64_t size) {
  return e.min(e.max(at, e.index(0)), e.index(size - 1));
}

/// The indices of the loops around, one a dimension of a tensor of `shape`; in dimensions of size one zero.
static SmallVector<Value> loopIndices(const ElementBuilder &e, ArrayRef<int64_t> shape) {
  SmallVector<Value> indices;
  for (auto [i, size] : llvm::enumerate(shape))
    indices.push_back(size == 1 ? e.index(0) : linalg::IndexOp::create(e.getBuilder(), e.getLocation(), i).getResult());
  return indices;
}

/// The element of a tensor at `position` of the line along `dim` on which the loops around stand.
static Value readLine(const ElementBuilder &e, Value tensor, SmallVector<Value> indices, int64_t dim, Value position) {
  indices[dim] = position;
  return tensor::ExtractOp::create(e.getBuilder(), e.getLocation(), tensor, indices);
}

/// The smallest number in [low, high] for which `isEnough` holds, given that it holds from some number on; `high` where
/// it does not hold below. `steps` halvings must be enough. `isEnough` may be asked for a number outside, and must then
/// only not fail.
static Value searchFirst(const ElementBuilder &e, Value low, Value high, int64_t steps,
                         llvm::function_ref<Value(const ElementBuilder &, Value)> isEnough) {
  auto loop =
      scf::ForOp::create(e.getBuilder(), e.getLocation(), e.index(0), e.index(steps), e.index(1), ValueRange{low, high},
                         [&](OpBuilder &nested, Location location, Value, ValueRange range) {
                           ElementBuilder inner(nested, location);
                           Value open = inner.less(range[0], range[1]);
                           Value middle =
                               arith::ShRUIOp::create(nested, location, inner.add(range[0], range[1]), inner.index(1));
                           Value enough = isEnough(inner, middle);
                           Value narrowed = inner.select(enough, range[0], inner.add(middle, inner.index(1)));
                           Value newLow = inner.select(open, narrowed, range[0]);
                           Value newHigh = inner.select(open, inner.select(enough, middle, range[1]), range[1]);
                           scf::YieldOp::create(nested, location, ValueRange{newLow, newHigh});
                         });
  return loop.getResult(0);
}

//===-- sorting -----------------------------------------------------------------------------------------------===//

namespace {
/// Keys in order, and where each was before.
struct Sorted {
  Value keys, positions;
};

/// Whether a key goes strictly before another.
using Before = llvm::function_ref<Value(const ElementBuilder &, Value, Value)>;
} // namespace

/// Merges neighbouring runs of `width` keys in each line. For every position of a merged run, halving finds how many of
/// the keys before it come from the left run: the next one is then known. Source: Green, McColl, Bader, GPU merge path,
/// 2012.
static Sorted mergeRuns(const LinalgBuilder &lower, Sorted runs, int64_t dim, int64_t width, Before before) {
  RankedTensorType type = tensorType(runs.keys);
  ArrayRef<int64_t> shape = type.getShape();
  int64_t size = shape[dim];
  AffineMap map = lower.identity(shape.size());
  SmallVector<Value> merged = lower.reduce(
      {lower.empty(shape, type.getElementType()), lower.empty(shape, lower.getBuilder().getI64Type())}, {}, {map, map},
      {}, [&](const ElementBuilder &e, ValueRange) {
        SmallVector<Value> indices = loopIndices(e, shape);
        Value offset = arith::RemUIOp::create(e.getBuilder(), e.getLocation(), indices[dim], e.index(2 * width));
        Value left = e.sub(indices[dim], offset), right = e.min(e.add(left, e.index(width)), e.index(size));
        Value leftSize = e.sub(right, left);
        Value rightSize = e.min(e.sub(e.index(size), right), e.index(width));
        auto keyAt = [&](const ElementBuilder &at, Value start, Value position) {
          return readLine(at, runs.keys, indices, dim, inside(at, at.add(start, position), size));
        };
        Value low = e.max(e.sub(offset, rightSize), e.index(0)), high = e.min(offset, leftSize);
        Value fromLeft =
            searchFirst(e, low, high, llvm::Log2_64_Ceil(width + 1), [&](const ElementBuilder &at, Value count) {
              Value last = at.sub(at.sub(offset, count), at.index(1));
              return before(at, keyAt(at, right, last), keyAt(at, left, count));
            });
        Value fromRight = e.sub(offset, fromLeft);
        Value leftEnds = e.lessOrEqual(leftSize, fromLeft), rightLeft = e.less(fromRight, rightSize);
        Value rightFirst = before(e, keyAt(e, right, fromRight), keyAt(e, left, fromLeft));
        Value takesRight = e.min(rightLeft, e.max(leftEnds, rightFirst));
        Value source = e.select(takesRight, e.add(right, fromRight), e.add(left, fromLeft));
        source = inside(e, source, size);
        return SmallVector<Value>{readLine(e, runs.keys, indices, dim, source),
                                  readLine(e, runs.positions, indices, dim, source)};
      });
  return {merged[0], merged[1]};
}

/// Sorts each line along `dim`; equal keys stay in their order.
static Sorted sortLines(const LinalgBuilder &lower, Value keys, int64_t dim, Before before) {
  ArrayRef<int64_t> shape = tensorType(keys).getShape();
  Value positions = lower.map(shape, lower.getBuilder().getI64Type(), {}, {}, [&](const ElementBuilder &e, ValueRange) {
    return fromIndex(e, linalg::IndexOp::create(e.getBuilder(), e.getLocation(), dim));
  });
  Sorted sorted{keys, positions};
  for (int64_t width = 1; width < shape[dim]; width *= 2)
    sorted = mergeRuns(lower, sorted, dim, width, before);
  return sorted;
}

Lowered ArgSortOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  auto before = [&](const ElementBuilder &e, Value a, Value b) {
    Value first = e.widen(getDescending() ? b : a), second = e.widen(getDescending() ? a : b);
    Value smaller = e.less(first, second);
    if (!isa<FloatType>(first.getType()))
      return smaller;
    Value numberFirst = e.equal(first, first);
    Value nanSecond = arith::CmpFOp::create(e.getBuilder(), e.getLocation(), arith::CmpFPredicate::UNO, second, second);
    return e.max(smaller, e.min(numberFirst, nanSecond));
  };
  return SmallVector<Value>{sortLines(lower, operands[0], getDim(), before).positions};
}

//===-- gather_elements, scatter_elements ---------------------------------------------------------------------===//

Lowered GatherElementsOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType input = tensorType(operands[0]), result = tensorType(getResult());
  int64_t dim = getDim(), size = input.getDimSize(dim);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  AffineMap map = lower.broadcast(tensorType(operands[1]).getShape(), result.getShape());
  return SmallVector<Value>{lower.map(result.getShape(), result.getElementType(), operands[1], map,
                                      [&](const ElementBuilder &e, ValueRange elements) {
                                        Value at = inside(e, fromEnd(e, toIndex(e, elements[0]), size), size);
                                        SmallVector<Value> indices = loopIndices(e, result.getShape());
                                        return readLine(e, operands[0], indices, dim, at);
                                      })};
}

/// For every position of a line the first and the last but one of its updates in the sorted positions.
static SmallVector<Value> findUpdates(const LinalgBuilder &lower, Value keys, int64_t dim, int64_t size) {
  RankedTensorType type = tensorType(keys);
  int64_t count = type.getDimSize(dim);
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  Type index = lower.getBuilder().getI64Type();
  AffineMap map = lower.identity(shape.size());
  return lower.reduce({lower.empty(shape, index), lower.empty(shape, index)}, {}, {map, map}, {},
                      [&](const ElementBuilder &e, ValueRange) {
                        SmallVector<Value> indices = loopIndices(e, shape);
                        auto firstFrom = [&](Value position) {
                          Value key = fromIndex(e, position);
                          Value found = searchFirst(e, e.index(0), e.index(count), llvm::Log2_64_Ceil(count + 1),
                                                    [&](const ElementBuilder &at, Value middle) {
                                                      Value there =
                                                          readLine(at, keys, indices, dim, inside(at, middle, count));
                                                      return at.lessOrEqual(key, there);
                                                    });
                          return fromIndex(e, found);
                        };
                        Value first = firstFrom(indices[dim]);
                        return SmallVector<Value>{first, firstFrom(e.add(indices[dim], e.index(1)))};
                      });
}

static Value joinUpdates(const ElementBuilder &e, std::optional<ReduceKind> kind, Value soFar, Value update) {
  switch (*kind) {
  case ReduceKind::Sum:
    return e.add(soFar, update);
  case ReduceKind::Product:
    return soFar.getType().isInteger(1) ? e.min(soFar, update) : e.mul(soFar, update);
  case ReduceKind::Max:
    return e.max(soFar, update);
  case ReduceKind::Min:
    return e.min(soFar, update);
  }
  llvm_unreachable("all kinds are handled");
}

Lowered ScatterElementsOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), indices = tensorType(operands[1]);
  int64_t dim = getDim(), size = result.getDimSize(dim), count = indices.getDimSize(dim);
  Type element = result.getElementType();
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  if (count == 0)
    return SmallVector<Value>{operands[0]};
  Value keys = lower.map(indices.getShape(), builder.getI64Type(), operands[1], lower.identity(indices.getRank()),
                         [&](const ElementBuilder &e, ValueRange elements) {
                           return fromIndex(e, fromEnd(e, toIndex(e, elements[0]), size));
                         });
  Sorted sorted = sortLines(lower, keys, dim, [](const ElementBuilder &e, Value a, Value b) { return e.less(a, b); });
  SmallVector<Value> found = findUpdates(lower, sorted.keys, dim, size);
  AffineMap spread = lower.broadcast(tensorType(found[0]).getShape(), result.getShape());
  std::optional<ReduceKind> kind = getReduction();
  return SmallVector<Value>{lower.map(
      result.getShape(), element, {operands[0], found[0], found[1]}, {lower.identity(result.getRank()), spread, spread},
      [&](const ElementBuilder &e, ValueRange elements) {
        Value first = toIndex(e, elements[1]), end = toIndex(e, elements[2]);
        SmallVector<Value> line = loopIndices(e, indices.getShape());
        SmallVector<Value> place = loopIndices(e, result.getShape());
        auto updateAt = [&](const ElementBuilder &at, Value number) {
          Value position = readLine(at, sorted.positions, line, dim, number);
          return readLine(at, operands[2], place, dim, toIndex(at, position));
        };
        if (!kind) {
          Value last = updateAt(e, inside(e, e.sub(end, e.index(1)), count));
          return e.select(e.less(first, end), last, elements[0]);
        }
        auto loop = scf::ForOp::create(e.getBuilder(), e.getLocation(), first, end, e.index(1), e.widen(elements[0]),
                                       [&](OpBuilder &nested, Location location, Value number, ValueRange soFar) {
                                         ElementBuilder at(nested, location);
                                         Value joined = joinUpdates(at, kind, soFar[0], at.widen(updateAt(at, number)));
                                         scf::YieldOp::create(nested, location, joined);
                                       });
        return e.convert(loop.getResult(0), element);
      })};
}

/// Every position of the dimension adds up the slices that were taken from it, in their order.
Lowered GatherGradientOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), indices = tensorType(operands[1]);
  int64_t dim = getDim(), size = result.getDimSize(dim), count = indices.getNumElements();
  Type element = result.getElementType(), wide = computeType(element);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  if (count == 0)
    return SmallVector<Value>{lower.filled(result.getShape(), scalars.constant(element, 0))};
  Value keys = lower.map(count, builder.getI64Type(), lower.reshaped(operands[1], count), lower.identity(1),
                         [&](const ElementBuilder &e, ValueRange elements) {
                           return fromIndex(e, inside(e, fromEnd(e, toIndex(e, elements[0]), size), size));
                         });
  Sorted sorted = sortLines(lower, keys, 0, [](const ElementBuilder &e, Value a, Value b) { return e.less(a, b); });
  SmallVector<Value> found = findUpdates(lower, sorted.keys, 0, size);
  SmallVector<int64_t> slices(result.getShape());
  slices[dim] = count;
  Value cotangent = lower.reshaped(operands[0], slices);
  unsigned rank = result.getRank();
  AffineMap row = lower.mapOf(rank, lower.dim(dim));
  return SmallVector<Value>{
      lower.map(result.getShape(), element, found, {row, row}, [&](const ElementBuilder &e, ValueRange elements) {
        SmallVector<Value> place = loopIndices(e, result.getShape());
        auto loop = scf::ForOp::create(
            e.getBuilder(), e.getLocation(), toIndex(e, elements[0]), toIndex(e, elements[1]), e.index(1),
            e.constant(wide, 0), [&](OpBuilder &nested, Location location, Value number, ValueRange soFar) {
              ElementBuilder at(nested, location);
              Value position = tensor::ExtractOp::create(nested, location, sorted.positions, number);
              Value slice = readLine(at, cotangent, place, dim, toIndex(at, position));
              scf::YieldOp::create(nested, location, at.add(soFar[0], at.widen(slice)));
            });
        return e.convert(loop.getResult(0), element);
      })};
}

//===-- cumulative_sum ----------------------------------------------------------------------------------------===//

/// Goes along each line with the sum so far.
Lowered CumulativeSumOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  unsigned rank = result.getRank();
  int64_t dim = getDim();
  Type element = result.getElementType(), wide = computeType(element);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  SmallVector<int64_t> lines(result.getShape());
  lines.erase(lines.begin() + dim);
  Value sum = lower.filled(lines, ElementBuilder(builder, getLoc()).constant(wide, 0));
  SmallVector<AffineMap> maps = {lower.identity(rank), lower.without(rank, dim), lower.identity(rank)};
  return SmallVector<Value>{lower.reduce({sum, lower.empty(result.getShape(), element)}, operands[0], maps, dim,
                                         [&](const ElementBuilder &e, ValueRange elements) {
                                           Value next = e.add(elements[1], e.widen(elements[0]));
                                           return SmallVector<Value>{
                                               next, e.convert(getExclusive() ? elements[1] : next, element)};
                                         })[1]};
}

} // namespace cleave::dfg
