// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of the operators that read, write or find positions.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

#include <cmath>

using namespace mlir;

namespace cleave::dfg {

static LogicalResult checkDim(std::optional<Location> location, StringRef name, RankedTensorType input, int64_t dim) {
  if (dim < 0 || dim >= input.getRank())
    return emitOptionalError(location, "'", name, "' expects a dimension of ", input, ", got ", dim);
  return success();
}

/// `indices` must have the size of `input`, or one, in all dimensions but `dim`.
static LogicalResult checkIndices(std::optional<Location> location, StringRef name, RankedTensorType input,
                                  RankedTensorType indices, int64_t dim) {
  bool fits = indices.getRank() == input.getRank();
  for (int64_t i = 0; fits && i < input.getRank(); ++i)
    fits = i == dim || indices.getDimSize(i) == 1 || indices.getDimSize(i) == input.getDimSize(i);
  if (!fits)
    return emitOptionalError(location, "'", name,
                             "' expects indices of the input's size, or one, in all dimensions but ", dim, ", got ",
                             indices, " for ", input);
  return success();
}

namespace {
/// The rule of an operator that works line by line along `dim`: all other dimensions are divided alike.
class LineRule {
public:
  LineRule(RankedTensorType input, int64_t dim) : dim(dim) {
    for (auto [index, size] : llvm::enumerate(input.getShape()))
      lines.push_back(static_cast<int64_t>(index) == dim
                          ? DimFactors()
                          : DimFactors{rule.addFactor("d" + std::to_string(index), size)});
  }

  unsigned addFactor(StringRef name, int64_t size, FactorKind kind) { return rule.addFactor(name, size, kind); }
  /// The factors of a tensor with `factor` along the dimension.
  TensorFactors of(RankedTensorType type, unsigned factor) const {
    TensorFactors factors(lines);
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != dim && !lines[i].empty() && type.getDimSize(i) != rule.factors[lines[i][0]].size)
        factors[i].clear();
    factors[dim] = {factor};
    return factors;
  }

  SplitRule rule;

private:
  int64_t dim;
  TensorFactors lines;
};
} // namespace

/// The rule of an operator that keeps the shape and needs whole lines.
static SplitRule wholeLines(RankedTensorType input, int64_t dim) {
  LineRule lines(input, dim);
  unsigned along = lines.addFactor("line", input.getDimSize(dim), FactorKind::Unsplittable);
  lines.rule.operands.push_back(lines.of(input, along));
  lines.rule.results.push_back(lines.of(input, along));
  return lines.rule;
}

//===-- gather_elements ---------------------------------------------------------------------------------------===//

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  auto input = tensorType(adaptor.getInput()), indices = tensorType(adaptor.getIndices());
  int64_t dim = adaptor.getDim();
  if (failed(checkDim(location, name, input, dim)) || failed(checkIndices(location, name, input, indices, dim)))
    return failure();
  SmallVector<int64_t> shape(input.getShape());
  shape[dim] = indices.getDimSize(dim);
  auto result = RankedTensorType::get(shape, input.getElementType());
  if (input.getDimSize(dim) == 0 && result.getNumElements() != 0)
    return emitOptionalError(location, "'", name, "' expects elements to take from, got ", input);
  types.push_back(result);
  return success();
}

SplitRule GatherElementsOp::getSplitRule() {
  auto input = tensorType(getInput()), indices = tensorType(getIndices());
  int64_t dim = getDim();
  LineRule lines(input, dim);
  unsigned from = lines.addFactor("from", input.getDimSize(dim), FactorKind::Unsplittable);
  unsigned index = lines.addFactor("index", indices.getDimSize(dim), FactorKind::Parallel);
  lines.rule.operands = {lines.of(input, from), lines.of(indices, index)};
  lines.rule.results = {lines.of(tensorType(getResult()), index)};
  return lines.rule;
}

OpCost GatherElementsOp::getCost() {
  OpCost cost = movementCost(*this);
  cost.bytesRead = cost.bytesWritten + static_cast<double>(tensorBytes(getIndices().getType()));
  return cost;
}

//===-- scatter_elements --------------------------------------------------------------------------------------===//

LogicalResult ScatterElementsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                                  SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  auto input = tensorType(adaptor.getInput()), indices = tensorType(adaptor.getIndices());
  auto updates = tensorType(adaptor.getUpdates());
  int64_t dim = adaptor.getDim();
  if (failed(checkDim(location, name, input, dim)) || failed(checkIndices(location, name, input, indices, dim)))
    return failure();
  SmallVector<int64_t> shape(input.getShape());
  shape[dim] = indices.getDimSize(dim);
  auto expected = RankedTensorType::get(shape, input.getElementType());
  if (updates != expected)
    return emitOptionalError(location, "'", name, "' expects updates of the type ", expected, ", got ", updates);
  if (adaptor.getReduction() == ReduceKind::Sum && input.getElementType().isInteger(1))
    return emitOptionalError(location, "'", name, "' expects numbers to add, got ", input);
  types.push_back(input);
  return success();
}

SplitRule ScatterElementsOp::getSplitRule() {
  auto input = tensorType(getInput()), indices = tensorType(getIndices());
  int64_t dim = getDim();
  LineRule lines(input, dim);
  unsigned to = lines.addFactor("to", input.getDimSize(dim), FactorKind::Unsplittable);
  unsigned update = lines.addFactor("update", indices.getDimSize(dim), FactorKind::Unsplittable);
  lines.rule.operands = {lines.of(input, to), lines.of(indices, update), lines.of(tensorType(getUpdates()), update)};
  lines.rule.results = {lines.of(input, to)};
  return lines.rule;
}

OpCost ScatterElementsOp::getCost() {
  OpCost cost = movementCost(*this);
  cost.flops = getReduction() ? static_cast<double>(tensorType(getUpdates()).getNumElements()) : 0.0;
  return cost;
}

//===-- cumulative_sum, arg_sort ------------------------------------------------------------------------------===//

LogicalResult CumulativeSumOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkDim(location, getOperationName(), tensorType(adaptor.getInput()), adaptor.getDim());
}

SplitRule CumulativeSumOp::getSplitRule() { return wholeLines(tensorType(getInput()), getDim()); }

OpCost CumulativeSumOp::getCost() { return elementwiseCost(*this, 1.0, CostClass::Reduction); }

LogicalResult ArgSortOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  types.push_back(RankedTensorType::get(input.getShape(), IntegerType::get(context, 64)));
  return checkDim(location, getOperationName(), input, adaptor.getDim());
}

SplitRule ArgSortOp::getSplitRule() { return wholeLines(tensorType(getInput()), getDim()); }

/// Every element is compared as often as halving its line takes.
OpCost ArgSortOp::getCost() {
  auto size = static_cast<double>(std::max<int64_t>(tensorType(getInput()).getDimSize(getDim()), 2));
  return elementwiseCost(*this, std::log2(size), CostClass::Reduction);
}

} // namespace cleave::dfg
