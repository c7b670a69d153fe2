// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, split rules and costs of the operators that compute gradients.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"
#include "dialects/dfg/Window.h"

using namespace mlir;

namespace cleave::dfg {

/// Appends a factor that cannot be divided, and gives it to the next dimension of one tensor.
static void addWhole(SplitRule &rule, TensorFactors &tensor, const Twine &name, int64_t size) {
  tensor.push_back({rule.addFactor(name.str(), size, FactorKind::Unsplittable)});
}

//===-- conv_filter_gradient ----------------------------------------------------------------------------------===//

LogicalResult ConvFilterGradientOp::verify() {
  auto input = tensorType(getInput()), cotangent = tensorType(getCotangent()), filter = tensorType(getResult());
  Type element = input.getElementType();
  bool isNarrow = element.isF16() || element.isBF16();
  bool oneElement = cotangent.getElementType() == element &&
                    (filter.getElementType() == element || (isNarrow && filter.getElementType().isF32()));
  if (input.getRank() < 3 || cotangent.getRank() != input.getRank() || filter.getRank() != input.getRank() ||
      !oneElement)
    return emitOpError("expects input, cotangent and result of one element type (or the result of f32, the others "
                       "narrower) and one rank of at least 3, got ")
           << input << ", " << cotangent << " and " << filter;
  ArrayRef<int64_t> window = filter.getShape().drop_front(2);
  if (failed(checkWindow(getLoc(), getOperationName(), window.size(), window, getStrides(), getPads(), getDilations())))
    return failure();
  auto groups = static_cast<int64_t>(getGroups());
  if (groups < 1 || filter.getDimSize(1) * groups != input.getDimSize(1) || filter.getDimSize(0) % groups != 0)
    return emitOpError("expects input channels = groups x filter dimension 1 and filters divisible by groups, got ")
           << input << ", " << filter << " and " << groups << " groups";
  SmallVector<int64_t> shape = {input.getDimSize(0), filter.getDimSize(0)};
  shape.append(windowPositions(input.getShape(), window, getStrides(), getPads(), getDilations()));
  if (cotangent.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("expects a cotangent of the convolution's type ") << input.clone(shape) << ", got " << cotangent;
  return success();
}

SplitRule ConvFilterGradientOp::getSplitRule() {
  SplitRule rule;
  auto input = tensorType(getInput()), cotangent = tensorType(getCotangent()), filter = tensorType(getResult());
  unsigned batch = rule.addFactor("batch", input.getDimSize(0), FactorKind::Reduction, Combiner::Sum);
  bool grouped = getGroups() != 1;
  FactorKind channels = grouped ? FactorKind::Unsplittable : FactorKind::Parallel;
  auto groups = static_cast<int64_t>(getGroups());
  unsigned group = grouped ? rule.addFactor("group", groups) : 0;
  unsigned out = rule.addFactor("out_channel", filter.getDimSize(0) / groups, channels);
  unsigned in = rule.addFactor("in_channel", filter.getDimSize(1), channels);
  auto withGroup = [&](unsigned factor) { return grouped ? DimFactors{group, factor} : DimFactors{factor}; };
  rule.operands.assign({{{batch}, withGroup(in)}, {{batch}, withGroup(out)}});
  rule.results.assign({{withGroup(out), {in}}});
  for (int64_t i = 2; i < input.getRank(); ++i) {
    addWhole(rule, rule.operands[0], "in" + Twine(i - 2), input.getDimSize(i));
    addWhole(rule, rule.operands[1], "out" + Twine(i - 2), cotangent.getDimSize(i));
    addWhole(rule, rule.results[0], "window" + Twine(i - 2), filter.getDimSize(i));
  }
  rule.linear = {{0}, {1}};
  return rule;
}

FailureOr<SmallVector<Value>> ConvFilterGradientOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto group = getSplitRule().find("group");
  int64_t groups = group ? instance.sizes[*group] : static_cast<int64_t>(getGroups());
  return SmallVector<Value>{ConvFilterGradientOp::create(builder, getLoc(), instance.results[0], instance.operands[0],
                                                         instance.operands[1], getStrides(), getPads(), getDilations(),
                                                         groups)};
}

OpCost ConvFilterGradientOp::getCost() {
  auto filter = tensorType(getResult());
  double depth =
      static_cast<double>(filter.getNumElements()) / static_cast<double>(std::max<int64_t>(filter.getDimSize(0), 1));
  OpCost cost = elementwiseCost(*this, 0.0, CostClass::Contraction);
  cost.flops = 2.0 * depth * static_cast<double>(tensorType(getCotangent()).getNumElements());
  cost.winogradPixels = winogradPixels(tensorType(getCotangent()), filter.getShape().drop_front(2),
                                       std::min(filter.getDimSize(0), filter.getDimSize(1)), getStrides(),
                                       getDilations(), static_cast<int64_t>(getGroups()));
  return cost;
}

//===-- pool_gradient -----------------------------------------------------------------------------------------===//

LogicalResult PoolGradientOp::verify() {
  auto cotangent = tensorType(getCotangent()), result = tensorType(getResult());
  if (result.getRank() < 3)
    return emitOpError("expects a result of rank 3 or more, got ") << result;
  if (failed(checkWindow(getLoc(), getOperationName(), result.getRank() - 2, getWindow(), getStrides(), getPads(),
                         getDilations())))
    return failure();
  SmallVector<int64_t> shape(result.getShape().take_front(2));
  shape.append(windowPositions(result.getShape(), getWindow(), getStrides(), getPads(), getDilations()));
  if (cotangent != result.clone(shape))
    return emitOpError("expects a cotangent of the pooling's type ") << result.clone(shape) << ", got " << cotangent;
  bool isMax = getKind() == PoolKind::Max;
  if (isMax != static_cast<bool>(getInput()) || (isMax && getInput().getType() != result))
    return emitOpError(isMax ? "expects an input of the result's type for max" : "expects no input for average");
  return success();
}

/// Whether each element of dimension `i + 2` belongs to exactly one window.
static bool tiles(PoolGradientOp op, size_t i) {
  size_t rank = op.getWindow().size();
  return op.getWindow()[i] == op.getStrides()[i] && op.getDilations()[i] == 1 && op.getPads()[i] == 0 &&
         op.getPads()[rank + i] == 0 && tensorType(op.getResult()).getDimSize(i + 2) % op.getWindow()[i] == 0;
}

SplitRule PoolGradientOp::getSplitRule() {
  static constexpr StringRef names[] = {"height", "width", "depth"};
  SplitRule rule;
  auto cotangent = tensorType(getCotangent()), result = tensorType(getResult());
  unsigned batch = rule.addFactor("batch", result.getDimSize(0)),
           channel = rule.addFactor("channel", result.getDimSize(1));
  rule.operands.assign({{{batch}, {channel}}});
  rule.results.assign({{{batch}, {channel}}});
  for (size_t i = 0; i < getWindow().size(); ++i) {
    if (!tiles(*this, i)) {
      addWhole(rule, rule.operands[0], "out" + Twine(i), cotangent.getDimSize(i + 2));
      addWhole(rule, rule.results[0], "in" + Twine(i), result.getDimSize(i + 2));
      continue;
    }
    std::string name = getWindow().size() <= 3 ? names[i].str() : "space" + std::to_string(i);
    unsigned space = rule.addFactor(name, cotangent.getDimSize(i + 2));
    unsigned inner = rule.addFactor("window" + std::to_string(i), getWindow()[i], FactorKind::Unsplittable);
    rule.operands[0].push_back({space});
    rule.results[0].push_back({space, inner});
  }
  if (getInput())
    rule.operands.push_back(rule.results[0]);
  rule.linear = {{0}};
  return rule;
}

OpCost PoolGradientOp::getCost() {
  OpCost cost = elementwiseCost(*this, 0.0, CostClass::Reduction);
  cost.flops = static_cast<double>(tensorType(getCotangent()).getNumElements());
  for (int64_t size : getWindow())
    cost.flops *= static_cast<double>(size);
  return cost;
}

//===-- gather_gradient ---------------------------------------------------------------------------------------===//

LogicalResult GatherGradientOp::verify() {
  auto cotangent = tensorType(getCotangent()), indices = tensorType(getIndices()), result = tensorType(getResult());
  auto dim = static_cast<int64_t>(getDim());
  if (dim < 0 || dim >= result.getRank())
    return emitOpError("expects a dimension of ") << result << ", got " << dim;
  SmallVector<int64_t> shape(result.getShape().take_front(dim));
  shape.append(indices.getShape().begin(), indices.getShape().end());
  shape.append(result.getShape().begin() + dim + 1, result.getShape().end());
  if (cotangent != result.clone(shape))
    return emitOpError("expects a cotangent of the gather's type ") << result.clone(shape) << ", got " << cotangent;
  if (result.getDimSize(dim) == 0 && indices.getNumElements() != 0)
    return emitOpError("expects positions to add to, got ") << result;
  return success();
}

SplitRule GatherGradientOp::getSplitRule() {
  SplitRule rule;
  auto indices = tensorType(getIndices()), result = tensorType(getResult());
  auto dim = static_cast<int64_t>(getDim());
  rule.operands.assign(2, {});
  rule.results.emplace_back();
  for (auto [index, size] : llvm::enumerate(result.getShape()))
    rule.results[0].push_back({rule.addFactor("d" + std::to_string(index), size)});
  for (auto [index, size] : llvm::enumerate(indices.getShape()))
    rule.operands[1].push_back(
        {rule.addFactor("index" + std::to_string(index), size, FactorKind::Reduction, Combiner::Sum)});
  rule.operands[0].append(rule.results[0].begin(), rule.results[0].begin() + dim);
  rule.operands[0].append(rule.operands[1]);
  rule.operands[0].append(rule.results[0].begin() + dim + 1, rule.results[0].end());
  rule.linear = {{0}};
  return rule;
}

/// Slices that belong to other devices' positions count as zero.
FailureOr<SmallVector<Value>> GatherGradientOp::localize(OpBuilder &builder, const LocalInstance &instance) {
  auto dim = static_cast<int64_t>(getDim());
  unsigned factor = getSplitRule().results[0][dim].front();
  if (instance.ways[factor] == 1)
    return localizeByCloning(*this, builder, instance);
  LocalPositions at = localPositions(builder, getLoc(), instance.operands[1], tensorType(getResult()).getDimSize(dim),
                                     instance.start(factor), instance.sizes[factor]);
  Value inside = alignedPositions(builder, getLoc(), at.inside, dim, tensorType(instance.operands[0]).getRank());
  Value cotangent = instance.operands[0];
  Type element = tensorType(cotangent).getElementType();
  Value none = ConstantOp::create(
      builder, getLoc(), DenseElementsAttr::get(RankedTensorType::get({}, element), builder.getZeroAttr(element)));
  cotangent = SelectOp::create(builder, getLoc(), inside, cotangent, none);
  return SmallVector<Value>{
      GatherGradientOp::create(builder, getLoc(), instance.results[0], cotangent, at.nearest, getDim())};
}

OpCost GatherGradientOp::getCost() {
  OpCost cost = movementCost(*this);
  // Slices that were taken from one position are added up.
  cost.costClass = CostClass::Reduction;
  cost.flops = static_cast<double>(tensorType(getCotangent()).getNumElements());
  return cost;
}

} // namespace cleave::dfg
