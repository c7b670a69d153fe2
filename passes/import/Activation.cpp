// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activation functions, clipping, and dropout (which does nothing at inference).

#include "passes/import/ActivationFunctions.h"
#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave {

static Value clamp(NodeImporter &node, Value value, double low, double high) {
  return node.emit<dfg::ClampOp>(value, {node.real64("low", low), node.real64("high", high)});
}

static Value elu(NodeImporter &node, Value value, double alpha) {
  return node.emit<dfg::EluOp>(value, node.real64("alpha", alpha));
}

/// `value` times a constant.
static Value scale(NodeImporter &node, Value value, double factor) {
  return value ? node.emit<dfg::MulOp>({value, node.scalar(NodeImporter::elementOf(value), factor)}) : Value();
}

static Value shift(NodeImporter &node, Value value, double amount) {
  return value ? node.emit<dfg::AddOp>({value, node.scalar(NodeImporter::elementOf(value), amount)}) : Value();
}

static Value isBelow(NodeImporter &node, Value lhs, Value rhs) { return node.compare(lhs, rhs, dfg::Comparison::Less); }

static Value leakyRelu(NodeImporter &node, Value value, double alpha) {
  return node.emit<dfg::LeakyReluOp>(value, node.real64("alpha", alpha));
}

static Value thresholdedRelu(NodeImporter &node, Value value, double alpha) {
  if (!value)
    return {};
  Type element = NodeImporter::elementOf(value);
  Value isAbove = isBelow(node, node.scalar(element, alpha), value);
  return node.emit<dfg::SelectOp>({isAbove, value, node.scalar(element, 0.0)});
}

static Value hardSigmoid(NodeImporter &node, Value value, double alpha, double beta) {
  return clamp(node, shift(node, scale(node, value, alpha), beta), 0.0, 1.0);
}

static Value softsign(NodeImporter &node, Value value) {
  return node.emit<dfg::DivOp>({value, shift(node, node.emit<dfg::AbsOp>(value), 1.0)});
}

template <typename OpTy> static Value buildUnary(NodeImporter &node, Value value, double, double) {
  return node.emit<OpTy>(value);
}

const ActivationFunction *findActivationFunction(StringRef name) {
  constexpr std::nullopt_t none = std::nullopt;
  static const ActivationFunction functions[] = {
      {"Relu", none, none, buildUnary<dfg::ReluOp>},
      {"Tanh", none, none, buildUnary<dfg::TanhOp>},
      {"Sigmoid", none, none, buildUnary<dfg::SigmoidOp>},
      {"Softplus", none, none, buildUnary<dfg::SoftplusOp>},
      {"Softsign", none, none, [](NodeImporter &node, Value x, double, double) { return softsign(node, x); }},
      {"Elu", 1.0, none, [](NodeImporter &node, Value x, double alpha, double) { return elu(node, x, alpha); }},
      {"LeakyRelu", 0.01, none,
       [](NodeImporter &node, Value x, double alpha, double) { return leakyRelu(node, x, alpha); }},
      {"ThresholdedRelu", 1.0, none,
       [](NodeImporter &node, Value x, double alpha, double) { return thresholdedRelu(node, x, alpha); }},
      {"HardSigmoid", 0.2, 0.5, hardSigmoid},
      {"Affine", 1.0, 0.0,
       [](NodeImporter &node, Value x, double alpha, double beta) { return shift(node, scale(node, x, alpha), beta); }},
      {"ScaledTanh", 1.0, 1.0, [](NodeImporter &node, Value x, double alpha, double beta) {
         return scale(node, node.emit<dfg::TanhOp>(scale(node, x, beta)), alpha);
       }}};
  const auto *found =
      llvm::find_if(functions, [&](const ActivationFunction &one) { return one.name.equals_insensitive(name); });
  return found == std::end(functions) ? nullptr : found;
}

FailureOr<Value> applyActivation(NodeImporter &node, Value value, ArrayRef<float> parameters) {
  std::string name = node.text("activation", "");
  if (name.empty())
    return value;
  if (name == "Clip" && parameters.size() == 2)
    return clamp(node, value, parameters[0], parameters[1]);
  const ActivationFunction *function = findActivationFunction(name);
  if (!function)
    return FailureOr<Value>(node.unsupported("the function \"" + name + "\" as \"activation\" is not known"));
  auto parameter = [&](size_t index, std::optional<double> fallback) {
    return index < parameters.size() ? static_cast<double>(parameters[index]) : fallback.value_or(0.0);
  };
  return function->build(node, value, parameter(0, function->alpha), parameter(1, function->beta));
}

static ImportResults importLeakyRelu(NodeImporter &node) {
  return oneResult(leakyRelu(node, node.input(0), node.real("alpha", 0.01)));
}

static ImportResults importElu(NodeImporter &node) {
  return oneResult(elu(node, node.input(0), node.real("alpha", 1.0)));
}

static ImportResults importSelu(NodeImporter &node) {
  double alpha = node.real("alpha", 1.67326319217681884765625), gamma = node.real("gamma", 1.05070102214813232421875);
  return oneResult(scale(node, elu(node, node.input(0), alpha), gamma));
}

static ImportResults importCelu(NodeImporter &node) {
  double alpha = node.real("alpha", 1.0);
  Value unit = elu(node, scale(node, node.input(0), 1.0 / alpha), 1.0);
  return oneResult(scale(node, unit, alpha));
}

static ImportResults importPRelu(NodeImporter &node) {
  Value input = node.input(0), slope = node.input(1);
  // Before operator set 7 a vector of slopes went along the channels.
  if (node.getVersion() < 7 && node.rank(1) == 1 && node.shape(1)[0] != 1)
    slope = node.perChannel(slope, node.rank(0));
  Value zero = node.scalar(node.type(0).getElementType(), 0.0);
  // Zero counts as below: it is on the side whose derivative PyTorch gives it.
  return oneResult(
      node.emit<dfg::SelectOp>({isBelow(node, zero, input), input, node.emit<dfg::MulOp>({slope, input})}));
}

static ImportResults importThresholdedRelu(NodeImporter &node) {
  return oneResult(thresholdedRelu(node, node.input(0), node.real("alpha", 1.0)));
}

static ImportResults importHardSigmoid(NodeImporter &node) {
  return oneResult(hardSigmoid(node, node.input(0), node.real("alpha", 0.2), node.real("beta", 0.5)));
}

static ImportResults importHardSwish(NodeImporter &node) {
  Value input = node.input(0);
  Value gate = clamp(node, shift(node, scale(node, input, 1.0 / 6.0), 0.5), 0.0, 1.0);
  return oneResult(node.emit<dfg::MulOp>({input, gate}));
}

static ImportResults importSwish(NodeImporter &node) {
  Value input = node.input(0);
  return oneResult(
      node.emit<dfg::MulOp>({input, node.emit<dfg::SigmoidOp>(scale(node, input, node.real("alpha", 1.0)))}));
}

/// x + bias below -lambd, x - bias above lambd, and 0 between them.
static ImportResults importShrink(NodeImporter &node) {
  Value input = node.input(0);
  Type element = node.type(0).getElementType();
  Value low = node.scalar(element, -node.real("lambd", 0.5)), high = node.scalar(element, node.real("lambd", 0.5));
  Value bias = node.scalar(element, node.real("bias", 0.0));
  Value above = node.emit<dfg::SelectOp>(
      {isBelow(node, high, input), node.emit<dfg::SubOp>({input, bias}), node.scalar(element, 0.0)});
  return oneResult(node.emit<dfg::SelectOp>({isBelow(node, input, low), node.emit<dfg::AddOp>({input, bias}), above}));
}

static ImportResults importSoftsign(NodeImporter &node) { return oneResult(softsign(node, node.input(0))); }

static ImportResults importMish(NodeImporter &node) {
  Value input = node.input(0);
  return oneResult(node.emit<dfg::MulOp>({input, node.emit<dfg::TanhOp>(node.emit<dfg::SoftplusOp>(input))}));
}

static Value gelu(NodeImporter &node, Value value, bool approximate) {
  SmallVector<NamedAttribute> attributes;
  if (approximate)
    attributes.push_back(node.flag("approximate"));
  return node.emit<dfg::GeluOp>(value, attributes);
}

static ImportResults importGelu(NodeImporter &node) {
  std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return node.error("expects \"approximate\" to be \"none\" or \"tanh\", got \"" + approximate + "\"");
  return oneResult(gelu(node, node.input(0), approximate == "tanh"));
}

//===-- fused by ONNX Runtime ---------------------------------------------------------------------------------===//

/// Input 0 plus the bias in input 1, if there is one: a vector along the last dimension.
static FailureOr<Value> biased(NodeImporter &node) {
  if (!node.hasInput(1))
    return node.input(0);
  if (node.rank(0) < 1 || node.rank(1) != 1 || node.shape(1)[0] != node.shape(0).back())
    return FailureOr<Value>(node.error("expects a bias of one element for each of the last dimension"));
  return node.emit<dfg::AddOp>({node.input(0), node.input(1)});
}

template <bool approximate> static ImportResults importBiasGelu(NodeImporter &node) {
  FailureOr<Value> value = biased(node);
  if (failed(value))
    return failure();
  return oneResult(gelu(node, *value, approximate));
}

static ImportResults importQuickGelu(NodeImporter &node) {
  Value input = node.input(0);
  Value gate = node.emit<dfg::SigmoidOp>(scale(node, input, node.real("alpha", 1.702)));
  return oneResult(node.emit<dfg::MulOp>({input, gate}));
}

/// The first half of the features times the second half's Gelu.
static ImportResults importBiasSplitGelu(NodeImporter &node) {
  FailureOr<Value> value = biased(node);
  if (failed(value))
    return failure();
  int64_t last = node.rank(0) - 1, size = node.shape(0)[last];
  if (size % 2 != 0)
    return node.error("expects an even last dimension, got " + Twine(size));
  Value left = node.slice(*value, last, 0, size / 2), right = node.slice(*value, last, size / 2, size);
  return oneResult(node.emit<dfg::MulOp>({left, gelu(node, right, /*approximate=*/false)}));
}

/// Input, bias and skip connection.
static ImportResults importBiasAdd(NodeImporter &node) {
  FailureOr<Value> value = biased(node);
  if (failed(value))
    return failure();
  if (node.shape(2) != node.shape(0))
    return node.error("expects a skip connection of the input's shape");
  return oneResult(node.emit<dfg::AddOp>({*value, node.input(2)}));
}

//===----------------------------------------------------------------------------------------------------------===//

/// Before operator set 11 the bounds are attributes, later optional inputs.
static ImportResults importClip(NodeImporter &node) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value input = node.input(0);
  if (node.getVersion() < 11)
    return oneResult(clamp(node, input, node.real("min", -infinity), node.real("max", infinity)));
  bool known = (!node.hasInput(1) || node.knownIfAny(1)) && (!node.hasInput(2) || node.knownIfAny(2));
  if (isa<FloatType>(node.type(0).getElementType()) && known) {
    FailureOr<double> low = node.hasInput(1) ? node.knownNumber(1) : FailureOr<double>(-infinity);
    FailureOr<double> high = node.hasInput(2) ? node.knownNumber(2) : FailureOr<double>(infinity);
    if (failed(low) || failed(high))
      return failure();
    return oneResult(clamp(node, input, *low, *high));
  }
  if (node.hasInput(1))
    input = node.emit<dfg::MaxOp>({input, node.input(1)});
  if (node.hasInput(2))
    input = node.emit<dfg::MinOp>({input, node.input(2)});
  return oneResult(input);
}

/// In training dropout is an operator. Nobody computes its mask: using it is refused.
static ImportResults importTrainingDropout(NodeImporter &node) {
  FailureOr<double> ratio = node.getVersion() < 12 ? FailureOr<double>(node.real("ratio", 0.5))
                            : node.hasInput(1)     ? node.knownNumber(1)
                                                   : FailureOr<double>(0.5);
  if (failed(ratio))
    return failure();
  SmallVector<NodeResult, 1> results = {node.emit<dfg::DropoutOp>(node.input(0), node.real64("ratio", *ratio))};
  if (node.hasOutput(1)) {
    Builder &builder = node.getBuilder();
    auto kind = builder.getNamedAttr("kind", builder.getStringAttr("the mask of Dropout"));
    results.push_back(
        node.emitAs<dfg::OpaqueOp>(RankedTensorType::get(node.shape(0), builder.getI1Type()), node.input(0), kind));
  }
  return results;
}

/// At inference dropout passes its input on; the mask, where wanted, is true everywhere.
static ImportResults importDropout(NodeImporter &node) {
  if (node.keepsDropout())
    return importTrainingDropout(node);
  if (node.hasInput(2)) {
    FailureOr<double> training = node.knownNumber(2);
    FailureOr<double> ratio = node.hasInput(1) ? node.knownNumber(1) : FailureOr<double>(0.5);
    if (failed(training) || failed(ratio))
      return failure();
    if (*training != 0.0 && *ratio != 0.0)
      return node.unsupported("dropout in training mode is not known");
  }
  SmallVector<NodeResult, 1> results = {node.input(0)};
  if (node.hasOutput(1)) {
    Type element = node.getVersion() >= 10 ? Type(node.getBuilder().getI1Type()) : node.type(0).getElementType();
    Value one = node.splat(RankedTensorType::get({}, element), 1.0);
    results.push_back(node.broadcast(one, node.shape(0)));
  }
  return results;
}

void addActivationOperators(OperatorTable &table) {
  table.add("Relu", {importUnary<dfg::ReluOp>, 1, 1, Elements::Number});
  table.add("Sigmoid", {importUnary<dfg::SigmoidOp>, 1, 1, Elements::Float});
  table.add("Tanh", {importUnary<dfg::TanhOp>, 1, 1, Elements::Float});
  table.add("Softplus", {importUnary<dfg::SoftplusOp>, 1, 1, Elements::Float, 1});
  table.add("LeakyRelu", {importLeakyRelu, 1, 1, Elements::Float});
  table.add("Elu", {importElu, 1, 1, Elements::Float});
  table.add("Selu", {importSelu, 1, 1, Elements::Float});
  table.add("Celu", {importCelu, 1, 1, Elements::Float, 12});
  table.add("PRelu", {importPRelu, 2, 2, Elements::Number});
  table.add("ThresholdedRelu", {importThresholdedRelu, 1, 1, Elements::Float, 10});
  table.add("HardSigmoid", {importHardSigmoid, 1, 1, Elements::Float});
  table.add("HardSwish", {importHardSwish, 1, 1, Elements::Float, 14});
  table.add("Swish", {importSwish, 1, 1, Elements::Float, 24});
  table.add("Shrink", {importShrink, 1, 1, Elements::Float, 9});
  table.add("Softsign", {importSoftsign, 1, 1, Elements::Float, 1});
  table.add("Mish", {importMish, 1, 1, Elements::Float, 18});
  table.add("Gelu", {importGelu, 1, 1, Elements::Float, 20});
  table.add("Clip", {importClip, 1, 3, Elements::Number});
  table.add("Dropout", {importDropout, 1, 3, Elements::Float});
  table.add("com.microsoft.Gelu", {importGelu, 1, 1, Elements::Float, 1});
  table.add("com.microsoft.BiasGelu", {importBiasGelu</*approximate=*/false>, 2, 2, Elements::Float, 1});
  table.add("com.microsoft.FastGelu", {importBiasGelu</*approximate=*/true>, 1, 2, Elements::Float, 1});
  table.add("com.microsoft.QuickGelu", {importQuickGelu, 1, 1, Elements::Float, 1});
  table.add("com.microsoft.BiasSplitGelu", {importBiasSplitGelu, 2, 2, Elements::Float, 1});
  table.add("com.microsoft.BiasAdd", {importBiasAdd, 3, 3, Elements::Float, 1});
}

} // namespace cleave
