// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of the operators that move elements.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

OpCost movementCost(Operation *op) {
  // A reshape is the same bytes under another type.
  return elementwiseCost(op, 0.0, isa<ReshapeOp>(op) ? CostClass::View : CostClass::Movement);
}

/// Factors d0, d1, ... for the dimensions of `shape`; those in `whole` cannot be divided.
static TensorFactors addDims(SplitRule &rule, ArrayRef<int64_t> shape, ArrayRef<int64_t> whole = {}) {
  TensorFactors dims;
  for (auto [index, size] : llvm::enumerate(shape))
    dims.push_back({rule.addFactor("d" + std::to_string(index), size,
                                   llvm::is_contained(whole, static_cast<int64_t>(index)) ? FactorKind::Unsplittable
                                                                                          : FactorKind::Parallel)});
  return dims;
}

//===-- reshape -----------------------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto input = tensorType(getInput()), result = tensorType(getResult());
  if (input.getNumElements() != result.getNumElements() || input.getElementType() != result.getElementType())
    return emitOpError("expects as many elements of one type on both sides, got ") << input << " and " << result;
  return success();
}

/// Walks both shapes in groups of equal products; inside a group the factors are the sizes of the finer side where it
/// divides the coarser one in order, else the group is one factor that cannot be divided.
SplitRule ReshapeOp::getSplitRule() {
  SplitRule rule;
  ArrayRef<int64_t> from = tensorType(getInput()).getShape(), to = tensorType(getResult()).getShape();
  rule.operands.assign({TensorFactors(from.size())});
  rule.results.assign({TensorFactors(to.size())});
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right && (i < from.size() || j < to.size())) {
      if ((left < right && i < from.size()) || j == to.size())
        left *= from[i++];
      else
        right *= to[j++];
    }
    bool leftCoarse = i - i0 == 1, rightCoarse = j - j0 == 1;
    std::string name = "d" + std::to_string(rule.factors.size());
    if (leftCoarse && rightCoarse) {
      unsigned factor = rule.addFactor(name, left);
      rule.operands[0][i0] = {factor};
      rule.results[0][j0] = {factor};
    } else if (leftCoarse || rightCoarse) {
      TensorFactors &coarse = leftCoarse ? rule.operands[0] : rule.results[0];
      TensorFactors &fine = leftCoarse ? rule.results[0] : rule.operands[0];
      for (size_t k = leftCoarse ? j0 : i0; k < (leftCoarse ? j : i); ++k) {
        unsigned factor = rule.addFactor("d" + std::to_string(rule.factors.size()), leftCoarse ? to[k] : from[k]);
        fine[k] = {factor};
        coarse[leftCoarse ? i0 : j0].push_back(factor);
      }
    } else {
      for (size_t k = i0; k < i; ++k)
        rule.operands[0][k] = {rule.addFactor("from" + std::to_string(k), from[k], FactorKind::Unsplittable)};
      for (size_t k = j0; k < j; ++k)
        rule.results[0][k] = {rule.addFactor("to" + std::to_string(k), to[k], FactorKind::Unsplittable)};
    }
  }
  rule.linear = {{0}};
  return rule;
}

//===-- transpose ---------------------------------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  SmallVector<int64_t> sorted(adaptor.getPermutation()), shape;
  llvm::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      sorted.clear();
  if (static_cast<int64_t>(sorted.size()) != input.getRank())
    return emitOptionalError(location, "'dfg.transpose' expects a permutation of the dimensions of ", input);
  for (int64_t dim : adaptor.getPermutation())
    shape.push_back(input.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SplitRule TransposeOp::getSplitRule() {
  SplitRule rule;
  rule.operands.push_back(addDims(rule, tensorType(getInput()).getShape()));
  rule.results.emplace_back();
  for (int64_t dim : getPermutation())
    rule.results[0].push_back({static_cast<unsigned>(dim)});
  rule.linear = {{0}};
  return rule;
}

//===-- broadcast ---------------------------------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  auto input = tensorType(getInput()), result = tensorType(getResult());
  auto joined = broadcastShapes(input.getShape(), result.getShape());
  if (failed(joined) || ArrayRef<int64_t>(*joined) != result.getShape() ||
      input.getElementType() != result.getElementType())
    return emitOpError("expects a shape that broadcasts to the result's, got ") << input << " and " << result;
  return success();
}

SplitRule BroadcastOp::getSplitRule() { return elementwiseSplitRule(*this, {{0}}); }

//===-- concat ------------------------------------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(location, "'dfg.concat' expects at least one input");
  auto first = tensorType(adaptor.getInputs().front());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank())
    return emitOptionalError(location, "'dfg.concat' expects a dimension of ", first, ", got ", dim);
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    auto type = tensorType(input);
    bool fits = type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t i = 0; fits && i < first.getRank(); ++i)
      fits = i == dim || type.getDimSize(i) == first.getDimSize(i);
    if (!fits)
      return emitOptionalError(location, "'dfg.concat' expects inputs that differ only in dimension ", dim, ", got ",
                               first, " and ", type);
    shape[dim] += type.getDimSize(dim);
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

/// Inputs of one size lie behind each other as blocks: each block can be cut where all are.
SplitRule ConcatOp::getSplitRule() {
  SplitRule rule;
  int64_t dim = getDim();
  rule.results.push_back(addDims(rule, tensorType(getResult()).getShape(), dim));
  int64_t first = tensorType(getInputs().front()).getDimSize(dim);
  bool alike = llvm::all_of(getInputs(), [&](Value input) { return tensorType(input).getDimSize(dim) == first; });
  if (alike) {
    Factor &inputs = rule.factors[rule.results[0][dim].front()];
    inputs.name = "input";
    inputs.size = static_cast<int64_t>(getInputs().size());
    rule.results[0][dim].push_back(rule.addFactor("d" + std::to_string(dim), first));
  }
  SmallVector<unsigned, 2> all;
  for (Value input : getInputs()) {
    all.push_back(rule.operands.size());
    rule.operands.push_back(rule.results[0]);
    rule.operands.back()[dim] = {alike ? rule.results[0][dim].back()
                                       : rule.addFactor("part" + std::to_string(rule.operands.size() - 1),
                                                        tensorType(input).getDimSize(dim), FactorKind::Unsplittable)};
  }
  rule.linear = {all};
  return rule;
}

//===-- slice, reverse, pad -----------------------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  size_t rank = input.getRank();
  if (adaptor.getStarts().size() != rank || adaptor.getLimits().size() != rank || adaptor.getStrides().size() != rank)
    return emitOptionalError(location, "'dfg.slice' expects ", rank, " starts, limits and strides for ", input);
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) {
    int64_t start = adaptor.getStarts()[i], limit = adaptor.getLimits()[i], stride = adaptor.getStrides()[i];
    if (start < 0 || start > limit || limit > input.getDimSize(i) || stride < 1)
      return emitOptionalError(location, "'dfg.slice' expects 0 <= start <= limit <= ", input.getDimSize(i),
                               " and a positive stride in dimension ", i, ", got ", start, ", ", limit, ", ", stride);
    shape.push_back((limit - start + stride - 1) / stride);
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

/// Whether a slice takes one of several blocks of equal size of a dimension.
static bool takesBlock(SliceOp op, int64_t dim) {
  int64_t size = tensorType(op.getInput()).getDimSize(dim), part = tensorType(op.getResult()).getDimSize(dim);
  return op.getStrides()[dim] == 1 && part > 0 && size % part == 0 && op.getStarts()[dim] % part == 0;
}

SplitRule SliceOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), result = tensorType(getResult());
  rule.operands.emplace_back();
  rule.results.emplace_back();
  for (int64_t i = 0; i < input.getRank(); ++i) {
    std::string name = "d" + std::to_string(i);
    int64_t size = input.getDimSize(i), part = result.getDimSize(i);
    if (size == part) {
      unsigned factor = rule.addFactor(name, size);
      rule.operands[0].push_back({factor});
      rule.results[0].push_back({factor});
    } else if (takesBlock(*this, i)) {
      unsigned block = rule.addFactor("block" + std::to_string(i), size / part, FactorKind::Unsplittable);
      unsigned factor = rule.addFactor(name, part);
      rule.operands[0].push_back({block, factor});
      rule.results[0].push_back({factor});
    } else {
      rule.operands[0].push_back({rule.addFactor(name, size, FactorKind::Unsplittable)});
      rule.results[0].push_back({rule.addFactor(name + "_part", part, FactorKind::Unsplittable)});
    }
  }
  rule.linear = {{0}};
  return rule;
}

FailureOr<SmallVector<Value>> SliceOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto input = tensorType(getInput()), result = tensorType(getResult());
  auto part = cast<RankedTensorType>(instance.results[0]);
  SmallVector<int64_t> starts(getStarts()), limits(getLimits());
  for (int64_t i = 0; i < part.getRank(); ++i) {
    if (part.getDimSize(i) == result.getDimSize(i))
      continue;
    starts[i] = input.getDimSize(i) == result.getDimSize(i) ? 0 : starts[i] / result.getDimSize(i) * part.getDimSize(i);
    limits[i] = starts[i] + part.getDimSize(i);
  }
  return SmallVector<Value>{SliceOp::create(builder, getLoc(), instance.operands[0], starts, limits, getStrides())};
}

LogicalResult ReverseOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  if (llvm::any_of(adaptor.getDims(), [&](int64_t dim) { return dim < 0 || dim >= input.getRank(); }))
    return emitOptionalError(location, "'dfg.reverse' expects dimensions of ", input);
  types.push_back(input);
  return success();
}

SplitRule ReverseOp::getSplitRule() {
  SplitRule rule;
  rule.operands.push_back(addDims(rule, tensorType(getInput()).getShape(), getDims()));
  rule.results.push_back(rule.operands[0]);
  return rule;
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput()), value = tensorType(adaptor.getValue());
  size_t rank = input.getRank();
  if (value.getRank() != 0 || value.getElementType() != input.getElementType())
    return emitOptionalError(location, "'dfg.pad' expects a scalar of ", input.getElementType(), ", got ", value);
  if (adaptor.getLow().size() != rank || adaptor.getHigh().size() != rank)
    return emitOptionalError(location, "'dfg.pad' expects ", rank, " amounts on both sides of ", input);
  SmallVector<int64_t> shape(input.getShape());
  for (size_t i = 0; i < rank; ++i) {
    if (adaptor.getLow()[i] < 0 || adaptor.getHigh()[i] < 0)
      return emitOptionalError(location, "'dfg.pad' expects no negative amount in dimension ", i);
    shape[i] += adaptor.getLow()[i] + adaptor.getHigh()[i];
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SplitRule PadOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), result = tensorType(getResult());
  rule.operands.assign({{}, {}});
  rule.results.emplace_back();
  for (int64_t i = 0; i < input.getRank(); ++i) {
    bool padded = getLow()[i] || getHigh()[i];
    unsigned factor = rule.addFactor("d" + std::to_string(i), input.getDimSize(i),
                                     padded ? FactorKind::Unsplittable : FactorKind::Parallel);
    rule.operands[0].push_back({factor});
    rule.results[0].push_back(
        {padded ? rule.addFactor("padded" + std::to_string(i), result.getDimSize(i), FactorKind::Unsplittable)
                : factor});
  }
  return rule;
}

//===-- gather ------------------------------------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput()), indices = tensorType(adaptor.getIndices());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= input.getRank())
    return emitOptionalError(location, "'dfg.gather' expects a dimension of ", input, ", got ", dim);
  SmallVector<int64_t> shape(input.getShape().take_front(dim));
  shape.append(indices.getShape().begin(), indices.getShape().end());
  shape.append(input.getShape().begin() + dim + 1, input.getShape().end());
  if (input.getDimSize(dim) == 0 && indices.getNumElements() != 0)
    return emitOptionalError(location, "'dfg.gather' expects elements to take from, got ", input);
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SplitRule GatherOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), indices = tensorType(getIndices());
  int64_t dim = getDim();
  rule.operands.push_back(addDims(rule, input.getShape(), dim));
  // Devices that have some of the positions give zero for the others. There is no sum of i1.
  if (!input.getElementType().isInteger(1)) {
    Factor &positions = rule.factors[rule.operands[0][dim].front()];
    positions.kind = FactorKind::Reduction;
    positions.combiner = Combiner::Sum;
  }
  rule.operands.emplace_back();
  rule.results.emplace_back();
  for (int64_t i = 0; i < dim; ++i)
    rule.results[0].push_back(rule.operands[0][i]);
  for (auto [index, size] : llvm::enumerate(indices.getShape())) {
    unsigned factor = rule.addFactor("index" + std::to_string(index), size);
    rule.operands[1].push_back({factor});
    rule.results[0].push_back({factor});
  }
  for (int64_t i = dim + 1; i < input.getRank(); ++i)
    rule.results[0].push_back(rule.operands[0][i]);
  rule.linear = {{0}};
  return rule;
}

LocalPositions localPositions(OpBuilder &builder, Location loc, Value indices, int64_t size, Value start,
                              int64_t part) {
  Type indexType = tensorType(indices).getElementType();
  auto scalar = [&](int64_t value) -> Value {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(RankedTensorType::get({}, indexType), builder.getIntegerAttr(indexType, value)));
  };
  Value zero = scalar(0);
  // The position in the whole dimension, then in the device's part of it.
  Value fromEnd = AddOp::create(builder, loc, indices, scalar(size));
  Value index = SelectOp::create(builder, loc, CompareOp::create(builder, loc, indices, zero, Comparison::Less),
                                 fromEnd, indices);
  index = MinOp::create(builder, loc, MaxOp::create(builder, loc, index, zero), scalar(size - 1));
  if (!indexType.isInteger(64))
    start = CastOp::create(builder, loc, start, indexType);
  index = SubOp::create(builder, loc, index, start);
  Value inside = AndOp::create(builder, loc, CompareOp::create(builder, loc, zero, index, Comparison::LessOrEqual),
                               CompareOp::create(builder, loc, index, scalar(part), Comparison::Less));
  Value nearest =
      MinOp::create(builder, loc, MaxOp::create(builder, loc, index, zero), scalar(std::max<int64_t>(part - 1, 0)));
  return {nearest, inside};
}

Value alignedPositions(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t rank) {
  SmallVector<int64_t> shape(tensorType(value).getShape());
  shape.append(rank - dim - shape.size(), 1);
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, tensorType(value).getElementType()), value);
}

FailureOr<SmallVector<Value>> GatherOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  SplitRule rule = getSplitRule();
  auto dim = static_cast<int64_t>(getDim());
  unsigned factor = rule.operands[0][dim].front();
  if (instance.ways[factor] == 1)
    return localizeByCloning(*this, builder, instance);
  LocalPositions at = localPositions(builder, getLoc(), instance.operands[1], tensorType(getInput()).getDimSize(dim),
                                     instance.start(factor), instance.sizes[factor]);
  Value taken = GatherOp::create(builder, getLoc(), instance.operands[0], at.nearest, dim);
  auto type = tensorType(taken);
  Value inside = alignedPositions(builder, getLoc(), at.inside, dim, type.getRank());
  Value none = ConstantOp::create(builder, getLoc(),
                                  DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()),
                                                         builder.getZeroAttr(type.getElementType())));
  return SmallVector<Value>{SelectOp::create(builder, getLoc(), inside, taken, none)};
}

OpCost GatherOp::getCost() {
  OpCost cost = movementCost(*this);
  cost.bytesRead = cost.bytesWritten + static_cast<double>(tensorBytes(getIndices().getType()));
  return cost;
}

//===-- iota --------------------------------------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) < 0 || static_cast<int64_t>(getDim()) >= tensorType(getResult()).getRank())
    return emitOpError("expects a dimension of ") << getType() << ", got " << getDim();
  return success();
}

SplitRule IotaOp::getSplitRule() {
  SplitRule rule;
  rule.results.push_back(addDims(rule, tensorType(getResult()).getShape()));
  return rule;
}

FailureOr<SmallVector<Value>> IotaOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto type = cast<RankedTensorType>(instance.results[0]);
  auto factor = static_cast<unsigned>(getDim());
  if (instance.ways[factor] == 1)
    return SmallVector<Value>{IotaOp::create(builder, getLoc(), type, getDim())};
  auto positions = RankedTensorType::get(type.getShape(), builder.getI64Type());
  Value index = IotaOp::create(builder, getLoc(), positions, getDim());
  index = AddOp::create(builder, getLoc(), index, instance.start(factor));
  if (type != positions)
    index = CastOp::create(builder, getLoc(), index, type.getElementType());
  return SmallVector<Value>{index};
}

//===-- mask --------------------------------------------------------------------------------------------------===//

LogicalResult MaskOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  size_t count = adaptor.getExtents().size();
  auto positive = [](int64_t value) { return value > 0; };
  if (adaptor.getDims().size() != count || adaptor.getInner().size() != count || adaptor.getSizes().size() != count ||
      !llvm::all_of(adaptor.getInner(), positive) || !llvm::all_of(adaptor.getSizes(), positive) ||
      llvm::any_of(adaptor.getDims(), [&](int64_t dim) { return dim < 0 || dim >= input.getRank(); }))
    return emitOptionalError(location, "'dfg.mask' expects a dimension of ", input,
                             ", an inner and a size, both positive, for each of ", count, " extents");
  types.push_back(input);
  return success();
}

SplitRule MaskOp::getSplitRule() {
  SplitRule rule;
  rule.operands.push_back(addDims(rule, tensorType(getInput()).getShape(), getDims()));
  rule.operands.resize(1 + getExtents().size());
  rule.results.push_back(rule.operands[0]);
  return rule;
}

} // namespace cleave::dfg
