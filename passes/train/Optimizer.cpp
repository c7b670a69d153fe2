// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas as dfg operators. Each state and the parameter become one kernel each, since clusters of elementwise
// operators have one result (FuseElementwise), which the schedule lets write in place.

#include "passes/train/Optimizer.h"

#include "passes/train/OptionText.h"

#include <limits>
#include <list>

using namespace mlir;

namespace cleave {

//===-- formulas ----------------------------------------------------------------------------------------------===//

// With w the parameter, g its gradient, r the learning rate, d the weight decay, t the number of the step from one. All
// are PyTorch's, in formulas and defaults; all state begins at zero. Where the decay is not decoupled, g has + d w.

/// w -= r g
static Update sgd(UpdateBuilder &with) { return {with.moved(with.parameter, with.gradient), {}}; }

/// b = momentum b + g; w -= r b. Polyak, 1964; Sutskever et al., 2013.
static Update momentum(UpdateBuilder &with) {
  Value momentum = with.accumulated(with.state[0], with.gradient);
  return {with.moved(with.parameter, momentum), {momentum}};
}

/// As momentum, with w -= r (g + momentum b).
static Update nesterov(UpdateBuilder &with) {
  Value momentum = with.accumulated(with.state[0], with.gradient);
  Value ahead = with.math.add(with.gradient, with.math.mul(momentum, with.options.momentum));
  return {with.moved(with.parameter, ahead), {momentum}};
}

/// v = alpha v + (1 - alpha) g^2; w -= r g / (sqrt(v) + epsilon). Hinton, 2012. With a momentum
/// b = momentum b + g / (sqrt(v) + epsilon); w -= r b.
static Update rmsProp(UpdateBuilder &with) {
  Arithmetic &math = with.math;
  Value square = with.blended(with.state[0], with.options.alpha, math.mul(with.gradient, with.gradient));
  Value direction = math.div(with.gradient, math.add(math.sqrt(square), with.options.epsilon));
  if (with.options.momentum == 0)
    return {with.moved(with.parameter, direction), {square}};
  Value momentum = with.accumulated(with.state[1], direction);
  return {with.moved(with.parameter, momentum), {square, momentum}};
}

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= r m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) +
/// epsilon). Kingma and Ba, 2014. With w *= 1 - r d before, in place of g += d w, it is AdamW: Loshchilov and Hutter,
/// 2017.
static Update adam(UpdateBuilder &with) {
  Arithmetic &math = with.math;
  Value mean = with.blended(with.state[0], with.options.beta1, with.gradient);
  Value square = with.blended(with.state[1], with.options.beta2, math.mul(with.gradient, with.gradient));
  Value root = math.mul(math.sqrt(square), with.scalar(&StepScalars::rootCorrection));
  Value direction = math.div(mean, math.add(root, with.options.epsilon));
  return {math.sub(with.decayed(), math.mul(direction, with.scalar(&StepScalars::stepSize))), {mean, square}};
}

//===-- the table ---------------------------------------------------------------------------------------------===//

static std::vector<StateSpec> noState(const OptimizerOptions &) { return {}; }
static std::vector<StateSpec> oneMomentum(const OptimizerOptions &) { return {{"momentum"}}; }
static std::vector<StateSpec> squareAndMomentum(const OptimizerOptions &options) {
  return options.momentum == 0 ? std::vector<StateSpec>{{"square"}} : std::vector<StateSpec>{{"square"}, {"momentum"}};
}
static std::vector<StateSpec> bothMeans(const OptimizerOptions &) { return {{"adam_m"}, {"adam_v"}}; }

static OptimizerNumbers numbers(double learningRate, double momentum = 0, double weightDecay = 0) {
  OptimizerNumbers made;
  made.learningRate.rate = learningRate;
  made.momentum = momentum;
  made.weightDecay = weightDecay;
  return made;
}

/// A list, whose rows stay where they are.
static std::list<OptimizerRow> &optimizerTable() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  static const OptimizerKey momentumKey = {"momentum", &OptimizerNumbers::momentum, 1},
                            alphaKey = {"alpha", &OptimizerNumbers::alpha, 1},
                            beta1Key = {"beta1", &OptimizerNumbers::beta1, 1},
                            beta2Key = {"beta2", &OptimizerNumbers::beta2, 1},
                            epsilonKey = {"epsilon", &OptimizerNumbers::epsilon, infinity},
                            decayKey = {"weight-decay", &OptimizerNumbers::weightDecay, infinity};
  static std::list<OptimizerRow> rows = {
      {"sgd", numbers(1e-3), {decayKey}, noState, sgd},
      {"momentum", numbers(1e-3, 0.9), {momentumKey, decayKey}, oneMomentum, momentum},
      {"nesterov", numbers(1e-3, 0.9), {momentumKey, decayKey}, oneMomentum, nesterov},
      {"rmsprop", numbers(1e-2), {momentumKey, alphaKey, epsilonKey, decayKey}, squareAndMomentum, rmsProp},
      {"adam", numbers(1e-3), {beta1Key, beta2Key, epsilonKey, decayKey}, bothMeans, adam, /*correctsMeans=*/true},
      {"adamw",
       numbers(1e-3, 0, 0.01),
       {beta1Key, beta2Key, epsilonKey, decayKey},
       bothMeans,
       adam,
       /*correctsMeans=*/true,
       /*decouplesDecay=*/true}};
  return rows;
}

void registerOptimizer(OptimizerRow row) {
  auto found = llvm::find_if(optimizerTable(), [&](const OptimizerRow &other) { return other.name == row.name; });
  if (found == optimizerTable().end())
    optimizerTable().push_back(std::move(row));
  else
    *found = std::move(row);
}

OptimizerOptions::OptimizerOptions() : row(&optimizerTable().front()) {}
OptimizerOptions::OptimizerOptions(const OptimizerRow &row) : OptimizerNumbers(row.defaults), row(&row) {}

std::vector<StringRef> optimizerNames() {
  std::vector<StringRef> names;
  for (const OptimizerRow &row : optimizerTable())
    names.push_back(row.name);
  return names;
}

StringRef OptimizerOptions::name() const { return row->name; }

llvm::Expected<OptimizerOptions> parseOptimizer(StringRef name, StringRef text) {
  auto row = llvm::find_if(optimizerTable(), [&](const OptimizerRow &row) { return row.name == name; });
  if (row == optimizerTable().end())
    return optionError("the optimizer expects " + alternatives(optimizerNames()) + ", got \"" + name + "\"");
  OptimizerOptions options(*row);
  std::string subject = ("the optimizer " + name).str();
  auto items = splitOptions(text, subject);
  if (!items)
    return items.takeError();
  for (TextOption item : *items) {
    auto key = llvm::find_if(row->keys, [&](const OptimizerKey &key) { return key.name == item.key; });
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
  for (const OptimizerKey &key : options.row->keys)
    numbers.emplace_back(key.name, options.*key.member);
  return numbers;
}

std::vector<StateSpec> stateOf(const OptimizerOptions &options) { return options.row->state(options); }

//===-- a step ------------------------------------------------------------------------------------------------===//

StepScalars buildStepScalars(OpBuilder &builder, Location location, const OptimizerOptions &options, Value learningRate,
                             Value step) {
  Arithmetic math(builder, location);
  Type f32 = builder.getF32Type();
  StepScalars scalars;
  scalars.learningRate = math.cast(learningRate, f32);
  if (options.row->correctsMeans) {
    Value number = math.cast(math.add(step, math.integer(1)), builder.getF64Type());
    scalars.stepSize = math.cast(math.div(learningRate, math.sub(1.0, math.pow(options.beta1, number))), f32);
    scalars.rootCorrection = math.cast(math.div(1.0, math.sqrt(math.sub(1.0, math.pow(options.beta2, number)))), f32);
  }
  if (options.row->decouplesDecay && options.weightDecay != 0)
    scalars.decay = math.cast(math.sub(1.0, math.mul(learningRate, options.weightDecay)), f32);
  return scalars;
}

UpdateBuilder::UpdateBuilder(Arithmetic math, const OptimizerOptions &options, Value parameter, Value gradient,
                             ValueRange state, const StepScalars &scalars)
    : math(math), options(options), parameter(parameter), gradient(gradient), state(state),
      element(Arithmetic::elementOf(parameter)), scalars(scalars) {
  this->gradient = this->math.cast(gradient, element);
  if (!options.row->decouplesDecay && options.weightDecay != 0)
    this->gradient = this->math.add(this->gradient, this->math.mul(parameter, options.weightDecay));
}

Value UpdateBuilder::scalar(Value StepScalars::*which) { return math.cast(scalars.*which, element); }

Value UpdateBuilder::decayed() { return scalars.decay ? math.mul(parameter, scalar(&StepScalars::decay)) : parameter; }

Value UpdateBuilder::moved(Value from, Value direction) {
  return math.sub(from, math.mul(direction, scalar(&StepScalars::learningRate)));
}

Value UpdateBuilder::accumulated(Value momentum, Value direction) {
  return math.add(math.mul(momentum, options.momentum), direction);
}

Value UpdateBuilder::blended(Value mean, double kept, Value current) {
  return math.add(math.mul(mean, kept), math.mul(current, 1.0 - kept));
}

Update buildUpdate(OpBuilder &builder, Location location, const OptimizerOptions &options, Value parameter,
                   Value gradient, ValueRange state, const StepScalars &scalars) {
  UpdateBuilder with(Arithmetic(builder, location), options, parameter, gradient, state, scalars);
  return options.row->update(with);
}

} // namespace cleave
