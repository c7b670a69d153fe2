// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizers of ONNX's preview domain for training: one step for any number of tensors.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

namespace {
/// One optimizer's node. Its inputs are the rate, the number of the step, then the tensors, their gradients and every
/// kind of state, each kind together; its results the new tensors and states.
class Optimizer {
public:
  Optimizer(NodeImporter &node) : node(node) {}

  /// The new tensor and states of one tensor, from the tensor, its gradient and its states.
  using Step = llvm::function_ref<SmallVector<Value>(ArrayRef<Value>)>;

  ImportResults build(unsigned numStates, Step step) {
    unsigned kinds = 2 + numStates;
    if ((node.getNumInputs() - 2) % kinds != 0)
      return node.error("expects " + Twine(kinds) + " inputs for every tensor behind the first two");
    unsigned count = (node.getNumInputs() - 2) / kinds;
    SmallVector<NodeResult, 1> results(static_cast<size_t>(count) * (kinds - 1), Value());
    for (unsigned i = 0; i < count; ++i) {
      SmallVector<Value> inputs;
      for (unsigned kind = 0; kind < kinds; ++kind)
        inputs.push_back(node.input(2 + kind * count + i));
      // The gradient of a penalty on the tensor's norm.
      inputs[1] = add(inputs[1], times(inputs[0], node.real("norm_coefficient", 0.0)));
      for (auto [kind, value] : llvm::enumerate(step(inputs)))
        results[kind * count + i] = value;
    }
    return results;
  }

  Value rate() { return node.input(0); }
  /// The number of the step, as a real.
  Value time() { return node.cast(node.input(1), node.type(0).getElementType()); }
  /// `later`, but `first` in step 0.
  Value fromFirstStep(Value later, Value first) {
    return node.emit<dfg::SelectOp>({node.compare(time(), number(0.0), dfg::Comparison::Greater), later, first});
  }
  Value number(double value) { return node.scalar(node.type(0).getElementType(), value); }
  Value add(Value a, Value b) { return node.emit<dfg::AddOp>({a, b}); }
  Value sub(Value a, Value b) { return node.emit<dfg::SubOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); }
  Value div(Value a, Value b) { return node.emit<dfg::DivOp>({a, b}); }
  Value sqrt(Value a) { return node.emit<dfg::SqrtOp>(a); }
  Value times(Value a, double factor) { return mul(a, number(factor)); }

private:
  NodeImporter &node;
};
} // namespace

/// Duchi, Hazan, Singer: Adaptive Subgradient Methods, 2011.
static ImportResults importAdagrad(NodeImporter &node) {
  Optimizer o(node);
  double decay = node.real("decay_factor", 0.0), epsilon = node.real("epsilon", 1e-6);
  Value rate = o.div(o.rate(), o.add(o.number(1.0), o.times(o.time(), decay)));
  return o.build(1, [&](ArrayRef<Value> in) -> SmallVector<Value> {
    Value gradient = in[1], squares = o.add(in[2], o.mul(gradient, gradient));
    Value adapted = o.div(gradient, o.add(o.sqrt(squares), o.number(epsilon)));
    return {o.sub(in[0], o.mul(rate, adapted)), squares};
  });
}

/// Kingma, Ba: Adam, 2014.
static ImportResults importAdam(NodeImporter &node) {
  Optimizer o(node);
  double alpha = node.real("alpha", 0.9), beta = node.real("beta", 0.999), epsilon = node.real("epsilon", 1e-6);
  double kept = 1.0 - node.real("norm_coefficient_post", 0.0);
  auto remaining = [&](double base) { return o.sub(o.number(1.0), node.emit<dfg::PowOp>({o.number(base), o.time()})); };
  Value corrected = o.div(o.mul(o.rate(), o.sqrt(remaining(beta))), remaining(alpha));
  Value rate = o.fromFirstStep(corrected, o.rate());
  return o.build(2, [&](ArrayRef<Value> in) -> SmallVector<Value> {
    Value gradient = in[1];
    Value mean = o.add(o.times(in[2], alpha), o.times(gradient, 1.0 - alpha));
    Value square = o.add(o.times(in[3], beta), o.times(o.mul(gradient, gradient), 1.0 - beta));
    Value change = o.div(o.mul(rate, mean), o.add(o.sqrt(square), o.number(epsilon)));
    return {o.times(o.sub(in[0], change), kept), mean, square};
  });
}

/// Stochastic gradient descent with momentum, also Nesterov's.
static ImportResults importMomentum(NodeImporter &node) {
  Optimizer o(node);
  double alpha = node.real("alpha", 0.0);
  std::string mode = node.text("mode", "standard");
  if (mode != "standard" && mode != "nesterov")
    return node.error("expects \"mode\" to be \"standard\" or \"nesterov\", got \"" + mode + "\"");
  Value beta = o.fromFirstStep(o.number(node.real("beta", 1.0)), o.number(1.0));
  return o.build(1, [&](ArrayRef<Value> in) -> SmallVector<Value> {
    Value gradient = in[1], momentum = o.add(o.times(in[2], alpha), o.mul(beta, gradient));
    Value change = mode == "nesterov" ? o.add(gradient, o.times(momentum, alpha)) : momentum;
    return {o.sub(in[0], o.mul(o.rate(), change)), momentum};
  });
}

void addOptimizerOperators(OperatorTable &table) {
  constexpr unsigned any = OperatorTable::anyNumber;
  table.add("ai.onnx.preview.training.Adagrad", {importAdagrad, 5, any, Elements::Float, 1});
  table.add("ai.onnx.preview.training.Adam", {importAdam, 6, any, Elements::Float, 1});
  table.add("ai.onnx.preview.training.Momentum", {importMomentum, 5, any, Elements::Float, 1});
}

} // namespace cleave
