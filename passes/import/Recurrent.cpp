// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LSTM, GRU and RNN, unrolled over time: the inputs of all steps are projected by one matrix product, then a product
// with the state and elementwise operators follow for every step (docs/rationale/recurrent-operators-unrolled.md).

#include "passes/import/ActivationFunctions.h"
#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

/// The longest sequence that is unrolled.
static constexpr int64_t mostSteps = 1 << 14;

namespace {
/// An activation function with its parameters.
struct Activation {
  const ActivationFunction *function;
  double alpha, beta;
};

/// What goes from step to step, each batch x hidden; null: zero.
struct State {
  Value hidden, cell;
};

/// The weights of one direction. `recurrence` is gates * hidden x hidden; biases and peepholes may be null.
struct Direction {
  Value projection, recurrence, bias, recurrentBias, peepholes;
  SmallVector<Activation, 3> activations;
  State initial;
};

/// One recurrent node. The inputs are those that LSTM, GRU and RNN have in common: sequences, projections,
/// recurrences, biases, lengths, initial states.
class Recurrent {
public:
  Recurrent(NodeImporter &node, int64_t gates) : node(node), gates(gates) {}
  virtual ~Recurrent() = default;

  ImportResults build(ArrayRef<StringRef> activations);

protected:
  /// The next state. `projected` (batch x gates * hidden) is the step's input times its weights, with biases.
  virtual State step(const Direction &direction, Value projected, State state) = 0;
  /// The bias that is added to the projected inputs, from the two of ONNX.
  virtual Value inputBias(Value bias, Value recurrentBias) { return add(bias, recurrentBias); }
  virtual bool hasCell() const { return false; }

  /// Gate `index` of batch x gates * hidden, or of a vector of gates * hidden.
  Value gate(Value all, int64_t index) {
    int64_t dim = all ? NodeImporter::typeOf(all).getRank() - 1 : 0;
    return node.slice(all, dim, index * hidden, (index + 1) * hidden);
  }
  /// value + state * weights', where weights are rows x hidden.
  Value addProduct(Value value, Value state, Value weights) {
    return state ? add(value, node.dot(state, weights, {}, {}, {1}, {1})) : value;
  }
  Value apply(const Activation &activation, Value value) {
    return value ? activation.function->build(node, value, activation.alpha, activation.beta) : Value();
  }
  /// The activation of a gate, whose input is clipped where the node says so.
  Value activate(const Activation &activation, Value value) {
    if (clip > 0)
      value = node.emit<dfg::ClampOp>(value, {node.real64("low", -clip), node.real64("high", clip)});
    return apply(activation, value);
  }
  Value add(Value a, Value b) { return node.emit<dfg::AddOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); }
  /// 1 - value.
  Value complement(Value value) {
    return value ? node.emit<dfg::SubOp>({node.scalar(NodeImporter::elementOf(value), 1.0), value}) : Value();
  }

  NodeImporter &node;
  int64_t gates, steps = 0, batch = 0, hidden = 0, directions = 0;
  double clip = 0;

private:
  LogicalResult check();
  LogicalResult checkShape(unsigned input, ArrayRef<int64_t> shape);
  LogicalResult readActivations(ArrayRef<StringRef> fallback);
  /// Input `index` of one direction, without the direction's dimension.
  Value ofDirection(unsigned index, int64_t direction, int64_t dim = 0);
  Direction makeDirection(int64_t index);
  /// For every example whether its sequence holds step `time`, batch x 1; null where all do.
  Value isInside(int64_t time);
  /// Runs one direction; gives the hidden states in the order of time, and the last state.
  std::pair<SmallVector<Value>, State> run(const Direction &direction, bool backwards);
  Value orZero(Value value) {
    return value ? value : node.splat(RankedTensorType::get({batch, hidden}, node.type(0).getElementType()), 0.0);
  }
  Value stackSteps(ArrayRef<Value> values);
  Value stackDirections(ArrayRef<Value> states);

  bool batchFirst = false;
  Value sequences;
  std::optional<HostTensor> lengths;
  SmallVector<SmallVector<Activation, 3>> activations;
};
} // namespace

//===-- what the node says ------------------------------------------------------------------------------------===//

LogicalResult Recurrent::checkShape(unsigned input, ArrayRef<int64_t> shape) {
  if (!node.hasInput(input) || node.shape(input) == shape)
    return success();
  std::string expected;
  for (int64_t size : shape)
    expected += (expected.empty() ? "" : " x ") + std::to_string(size);
  return node.error("expects input " + Twine(input) + " to be " + expected);
}

LogicalResult Recurrent::check() {
  batchFirst = node.integer("layout", 0);
  clip = node.real("clip", 0.0);
  std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return node.error("expects \"direction\" to be \"forward\", \"reverse\" or \"bidirectional\", got \"" + direction +
                      "\"");
  directions = direction == "bidirectional" ? 2 : 1;
  if (node.rank(0) != 3 || node.rank(2) != 3)
    return node.error("expects inputs 0 and 2 of rank 3");
  steps = node.shape(0)[batchFirst ? 1 : 0];
  batch = node.shape(0)[batchFirst ? 0 : 1];
  hidden = node.integer("hidden_size", node.shape(2)[2]);
  if (hidden != node.shape(2)[2])
    return node.error("expects \"hidden_size\" to be input 2's last dimension (" + Twine(node.shape(2)[2]) + "), got " +
                      Twine(hidden));
  if (steps < 1 || steps > mostSteps)
    return node.unsupported("sequences of 1 to " + Twine(mostSteps) + " steps are unrolled, not of " + Twine(steps));
  SmallVector<int64_t> state = {directions, batch, hidden};
  if (batchFirst)
    std::swap(state[0], state[1]);
  if (failed(checkShape(1, {directions, gates * hidden, node.shape(0)[2]})) ||
      failed(checkShape(2, {directions, gates * hidden, hidden})) ||
      failed(checkShape(3, {directions, 2 * gates * hidden})) || failed(checkShape(4, {batch})) ||
      failed(checkShape(5, state)))
    return failure();
  if (hasCell() && (failed(checkShape(6, state)) || failed(checkShape(7, {directions, 3 * hidden}))))
    return failure();
  if (node.hasInput(4) && !node.type(4).getElementType().isInteger(32))
    return node.error("expects the lengths of sequences to be int32");
  lengths = node.knownIfAny(4);
  return success();
}

/// Parameters are given in the order of the functions that have them.
LogicalResult Recurrent::readActivations(ArrayRef<StringRef> fallback) {
  SmallVector<std::string> names;
  for (int64_t i = 0; i < directions; ++i)
    names.append(fallback.begin(), fallback.end());
  size_t count = names.size();
  if (node.hasAttribute("activations"))
    names = node.texts("activations").value_or(names);
  if (names.size() != count)
    return node.error("expects " + Twine(count) + " activations, got " + Twine(names.size()));
  SmallVector<float> alphas, betas;
  if (node.hasAttribute("activation_alpha"))
    alphas = node.reals("activation_alpha").value_or(alphas);
  if (node.hasAttribute("activation_beta"))
    betas = node.reals("activation_beta").value_or(betas);
  auto take = [](SmallVector<float> &given, std::optional<double> fallback) {
    if (!fallback || given.empty())
      return fallback.value_or(0.0);
    double value = given.front();
    given.erase(given.begin());
    return value;
  };
  activations.resize(directions);
  for (auto [index, name] : llvm::enumerate(names)) {
    const ActivationFunction *function = findActivationFunction(name);
    if (!function)
      return node.error("expects an activation function of ONNX, got \"" + name + "\"");
    double alpha = take(alphas, function->alpha), beta = take(betas, function->beta);
    activations[index / fallback.size()].push_back({function, alpha, beta});
  }
  return success();
}

//===-- weights -----------------------------------------------------------------------------------------------===//

Value Recurrent::ofDirection(unsigned index, int64_t direction, int64_t dim) {
  Value value = node.slice(node.input(index), dim, direction, direction + 1);
  if (!value)
    return {};
  SmallVector<int64_t> shape(NodeImporter::typeOf(value).getShape());
  shape.erase(shape.begin() + dim);
  return node.reshape(value, shape);
}

Direction Recurrent::makeDirection(int64_t index) {
  Direction result;
  result.projection = ofDirection(1, index);
  result.recurrence = ofDirection(2, index);
  if (Value biases = ofDirection(3, index)) {
    Value bias = node.slice(biases, 0, 0, gates * hidden);
    result.recurrentBias = node.slice(biases, 0, gates * hidden, 2 * gates * hidden);
    result.bias = inputBias(bias, result.recurrentBias);
  }
  result.initial.hidden = ofDirection(5, index, batchFirst ? 1 : 0);
  if (hasCell()) {
    result.initial.cell = ofDirection(6, index, batchFirst ? 1 : 0);
    result.peepholes = ofDirection(7, index);
  }
  result.activations = activations[index];
  return result;
}

//===-- steps -------------------------------------------------------------------------------------------------===//

Value Recurrent::isInside(int64_t time) {
  if (!node.hasInput(4) ||
      (lengths && llvm::all_of(lengths->as<int32_t>(), [&](int32_t length) { return length > time; })))
    return {};
  Value position = node.scalar(node.type(4).getElementType(), static_cast<double>(time));
  return node.compare(node.reshape(node.input(4), {batch, 1}), position, dfg::Comparison::Greater);
}

std::pair<SmallVector<Value>, State> Recurrent::run(const Direction &direction, bool backwards) {
  Value projected = node.dot(sequences, direction.projection, {}, {}, {2}, {1});
  if (direction.bias)
    projected = add(projected, direction.bias);
  SmallVector<Value> outputs(steps);
  State state = direction.initial;
  for (int64_t i = 0; i < steps && projected; ++i) {
    int64_t time = backwards ? steps - 1 - i : i;
    Value input = node.reshape(node.slice(projected, 0, time, time + 1), {batch, gates * hidden});
    State next = step(direction, input, state);
    outputs[time] = next.hidden;
    // Beyond its end a sequence keeps its state and gives zero.
    if (Value inside = isInside(time)) {
      Value zero = node.scalar(node.type(0).getElementType(), 0.0);
      outputs[time] = node.emit<dfg::SelectOp>({inside, next.hidden, zero});
      next.hidden = node.emit<dfg::SelectOp>({inside, next.hidden, orZero(state.hidden)});
      if (hasCell())
        next.cell = node.emit<dfg::SelectOp>({inside, next.cell, orZero(state.cell)});
    }
    state = next;
  }
  return {outputs, state};
}

/// steps x 1 x batch x hidden.
Value Recurrent::stackSteps(ArrayRef<Value> values) {
  SmallVector<Value> parts;
  for (Value value : values)
    parts.push_back(node.reshape(value, {1, 1, batch, hidden}));
  return node.concat(parts, 0);
}

/// directions x batch x hidden, or with the batch first.
Value Recurrent::stackDirections(ArrayRef<Value> states) {
  SmallVector<Value> parts;
  for (Value state : states)
    parts.push_back(
        node.reshape(state, batchFirst ? ArrayRef<int64_t>{batch, 1, hidden} : ArrayRef<int64_t>{1, batch, hidden}));
  return node.concat(parts, batchFirst ? 1 : 0);
}

ImportResults Recurrent::build(ArrayRef<StringRef> defaults) {
  if (failed(check()) || failed(readActivations(defaults)))
    return failure();
  sequences = batchFirst ? node.transpose(node.input(0), {1, 0, 2}) : node.input(0);
  bool reversed = node.text("direction", "forward") == "reverse";
  SmallVector<Value> all, hiddenStates, cells;
  for (int64_t i = 0; i < directions; ++i) {
    auto [outputs, last] = run(makeDirection(i), reversed || i == 1);
    if (node.hasOutput(0))
      all.push_back(stackSteps(outputs));
    hiddenStates.push_back(last.hidden);
    cells.push_back(last.cell);
  }
  // An output that nobody reads is given the state in its place: ONNX's outputs are counted by position.
  Value last = stackDirections(hiddenStates);
  Value outputs = last;
  if (node.hasOutput(0)) {
    outputs = node.concat(all, 1);
    if (batchFirst)
      outputs = node.transpose(outputs, {2, 0, 1, 3});
  }
  SmallVector<NodeResult, 1> results = {outputs, last};
  if (hasCell())
    results.push_back(stackDirections(cells));
  return results;
}

//===-- cells -------------------------------------------------------------------------------------------------===//

namespace {
/// Hochreiter, Schmidhuber: Long Short-Term Memory, 1997; with peepholes of Gers, Schmidhuber, 2000. Gates in ONNX's
/// order: input, output, forget, cell.
class Lstm : public Recurrent {
public:
  Lstm(NodeImporter &node) : Recurrent(node, 4), isCoupled(node.integer("input_forget", 0)) {}

private:
  bool hasCell() const override { return true; }

  State step(const Direction &direction, Value projected, State state) override {
    const auto &[f, g, h] = std::tie(direction.activations[0], direction.activations[1], direction.activations[2]);
    Value all = addProduct(projected, state.hidden, direction.recurrence);
    auto peep = [&](Value value, int64_t index, Value cell) {
      return direction.peepholes && cell ? add(value, mul(gate(direction.peepholes, index), cell)) : value;
    };
    Value input = activate(f, peep(gate(all, 0), 0, state.cell));
    Value candidate = activate(g, gate(all, 3));
    State next;
    next.cell = mul(input, candidate);
    if (state.cell) {
      Value forget = isCoupled ? complement(input) : activate(f, peep(gate(all, 2), 2, state.cell));
      next.cell = add(mul(forget, state.cell), next.cell);
    }
    Value output = activate(f, peep(gate(all, 1), 1, next.cell));
    // ONNX says that "clip" is for inputs of activations; ONNX Runtime leaves the cell's as it is, and so does this.
    next.hidden = mul(output, apply(h, next.cell));
    return next;
  }

  bool isCoupled;
};

/// Cho et al.: Learning Phrase Representations using RNN Encoder-Decoder, 2014. Gates: update, reset, hidden.
class Gru : public Recurrent {
public:
  Gru(NodeImporter &node) : Recurrent(node, 3), resetsProduct(node.integer("linear_before_reset", 0)) {}

private:
  /// Where the reset gate acts on the product, the last gate's recurrent bias is a part of what it acts on.
  Value inputBias(Value bias, Value recurrentBias) override {
    if (!resetsProduct)
      return add(bias, recurrentBias);
    Value both = add(node.slice(bias, 0, 0, 2 * hidden), node.slice(recurrentBias, 0, 0, 2 * hidden));
    return node.concat({both, gate(bias, 2)}, 0);
  }

  State step(const Direction &direction, Value projected, State state) override {
    const auto &[f, g] = std::tie(direction.activations[0], direction.activations[1]);
    Value gateWeights = node.slice(direction.recurrence, 0, 0, 2 * hidden);
    Value hiddenWeights = node.slice(direction.recurrence, 0, 2 * hidden, 3 * hidden);
    Value both = addProduct(node.slice(projected, 1, 0, 2 * hidden), state.hidden, gateWeights);
    Value update = activate(f, gate(both, 0));
    Value candidate = gate(projected, 2);
    if (resetsProduct) {
      Value product = state.hidden ? node.dot(state.hidden, hiddenWeights, {}, {}, {1}, {1}) : Value();
      if (direction.recurrentBias) {
        Value bias = gate(direction.recurrentBias, 2);
        product = product ? add(product, bias) : bias;
      }
      if (product)
        candidate = add(candidate, mul(activate(f, gate(both, 1)), product));
    } else if (state.hidden) {
      candidate = addProduct(candidate, mul(activate(f, gate(both, 1)), state.hidden), hiddenWeights);
    }
    State next;
    next.hidden = mul(complement(update), activate(g, candidate));
    if (state.hidden)
      next.hidden = add(next.hidden, mul(update, state.hidden));
    return next;
  }

  bool resetsProduct;
};

/// Elman: Finding Structure in Time, 1990.
class SimpleRnn : public Recurrent {
public:
  SimpleRnn(NodeImporter &node) : Recurrent(node, 1) {}

private:
  State step(const Direction &direction, Value projected, State state) override {
    return {activate(direction.activations[0], addProduct(projected, state.hidden, direction.recurrence)), Value()};
  }
};
} // namespace

static ImportResults importLstm(NodeImporter &node) { return Lstm(node).build({"Sigmoid", "Tanh", "Tanh"}); }
static ImportResults importGru(NodeImporter &node) { return Gru(node).build({"Sigmoid", "Tanh"}); }
static ImportResults importRnn(NodeImporter &node) { return SimpleRnn(node).build({"Tanh"}); }

void addRecurrentOperators(OperatorTable &table) {
  table.add("LSTM", {importLstm, 3, 8, Elements::Float, 7});
  table.add("GRU", {importGru, 3, 6, Elements::Float, 7});
  table.add("RNN", {importRnn, 3, 6, Elements::Float, 7});
}

} // namespace cleave
