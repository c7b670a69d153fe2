// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas as dfg operators. Each state and the parameter become one kernel each, since clusters of elementwise
// operators have one result (FuseElementwise), which the schedule lets write in place.

#include "passes/train/Optimizer.h"

#include "passes/train/Arithmetic.h"
#include "passes/train/OptionText.h"

#include <limits>

using namespace mlir;

namespace cleave {

namespace {

/// An option of optimizers: its key, and which numbers it may have.
struct OptimizerKey {
  StringRef name;
  double OptimizerOptions::*member;
  double high;
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr OptimizerKey momentumKey = {"momentum", &OptimizerOptions::momentum, 1};
constexpr OptimizerKey alphaKey = {"alpha", &OptimizerOptions::alpha, 1};
constexpr OptimizerKey beta1Key = {"beta1", &OptimizerOptions::beta1, 1};
constexpr OptimizerKey beta2Key = {"beta2", &OptimizerOptions::beta2, 1};
constexpr OptimizerKey epsilonKey = {"epsilon", &OptimizerOptions::epsilon, infinity};
constexpr OptimizerKey decayKey = {"weight-decay", &OptimizerOptions::weightDecay, infinity};

struct OptimizerRow {
  StringRef name;
  OptimizerOptions defaults;
  SmallVector<OptimizerKey, 5> keys;
};

OptimizerOptions withDefaults(OptimizerKind kind, double learningRate, double momentum = 0, double weightDecay = 0) {
  OptimizerOptions options;
  options.learningRate.rate = learningRate;
  options.kind = kind;
  options.momentum = momentum;
  options.weightDecay = weightDecay;
  return options;
}

/// In the order of OptimizerKind.
ArrayRef<OptimizerRow> optimizerTable() {
  using Kind = OptimizerKind;
  static const OptimizerRow rows[] = {
      {"sgd", withDefaults(Kind::SGD, 1e-3), {decayKey}},
      {"momentum", withDefaults(Kind::Momentum, 1e-3, 0.9), {momentumKey, decayKey}},
      {"nesterov", withDefaults(Kind::Nesterov, 1e-3, 0.9), {momentumKey, decayKey}},
      {"rmsprop", withDefaults(Kind::RMSProp, 1e-2), {momentumKey, alphaKey, epsilonKey, decayKey}},
      {"adam", withDefaults(Kind::Adam, 1e-3), {beta1Key, beta2Key, epsilonKey, decayKey}},
      {"adamw", withDefaults(Kind::AdamW, 1e-3, 0, 0.01), {beta1Key, beta2Key, epsilonKey, decayKey}}};
  return rows;
}

} // namespace

ArrayRef<StringRef> optimizerNames() {
  static const SmallVector<StringRef> names =
      llvm::map_to_vector(optimizerTable(), [](const OptimizerRow &row) { return row.name; });
  return names;
}

StringRef OptimizerOptions::name() const { return optimizerTable()[static_cast<size_t>(kind)].name; }

llvm::Expected<OptimizerOptions> parseOptimizer(StringRef name, StringRef text) {
  const auto *row = llvm::find_if(optimizerTable(), [&](const OptimizerRow &row) { return row.name == name; });
  if (row == optimizerTable().end())
    return optionError("the optimizer expects " + alternatives(optimizerNames()) + ", got \"" + name + "\"");
  OptimizerOptions options = row->defaults;
  std::string subject = ("the optimizer " + name).str();
  auto items = splitOptions(text, subject);
  if (!items)
    return items.takeError();
  for (TextOption item : *items) {
    const auto *key = llvm::find_if(row->keys, [&](const OptimizerKey &key) { return key.name == item.key; });
    if (key == row->keys.end()) {
      auto names = llvm::map_to_vector(row->keys, [](const OptimizerKey &key) { return key.name; });
      return optionError(subject + " knows no option \"" + item.key + "\"; it has " + alternatives(names));
    }
    auto number = parseNumber(item.value, subject, item.key, 0, key->high);
    if (!number)
      return number.takeError();
    options.*key->member = *number;
  }
  return options;
}

std::vector<std::pair<StringRef, double>> hyperparametersOf(const OptimizerOptions &options) {
  std::vector<std::pair<StringRef, double>> numbers;
  for (const OptimizerKey &key : optimizerTable()[static_cast<size_t>(options.kind)].keys)
    numbers.emplace_back(key.name, options.*key.member);
  return numbers;
}

std::vector<StateSpec> stateOf(const OptimizerOptions &options) {
  switch (options.kind) {
  case OptimizerKind::SGD:
    return {};
  case OptimizerKind::Momentum:
  case OptimizerKind::Nesterov:
    return {{"momentum"}};
  case OptimizerKind::RMSProp:
    return options.momentum == 0 ? std::vector<StateSpec>{{"square"}}
                                 : std::vector<StateSpec>{{"square"}, {"momentum"}};
  case OptimizerKind::Adam:
  case OptimizerKind::AdamW:
    return {{"adam_m"}, {"adam_v"}};
  }
  llvm_unreachable("all kinds are known");
}

static bool isAdam(const OptimizerOptions &options) {
  return options.kind == OptimizerKind::Adam || options.kind == OptimizerKind::AdamW;
}

StepScalars buildStepScalars(OpBuilder &builder, Location location, const OptimizerOptions &options, Value learningRate,
                             Value step) {
  Arithmetic math(builder, location);
  Type f32 = builder.getF32Type();
  StepScalars scalars;
  scalars.learningRate = math.cast(learningRate, f32);
  if (isAdam(options)) {
    Value number = math.cast(math.add(step, math.integer(1)), builder.getF64Type());
    scalars.stepSize = math.cast(math.div(learningRate, math.sub(1.0, math.pow(options.beta1, number))), f32);
    scalars.rootCorrection = math.cast(math.div(1.0, math.sqrt(math.sub(1.0, math.pow(options.beta2, number)))), f32);
  }
  if (options.kind == OptimizerKind::AdamW && options.weightDecay != 0)
    scalars.decay = math.cast(math.sub(1.0, math.mul(learningRate, options.weightDecay)), f32);
  return scalars;
}

namespace {

/// One parameter's update. Scalars take the parameter's element type.
class UpdateBuilder {
public:
  UpdateBuilder(Arithmetic math, const OptimizerOptions &options, Value parameter, Value gradient, ValueRange state,
                const StepScalars &scalars)
      : math(math), options(options), element(Arithmetic::elementOf(parameter)), parameter(parameter),
        gradient(math.cast(gradient, element)), state(state), scalars(scalars) {}

  Update build() {
    if (options.kind != OptimizerKind::AdamW && options.weightDecay != 0)
      gradient = math.add(gradient, math.mul(parameter, options.weightDecay));
    switch (options.kind) {
    case OptimizerKind::SGD:
      return {moved(gradient), {}};
    case OptimizerKind::Momentum: {
      Value momentum = accumulated(state[0], gradient);
      return {moved(momentum), {momentum}};
    }
    case OptimizerKind::Nesterov: {
      Value momentum = accumulated(state[0], gradient);
      return {moved(math.add(gradient, math.mul(momentum, options.momentum))), {momentum}};
    }
    case OptimizerKind::RMSProp:
      return rmsProp();
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
      return adam();
    }
    llvm_unreachable("all kinds are known");
  }

private:
  /// The parameter, one learning rate against `direction`.
  Value moved(Value direction) {
    return math.sub(parameter, math.mul(direction, math.cast(scalars.learningRate, element)));
  }
  Value accumulated(Value momentum, Value direction) {
    return math.add(math.mul(momentum, options.momentum), direction);
  }
  /// A running mean that keeps a share of what it was.
  Value blended(Value mean, double kept, Value current) {
    return math.add(math.mul(mean, kept), math.mul(current, 1.0 - kept));
  }

  Update rmsProp() {
    Value square = blended(state[0], options.alpha, math.mul(gradient, gradient));
    Value direction = math.div(gradient, math.add(math.sqrt(square), options.epsilon));
    if (options.momentum == 0)
      return {moved(direction), {square}};
    Value momentum = accumulated(state[1], direction);
    return {moved(momentum), {square, momentum}};
  }

  Update adam() {
    Value mean = blended(state[0], options.beta1, gradient);
    Value square = blended(state[1], options.beta2, math.mul(gradient, gradient));
    Value root = math.mul(math.sqrt(square), math.cast(scalars.rootCorrection, element));
    Value direction = math.div(mean, math.add(root, options.epsilon));
    Value kept = scalars.decay ? math.mul(parameter, math.cast(scalars.decay, element)) : parameter;
    return {math.sub(kept, math.mul(direction, math.cast(scalars.stepSize, element))), {mean, square}};
  }

  Arithmetic math;
  const OptimizerOptions &options;
  Type element;
  Value parameter, gradient;
  ValueRange state;
  const StepScalars &scalars;
};

} // namespace

Update buildUpdate(OpBuilder &builder, Location location, const OptimizerOptions &options, Value parameter,
                   Value gradient, ValueRange state, const StepScalars &scalars) {
  return UpdateBuilder(Arithmetic(builder, location), options, parameter, gradient, state, scalars).build();
}

} // namespace cleave
