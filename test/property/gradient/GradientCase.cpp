// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the instances of the split test's templates into graphs that compute gradients, by a plain reverse sweep.

#include "test/property/gradient/GradientCase.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;

namespace cleave::test {

static dfg::GraphOp graphOf(ModuleOp module) { return *module.getOps<dfg::GraphOp>().begin(); }

/// Parameters become inputs, so that their values can be moved as well.
static void readsToInputs(ModuleOp module) {
  dfg::GraphOp graph = graphOf(module);
  Builder builder(module.getContext());
  Block &body = graph.getBody().front();
  for (auto read : llvm::make_early_inc_range(body.getOps<dfg::ReadOp>())) {
    auto parameter = module.lookupSymbol<dfg::ParameterOp>(read.getParameter());
    auto init = cast<dfg::UniformAttr>(parameter.getInit());
    (void)graph.insertArgument(
        body.getNumArguments(), read.getType(),
        builder.getDictionaryAttr(builder.getNamedAttr(
            fillAttrName,
            fillAttr(builder, {init.getLow().getValueAsDouble(), init.getHigh().getValueAsDouble()}, init.getSeed()))),
        builder.getUnknownLoc());
    read.replaceAllUsesWith(body.getArguments().back());
    read.erase();
  }
  for (auto parameter : llvm::make_early_inc_range(module.getOps<dfg::ParameterOp>()))
    parameter.erase();
}

/// The variants that have no gradient, which is then zero here and must not be compared.
static bool mayRefuse(Operation *op) {
  auto pooling = dyn_cast<dfg::PoolGradientOp>(op);
  return pooling && pooling.getKind() == dfg::PoolKind::Max;
}

namespace {

/// The cotangents of a graph's values, from the last operator to the first.
class ReverseSweep {
public:
  explicit ReverseSweep(Block &body) : builder(body.getTerminator()) {}

  void add(Value value, Value cotangent) {
    Value &sum = cotangents[value];
    sum = sum ? dfg::AddOp::create(builder, value.getLoc(), sum, cotangent).getResult() : cotangent;
  }
  Value lookup(Value value) const { return cotangents.lookup(value); }

  /// Returns what is wrong, or nothing.
  std::string through(Operation *op) {
    SmallVector<Value> results;
    for (Value result : op->getResults())
      results.push_back(cotangents.lookup(result));
    auto differentiable = dyn_cast<DifferentiateInterface>(op);
    if (!differentiable || llvm::none_of(results, [](Value value) { return static_cast<bool>(value); }))
      return "";
    SmallVector<bool> needed;
    for (Value operand : op->getOperands())
      needed.push_back(isa<FloatType>(elementOf(operand)));
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    auto gradients = differentiable.differentiate(builder, GradientRequest{results, needed});
    std::string name = op->getName().getStringRef().str();
    if (failed(gradients))
      return mayRefuse(op) ? "" : name + " has no gradient";
    if (gradients->size() != op->getNumOperands())
      return name + " expects a gradient an operand";
    for (auto [operand, gradient] : llvm::zip(op->getOperands(), *gradients)) {
      if (!gradient)
        continue;
      if (gradient.getType() != operand.getType())
        return name + " expects gradients of the operands' types";
      add(operand, gradient);
    }
    return "";
  }

private:
  OpBuilder builder;
  DenseMap<Value, Value> cotangents;
};

} // namespace

GradientCase makeGradientCase(MLIRContext &context, const OperatorTemplate &chosen, Type element, uint64_t seed) {
  GraphBuilder made(context, seed);
  Value operand = made.fresh(element, made.shape(chosen.minRank, chosen.maxRank), chosen.bounds);
  Value result = chosen.build(made, operand);
  Type resultType = result.getType();
  GradientCase gradientCase;
  gradientCase.module = made.finish(result);
  ModuleOp module = *gradientCase.module;
  readsToInputs(module);
  dfg::GraphOp graph = graphOf(module);
  Block &body = graph.getBody().front();
  unsigned inputs = body.getNumArguments();
  Operation *end = body.getTerminator();
  SmallVector<Value> outputs = {end->getOperand(0)};
  if (isa<FloatType>(elementOf(outputs[0]))) {
    (void)graph.insertArgument(inputs, resultType, {}, graph.getLoc());
    SmallVector<Operation *> operators;
    for (Operation &op : body.without_terminator())
      operators.push_back(&op);
    ReverseSweep sweep(body);
    sweep.add(outputs[0], body.getArgument(inputs));
    for (Operation *op : llvm::reverse(operators))
      if (gradientCase.problem.empty())
        gradientCase.problem = sweep.through(op);
    bool refused = llvm::any_of(operators, mayRefuse);
    for (unsigned i = 0; i < inputs && !refused; ++i) {
      if (elementOf(body.getArgument(i)) != elementOf(outputs[0]))
        continue;
      Value gradient = sweep.lookup(body.getArgument(i));
      gradientCase.gradients.push_back({i, std::nullopt});
      if (!gradient)
        continue;
      gradientCase.gradients.back().output = outputs.size();
      outputs.push_back(gradient);
    }
  }
  end->setOperands(outputs);
  graph.setFunctionType(FunctionType::get(&context, body.getArgumentTypes(), ValueRange(outputs).getTypes()));
  if (gradientCase.problem.empty() && failed(verify(module)))
    gradientCase.problem = "the gradients do not verify";
  return gradientCase;
}

std::vector<Tensor> drawInputs(ModuleOp module, uint64_t seed, bool whole) {
  std::vector<Tensor> inputs;
  dfg::GraphOp graph = graphOf(module);
  Random random(seed);
  for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor &made = inputs.emplace_back(elementName(tensor.getElementType()),
                                       Shape(tensor.getShape().begin(), tensor.getShape().end()));
    auto fill = graph.getArgAttrOfType<DictionaryAttr>(index, fillAttrName);
    double low = fill ? fill.getAs<FloatAttr>("low").getValueAsDouble() : -1;
    double high = fill ? fill.getAs<FloatAttr>("high").getValueAsDouble() : 1;
    made.fill(random, low, high);
    // Not on the bounds' ends, and nothing of the cotangent.
    for (int64_t i = 0; whole && fill && i < made.size(); ++i)
      if (double rounded = std::round(made.real(i)); rounded > low && rounded < high)
        made.setReal(i, rounded);
  }
  return inputs;
}

std::vector<Tensor> makeOutputs(ModuleOp module) {
  std::vector<Tensor> outputs;
  for (Type type : graphOf(module).getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    outputs.emplace_back(elementName(tensor.getElementType()),
                         Shape(tensor.getShape().begin(), tensor.getShape().end()));
  }
  return outputs;
}

} // namespace cleave::test
