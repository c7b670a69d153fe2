// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values with bounds, operators behind each other.

#include "test/property/split/GraphBuilder.h"

#include "test/property/split/RoundingProbe.h"

using namespace mlir;

namespace cleave::test {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

std::string elementName(Type element) {
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

DictionaryAttr fillAttr(Builder builder, Bounds bounds, uint64_t seed) {
  return builder.getDictionaryAttr({builder.getNamedAttr("low", builder.getF64FloatAttr(bounds.low)),
                                    builder.getNamedAttr("high", builder.getF64FloatAttr(bounds.high)),
                                    builder.getNamedAttr("seed", builder.getI64IntegerAttr(seed))});
}

/// Integers that leave their type's range wrap to anywhere in it.
static Bounds narrowed(Type element, Bounds bounds) {
  if (element.isInteger(1))
    return {0, 1};
  auto integer = dyn_cast<IntegerType>(element);
  double limit = integer ? std::ldexp(1.0, static_cast<int>(integer.getWidth()) - 1) : 0;
  if (integer && integer.isUnsigned())
    return bounds.low >= 0 && bounds.high < 2 * limit ? bounds : Bounds{0, 2 * limit - 1};
  return !integer || (bounds.low >= -limit && bounds.high < limit) ? bounds : Bounds{-limit, limit - 1};
}

GraphBuilder::GraphBuilder(MLIRContext &context, uint64_t seed) : dice(seed), builder(&context) {
  module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  graph = dfg::GraphOp::create(builder, builder.getUnknownLoc(), "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(graph.getBody().empty() ? &graph.getBody().emplaceBlock() : &graph.getBody().front());
}

Location GraphBuilder::nextLocation() { return NameLoc::get(builder.getStringAttr("n" + std::to_string(operators++))); }

int64_t GraphBuilder::size() { return dice.of<int64_t>({1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 11, 12}); }

SmallVector<int64_t> GraphBuilder::shape(int64_t minRank, int64_t maxRank) {
  SmallVector<int64_t> sizes;
  int64_t elements = 1;
  for (int64_t i = 0, rank = dice.between(minRank, maxRank); i < rank; ++i) {
    int64_t next = size();
    while (elements * next > 2048)
      next = (next + 1) / 2;
    sizes.push_back(next);
    elements *= next;
  }
  return sizes;
}

Value GraphBuilder::remember(Value value, Bounds bounds, bool isExact) {
  known[value] = {narrowed(elementOf(value), bounds), isExact};
  values.push_back(value);
  return value;
}

Value GraphBuilder::note(Operation *op, Rounding rounding, Bounds bounds) {
  Value result = op->getResult(0);
  bool isExact = !isa<FloatType>(elementOf(result)) || rounding == Rounding::Exact;
  for (Value operand : op->getOperands())
    isExact = isExact && this->isExact(operand);
  if (isExact)
    op->setAttr(exactAttrName, builder.getUnitAttr());
  return remember(result, bounds, isExact);
}

Value GraphBuilder::input(Type element, ArrayRef<int64_t> shape, Bounds bounds) {
  bounds = narrowed(element, bounds);
  Value value = graph.getBody().front().addArgument(type(element, shape), builder.getUnknownLoc());
  return remember(value, bounds, true);
}

/// Loaded by each device on its own.
Value GraphBuilder::parameter(RankedTensorType type, Bounds bounds) {
  OpBuilder::InsertionGuard guard(builder);
  std::string name = "p" + std::to_string(parameters++);
  builder.setInsertionPoint(graph);
  Attribute init = dfg::UniformAttr::get(builder.getContext(), builder.getF64FloatAttr(bounds.low),
                                         builder.getF64FloatAttr(bounds.high), dice.seed() >> 1);
  dfg::ParameterOp::create(builder, builder.getUnknownLoc(), name, type, init, false);
  builder.setInsertionPointToEnd(&graph.getBody().front());
  return dfg::ReadOp::create(builder, nextLocation(), type, name);
}

Value GraphBuilder::constant(RankedTensorType type, Bounds bounds) {
  SmallVector<Attribute> elements;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    double value = dice.real(bounds.low, bounds.high);
    if (auto integer = dyn_cast<IntegerType>(type.getElementType()))
      elements.push_back(builder.getIntegerAttr(
          integer, llvm::APInt(64, static_cast<uint64_t>(std::llround(value))).trunc(integer.getWidth())));
    else
      elements.push_back(builder.getFloatAttr(type.getElementType(), value));
  }
  return dfg::ConstantOp::create(builder, nextLocation(), DenseElementsAttr::get(type, elements));
}

Value GraphBuilder::fresh(Type element, ArrayRef<int64_t> shape, Bounds bounds) {
  bounds = narrowed(element, bounds);
  RankedTensorType made = type(element, shape);
  switch (dice.below(4)) {
  case 0:
    if (!element.isInteger(1))
      return remember(parameter(made, bounds), bounds, true);
    return input(element, shape, bounds);
  case 1:
    if (made.getNumElements() <= 64)
      return remember(constant(made, bounds), bounds, true);
    return input(element, shape, bounds);
  default:
    return input(element, shape, bounds);
  }
}

Value GraphBuilder::any(Type element, ArrayRef<int64_t> shape, Bounds bounds) {
  std::vector<Value> fitting;
  for (Value value : values)
    if (value.getType() == type(element, shape))
      fitting.push_back(value);
  if (fitting.empty() || dice.oneIn(2))
    return fresh(element, shape, bounds);
  return within(fitting[dice.below(fitting.size())], bounds);
}

Value GraphBuilder::within(Value value, Bounds bounds) {
  Bounds have = boundsOf(value);
  if (elementOf(value).isInteger(1) || (have.low >= bounds.low && have.high <= bounds.high))
    return value;
  return add<dfg::ClampOp>(Rounding::Exact, bounds, value, builder.getF64FloatAttr(bounds.low),
                           builder.getF64FloatAttr(bounds.high));
}

Value GraphBuilder::exact(Value value) {
  if (isExact(value))
    return value;
  Bounds bounds = boundsOf(value);
  return fresh(elementOf(value), shapeOf(value), {std::max(bounds.low, -100.0), std::min(bounds.high, 100.0)});
}

OwningOpRef<ModuleOp> GraphBuilder::finish(ArrayRef<Value> outputs) {
  Block &body = graph.getBody().front();
  dfg::ReturnOp::create(builder, builder.getUnknownLoc(), outputs);
  graph.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), ValueRange(outputs).getTypes()));
  for (BlockArgument argument : body.getArguments())
    graph.setArgAttr(argument.getArgNumber(), fillAttrName, fillAttr(builder, boundsOf(argument), dice.seed() >> 1));
  return std::move(module);
}

} // namespace cleave::test
