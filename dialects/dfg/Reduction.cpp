// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of reductions and normalizations.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

/// `dims` must be distinct dimensions of `input`.
static LogicalResult checkDims(std::optional<Location> location, StringRef name, RankedTensorType input,
                               ArrayRef<int64_t> dims) {
  SmallVector<int64_t> sorted(dims);
  llvm::sort(sorted);
  bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!distinct || llvm::any_of(dims, [&](int64_t dim) { return dim < 0 || dim >= input.getRank(); }))
    return emitOptionalError(location, "'", name, "' expects distinct dimensions of ", input);
  return success();
}

static SmallVector<int64_t> reducedShape(RankedTensorType input, ArrayRef<int64_t> dims, bool keepDims) {
  SmallVector<int64_t> shape;
  for (auto [index, size] : llvm::enumerate(input.getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(index)))
      shape.push_back(size);
    else if (keepDims)
      shape.push_back(1);
  return shape;
}

/// Factors d0, d1, ... of the input's dimensions; those of `dims` are of `kind` and leave the result.
static SplitRule reductionRule(RankedTensorType input, ArrayRef<int64_t> dims, bool keepDims, FactorKind kind,
                               Combiner combiner) {
  SplitRule rule;
  rule.operands.emplace_back();
  rule.results.emplace_back();
  for (auto [index, size] : llvm::enumerate(input.getShape())) {
    bool reduced = llvm::is_contained(dims, static_cast<int64_t>(index));
    unsigned factor = rule.addFactor("d" + std::to_string(index), size, reduced ? kind : FactorKind::Parallel,
                                     reduced ? combiner : Combiner::None);
    rule.operands[0].push_back({factor});
    if (!reduced)
      rule.results[0].push_back({factor});
    else if (keepDims)
      rule.results[0].push_back({});
  }
  return rule;
}

/// The rule of an operator that keeps its shape and needs all of `dims` on one device.
static SplitRule normalizationRule(RankedTensorType input, ArrayRef<int64_t> dims) {
  SplitRule rule;
  rule.operands.emplace_back();
  for (auto [index, size] : llvm::enumerate(input.getShape())) {
    bool whole = llvm::is_contained(dims, static_cast<int64_t>(index));
    rule.operands[0].push_back(
        {rule.addFactor("d" + std::to_string(index), size, whole ? FactorKind::Stepwise : FactorKind::Parallel)});
  }
  rule.results.push_back(rule.operands[0]);
  return rule;
}

/// A reduction does one operation per input element.
static OpCost reductionCost(Operation *op, double perElement) {
  OpCost cost = elementwiseCost(op, 0.0, CostClass::Reduction);
  cost.flops = perElement * static_cast<double>(tensorType(op->getOperand(0)).getNumElements());
  return cost;
}

//===-- reduce ------------------------------------------------------------------------------------------------===//

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  if (failed(checkDims(location, "dfg.reduce", input, adaptor.getDims())))
    return failure();
  types.push_back(
      RankedTensorType::get(reducedShape(input, adaptor.getDims(), adaptor.getKeepDims()), input.getElementType()));
  return success();
}

SplitRule ReduceOp::getSplitRule() {
  static constexpr Combiner combiners[] = {Combiner::Sum, Combiner::Product, Combiner::Max, Combiner::Min};
  SplitRule rule = reductionRule(tensorType(getInput()), getDims(), getKeepDims(), FactorKind::Reduction,
                                 combiners[static_cast<unsigned>(getKind())]);
  if (getKind() == ReduceKind::Sum)
    rule.linear = {{0}};
  return rule;
}

OpCost ReduceOp::getCost() { return reductionCost(*this, 1.0); }

//===-- arg_reduce --------------------------------------------------------------------------------------------===//

LogicalResult ArgReduceOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  int64_t dim = adaptor.getDim();
  if (failed(checkDims(location, "dfg.arg_reduce", input, dim)))
    return failure();
  types.push_back(
      RankedTensorType::get(reducedShape(input, dim, adaptor.getKeepDims()), IntegerType::get(context, 64)));
  return success();
}

SplitRule ArgReduceOp::getSplitRule() {
  return reductionRule(tensorType(getInput()), static_cast<int64_t>(getDim()), getKeepDims(), FactorKind::Unsplittable,
                       Combiner::None);
}

OpCost ArgReduceOp::getCost() { return reductionCost(*this, 1.0); }

//===-- softmax, log_softmax, layer_norm, lrn -----------------------------------------------------------------===//

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkDims(location, "dfg.softmax", tensorType(adaptor.getInput()), static_cast<int64_t>(adaptor.getDim()));
}

SplitRule SoftmaxOp::getSplitRule() {
  return normalizationRule(tensorType(getInput()), static_cast<int64_t>(getDim()));
}

OpCost SoftmaxOp::getCost() { return reductionCost(*this, 5.0); }

LogicalResult LogSoftmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkDims(location, "dfg.log_softmax", tensorType(adaptor.getInput()), static_cast<int64_t>(adaptor.getDim()));
}

SplitRule LogSoftmaxOp::getSplitRule() {
  return normalizationRule(tensorType(getInput()), static_cast<int64_t>(getDim()));
}

OpCost LogSoftmaxOp::getCost() { return reductionCost(*this, 5.0); }

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkDims(location, "dfg.layer_norm", tensorType(adaptor.getInput()), adaptor.getDims());
}

SplitRule LayerNormOp::getSplitRule() { return normalizationRule(tensorType(getInput()), getDims()); }

OpCost LayerNormOp::getCost() { return reductionCost(*this, 7.0); }

LogicalResult LrnOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  if (tensorType(adaptor.getInput()).getRank() < 2 || adaptor.getSize() < 1)
    return emitOptionalError(location, "'dfg.lrn' expects an input with channels and a positive size, got ",
                             adaptor.getInput().getType(), " and ", adaptor.getSize());
  return success();
}

SplitRule LrnOp::getSplitRule() {
  SplitRule rule = normalizationRule(tensorType(getInput()), 1);
  auto size = static_cast<int64_t>(getSize());
  Factor &channel = rule.factors[1];
  channel.name = "channel";
  channel.kind = FactorKind::Window;
  channel.haloBefore = (size - 1) / 2;
  channel.haloAfter = size / 2;
  return rule;
}

/// On a part with its neighbours' channels around it, whose own results are thrown away.
FailureOr<SmallVector<Value>> LrnOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto made = localizeByCloning(*this, builder, instance);
  if (instance.ways[1] == 1)
    return made;
  Value all = made->front();
  all.setType(instance.operands[0].getType());
  auto part = cast<RankedTensorType>(instance.results[0]);
  SmallVector<int64_t> starts(part.getRank(), 0), limits(part.getShape()), strides(part.getRank(), 1);
  starts[1] = (static_cast<int64_t>(getSize()) - 1) / 2;
  limits[1] += starts[1];
  return SmallVector<Value>{SliceOp::create(builder, getLoc(), all, starts, limits, strides)};
}

OpCost LrnOp::getCost() { return reductionCost(*this, 2.0 * static_cast<double>(getSize()) + 10.0); }

//===-- batch_norm --------------------------------------------------------------------------------------------===//

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto input = tensorType(adaptor.getInput());
  if (input.getRank() < 2)
    return emitOptionalError(location, "'dfg.batch_norm' expects an input with channels, got ", input);
  for (Value value : adaptor.getOperands().drop_front())
    if (tensorType(value).getRank() != 1 || tensorType(value).getDimSize(0) != input.getDimSize(1))
      return emitOptionalError(location, "'dfg.batch_norm' expects one value a channel of ", input, ", got ",
                               value.getType());
  types.push_back(input);
  return success();
}

SplitRule BatchNormOp::getSplitRule() {
  SplitRule rule;
  rule.operands.emplace_back();
  for (auto [index, size] : llvm::enumerate(tensorType(getInput()).getShape()))
    rule.operands[0].push_back({rule.addFactor(index == 1 ? "channel" : "d" + std::to_string(index), size)});
  rule.results.push_back(rule.operands[0]);
  for (unsigned i = 0; i < 4; ++i)
    rule.operands.push_back({{1}});
  return rule;
}

OpCost BatchNormOp::getCost() { return reductionCost(*this, 2.0); }

} // namespace cleave::dfg
