// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products and convolutions as loops over all their dimensions. f16 and bf16 are summed in f32.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave::dfg {

/// A sum of products over the loops in `reduced`, from zero, in the type of computation for a result of `element`.
static Value sumOfProducts(const LinalgBuilder &lower, Location location, ArrayRef<int64_t> shape, ValueRange factors,
                           ArrayRef<AffineMap> maps, ArrayRef<int64_t> reduced, Type element) {
  Type wide = computeType(element);
  Value zero = ElementBuilder(lower.getBuilder(), location).constant(wide, 0);
  return lower.reduceInto(
      lower.filled(shape, zero), factors, maps, reduced, [&](const ElementBuilder &e, ValueRange elements) {
        return e.add(elements[2], e.mul(e.convert(elements[0], wide), e.convert(elements[1], wide)));
      });
}

/// The affine expressions of the loops from `first` on, `count` of them.
static SmallVector<AffineExpr> loopsFrom(const LinalgBuilder &lower, unsigned first, unsigned count) {
  SmallVector<AffineExpr> loops;
  for (unsigned i = 0; i < count; ++i)
    loops.push_back(lower.dim(first + i));
  return loops;
}

static SmallVector<int64_t> positionsFrom(int64_t first, int64_t end) {
  return llvm::to_vector(llvm::seq<int64_t>(first, end));
}

FailureOr<SmallVector<Value>> DotGeneralOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  // Loops: those of the result, then the contracting ones.
  SmallVector<AffineExpr> lhs(tensorType(operands[0]).getRank()), rhs(tensorType(operands[1]).getRank());
  unsigned loop = 0;
  for (auto [l, r] : llvm::zip(getLhsBatch(), getRhsBatch()))
    lhs[l] = rhs[r] = lower.dim(loop++);
  for (int64_t dim : getLhsFree())
    lhs[dim] = lower.dim(loop++);
  for (int64_t dim : getRhsFree())
    rhs[dim] = lower.dim(loop++);
  for (auto [l, r] : llvm::zip(getLhsContracting(), getRhsContracting()))
    lhs[l] = rhs[r] = lower.dim(loop++);
  SmallVector<AffineMap> maps = {lower.mapOf(loop, lhs), lower.mapOf(loop, rhs),
                                 lower.mapOf(loop, loopsFrom(lower, 0, result.getRank()))};
  Value sum = sumOfProducts(lower, getLoc(), result.getShape(), operands, maps, positionsFrom(result.getRank(), loop),
                            result.getElementType());
  return SmallVector<Value>{lower.converted(sum, result.getElementType())};
}

/// Loops over the rows of `indices` first, as an operand of rows sees them: those of size one repeat.
static SmallVector<AffineExpr> rowLoops(const LinalgBuilder &lower, RankedTensorType operand, unsigned firstLoop,
                                        AffineExpr last) {
  SmallVector<AffineExpr> loops;
  for (auto [index, size] : llvm::enumerate(operand.getShape().drop_back()))
    loops.push_back(size == 1 ? getAffineConstantExpr(0, lower.getContext()) : lower.dim(firstLoop + index));
  loops.push_back(last);
  return loops;
}

/// The product of each row with its own matrix, whose elements are read where they are needed.
FailureOr<SmallVector<Value>> GatherDotOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), matrices = tensorType(operands[1]);
  Type element = result.getElementType(), wide = computeType(element);
  Value zero = ElementBuilder(builder, getLoc()).constant(wide, 0);
  Value target = lower.filled(result.getShape(), zero);
  if (result.getNumElements() == 0 || matrices.getNumElements() == 0)
    return SmallVector<Value>{lower.converted(target, element)};
  // Loops: the rows', the columns', the depth's.
  unsigned rows = result.getRank() - 1, column = rows, depth = rows + 1, rank = rows + 2;
  SmallVector<AffineMap> maps = {lower.mapOf(rank, rowLoops(lower, tensorType(operands[0]), 0, lower.dim(depth))),
                                 lower.mapOf(rank, loopsFrom(lower, 0, rows)),
                                 lower.mapOf(rank, loopsFrom(lower, 0, result.getRank()))};
  int64_t count = matrices.getDimSize(0);
  Value sum = lower.reduceInto(
      target, {operands[0], operands[2]}, maps, {depth}, [&](const ElementBuilder &e, ValueRange elements) {
        OpBuilder &nested = e.getBuilder();
        Value at = arith::IndexCastOp::create(nested, e.getLocation(), nested.getIndexType(), elements[1]);
        Value none = e.index(0), nearest = e.min(e.max(at, none), e.index(count - 1));
        Value inside = arith::CmpIOp::create(nested, e.getLocation(), arith::CmpIPredicate::eq, at, nearest);
        SmallVector<Value> place = {nearest, linalg::IndexOp::create(nested, e.getLocation(), depth),
                                    linalg::IndexOp::create(nested, e.getLocation(), column)};
        if (getTransposed())
          std::swap(place[1], place[2]);
        Value factor = tensor::ExtractOp::create(nested, e.getLocation(), operands[1], place);
        Value product = e.mul(e.convert(elements[0], wide), e.convert(factor, wide));
        return e.add(elements[2], e.select(inside, product, e.constant(wide, 0)));
      });
  return SmallVector<Value>{lower.converted(sum, element)};
}

FailureOr<SmallVector<Value>> ScatterDotOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), indices = tensorType(operands[2]);
  Type element = result.getElementType(), wide = computeType(element);
  Value target = lower.filled(result.getShape(), ElementBuilder(builder, getLoc()).constant(wide, 0));
  if (result.getNumElements() == 0 || indices.getNumElements() == 0)
    return SmallVector<Value>{lower.converted(target, element)};
  // Loops: the matrices', the two of a matrix, the rows'.
  constexpr unsigned firstRow = 3;
  unsigned rank = firstRow + indices.getRank();
  SmallVector<AffineMap> maps = {lower.mapOf(rank, rowLoops(lower, tensorType(operands[0]), firstRow, lower.dim(1))),
                                 lower.mapOf(rank, rowLoops(lower, tensorType(operands[1]), firstRow, lower.dim(2))),
                                 lower.mapOf(rank, loopsFrom(lower, firstRow, indices.getRank())),
                                 lower.mapOf(rank, loopsFrom(lower, 0, firstRow))};
  Value sum = lower.reduceInto(
      target, operands, maps, positionsFrom(firstRow, rank), [&](const ElementBuilder &e, ValueRange elements) {
        OpBuilder &nested = e.getBuilder();
        Value at = arith::IndexCastOp::create(nested, e.getLocation(), nested.getIndexType(), elements[2]);
        Value matrix = linalg::IndexOp::create(nested, e.getLocation(), 0);
        Value own = arith::CmpIOp::create(nested, e.getLocation(), arith::CmpIPredicate::eq, at, matrix);
        Value product = e.mul(e.convert(elements[0], wide), e.convert(elements[1], wide));
        return e.add(elements[3], e.select(own, product, e.constant(wide, 0)));
      });
  return SmallVector<Value>{lower.converted(sum, element)};
}

namespace {
/// A convolution's tensors with the groups as a dimension of their own where there are several.
struct GroupedShapes {
  explicit GroupedShapes(int64_t groups) : groups(groups) {}

  bool grouped() const { return groups != 1; }

  /// `shape` with dimension `dim` divided into groups and the rest.
  SmallVector<int64_t> divided(ArrayRef<int64_t> shape, unsigned dim) const {
    SmallVector<int64_t> result(shape);
    if (!grouped())
      return result;
    result[dim] /= groups;
    result.insert(result.begin() + dim, groups);
    return result;
  }

  int64_t groups;
};
} // namespace

FailureOr<SmallVector<Value>> ConvOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  unsigned space = result.getRank() - 2;
  ArrayRef<int64_t> pads = getPads();
  SmallVector<int64_t> low(2, 0), high(2, 0);
  low.append(pads.begin(), pads.begin() + space);
  high.append(pads.begin() + space, pads.end());
  Value zero = ElementBuilder(builder, getLoc()).constant(tensorType(operands[0]).getElementType(), 0);
  Value input = lower.padded(operands[0], low, high, zero);

  // Loops: batch, (group,) out channel, positions, in channel, window.
  GroupedShapes shapes(getGroups());
  unsigned g = shapes.grouped() ? 1 : 0, outChannel = 1 + g, position = 2 + g;
  unsigned inChannel = position + space, window = inChannel + 1, rank = window + space;
  SmallVector<AffineExpr> inputMap = {lower.dim(0)}, filterMap;
  if (shapes.grouped()) {
    inputMap.push_back(lower.dim(1));
    filterMap.push_back(lower.dim(1));
  }
  inputMap.push_back(lower.dim(inChannel));
  filterMap.push_back(lower.dim(outChannel));
  filterMap.push_back(lower.dim(inChannel));
  for (unsigned i = 0; i < space; ++i) {
    inputMap.push_back(lower.dim(position + i) * getStrides()[i] + lower.dim(window + i) * getDilations()[i]);
    filterMap.push_back(lower.dim(window + i));
  }
  SmallVector<AffineMap> maps = {lower.mapOf(rank, inputMap), lower.mapOf(rank, filterMap),
                                 lower.mapOf(rank, loopsFrom(lower, 0, inChannel))};
  SmallVector<Value> factors = {lower.reshaped(input, shapes.divided(tensorType(input).getShape(), 1)),
                                lower.reshaped(operands[1], shapes.divided(tensorType(operands[1]).getShape(), 0))};
  Value sum = sumOfProducts(lower, getLoc(), shapes.divided(result.getShape(), 1), factors, maps,
                            positionsFrom(inChannel, rank), result.getElementType());
  return SmallVector<Value>{lower.converted(lower.reshaped(sum, result.getShape()), result.getElementType())};
}

FailureOr<SmallVector<Value>> ConvFilterGradientOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), cotangent = tensorType(operands[1]);
  Type element = result.getElementType();
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  if (cotangent.getNumElements() == 0)
    return SmallVector<Value>{lower.filled(result.getShape(), scalars.constant(element, 0))};
  Value zero = scalars.constant(tensorType(operands[0]).getElementType(), 0);
  unsigned space = result.getRank() - 2;
  ArrayRef<int64_t> pads = getPads();
  SmallVector<int64_t> low(2, 0), high(2, 0);
  low.append(pads.begin(), pads.begin() + space);
  high.append(pads.begin() + space, pads.end());
  Value input = lower.padded(operands[0], low, high, zero);

  // Loops: (group,) out channel, in channel, window, batch, positions.
  GroupedShapes shapes(getGroups());
  unsigned g = shapes.grouped() ? 1 : 0, outChannel = g, inChannel = 1 + g, window = 2 + g;
  unsigned batch = window + space, position = batch + 1, rank = position + space;
  SmallVector<AffineExpr> inputMap = {lower.dim(batch)}, cotangentMap = {lower.dim(batch)};
  if (shapes.grouped())
    for (SmallVector<AffineExpr> *map : {&inputMap, &cotangentMap})
      map->push_back(lower.dim(0));
  inputMap.push_back(lower.dim(inChannel));
  cotangentMap.push_back(lower.dim(outChannel));
  for (unsigned i = 0; i < space; ++i) {
    inputMap.push_back(lower.dim(position + i) * getStrides()[i] + lower.dim(window + i) * getDilations()[i]);
    cotangentMap.push_back(lower.dim(position + i));
  }
  SmallVector<AffineMap> maps = {lower.mapOf(rank, inputMap), lower.mapOf(rank, cotangentMap),
                                 lower.mapOf(rank, loopsFrom(lower, 0, batch))};
  SmallVector<Value> factors = {lower.reshaped(input, shapes.divided(tensorType(input).getShape(), 1)),
                                lower.reshaped(operands[1], shapes.divided(cotangent.getShape(), 1))};
  Value sum = sumOfProducts(lower, getLoc(), shapes.divided(result.getShape(), 0), factors, maps,
                            positionsFrom(batch, rank), element);
  return SmallVector<Value>{lower.converted(lower.reshaped(sum, result.getShape()), element)};
}

/// Adds every input element's multiple of the window into a result without pads, and cuts the pads off.
FailureOr<SmallVector<Value>> ConvTransposeOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType result = tensorType(getResult()), input = tensorType(operands[0]), filter = tensorType(operands[1]);
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  unsigned space = result.getRank() - 2;
  GroupedShapes shapes(getGroups());
  SmallVector<int64_t> whole = shapes.divided(result.getShape(), 1);
  unsigned g = shapes.grouped() ? 1 : 0, outChannel = 1 + g, inChannel = 2 + g;
  unsigned position = inChannel + 1, window = position + space, rank = window + space;
  SmallVector<AffineExpr> inputMap = {lower.dim(0)}, filterMap, resultMap = {lower.dim(0)};
  if (shapes.grouped())
    for (SmallVector<AffineExpr> *map : {&inputMap, &filterMap, &resultMap})
      map->push_back(lower.dim(1));
  inputMap.push_back(lower.dim(inChannel));
  filterMap.append({lower.dim(inChannel), lower.dim(outChannel)});
  resultMap.push_back(lower.dim(outChannel));
  for (unsigned i = 0; i < space; ++i) {
    int64_t reach = std::max<int64_t>(input.getDimSize(i + 2) - 1, 0) * getStrides()[i] +
                    (filter.getDimSize(i + 2) - 1) * getDilations()[i] + 1;
    whole[outChannel + 1 + i] = std::max(reach, getPads()[i] + result.getDimSize(i + 2));
    inputMap.push_back(lower.dim(position + i));
    filterMap.push_back(lower.dim(window + i));
    resultMap.push_back(lower.dim(position + i) * getStrides()[i] + lower.dim(window + i) * getDilations()[i]);
  }
  SmallVector<AffineMap> maps = {lower.mapOf(rank, inputMap), lower.mapOf(rank, filterMap),
                                 lower.mapOf(rank, resultMap)};
  SmallVector<Value> factors = {lower.reshaped(operands[0], shapes.divided(input.getShape(), 1)),
                                lower.reshaped(operands[1], shapes.divided(filter.getShape(), 0))};
  Value sum =
      sumOfProducts(lower, getLoc(), whole, factors, maps, positionsFrom(inChannel, rank), result.getElementType());

  SmallVector<int64_t> offsets(outChannel + 1, 0), inside = shapes.divided(result.getShape(), 1);
  offsets.append(getPads().begin(), getPads().begin() + space);
  if (inside != whole)
    sum = lower.sliced(sum, offsets, inside, SmallVector<int64_t>(inside.size(), 1));
  return SmallVector<Value>{lower.reshaped(lower.converted(sum, result.getElementType()), result.getShape())};
}

} // namespace cleave::dfg
