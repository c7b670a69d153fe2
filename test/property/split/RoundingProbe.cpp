// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounding as Vignes' stochastic arithmetic finds it: by runs in which it goes one way or the other.

#include "test/property/split/RoundingProbe.h"

#include "test/property/split/GraphBuilder.h"

#include "dialects/dist/Dist.h"

using namespace mlir;

namespace cleave::test {
namespace {

/// Few roundings all go the same way in one of so many runs; of many, the largest sum comes near twice their deviation.
constexpr unsigned numRuns = 16;

bool isNarrow(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<BFloat16Type, Float16Type>(tensor.getElementType());
}

/// Whether the operator computes numbers that were in none of its operands.
bool isRounded(Operation *op) {
  if (op->getNumOperands() == 0 || op->hasAttr(exactAttrName) || isa<dfg::ClampOp>(op))
    return false;
  auto cost = dyn_cast<CostInterface>(op);
  CostClass kind = cost ? cost.getCost().costClass : CostClass::Elementwise;
  return kind != CostClass::Movement && kind != CostClass::View;
}

/// Whether devices compute sums that are added up.
bool hasPartialSums(Operation *op, const SplitRule &rule) {
  dist::PlaceAttr place = dist::getPlace(op);
  if (!place || !place.getSplit())
    return false;
  return llvm::any_of(rule.factors, [&](const Factor &factor) {
    return (factor.combiner == Combiner::Sum || factor.kind == FactorKind::Stepwise) &&
           place.getSplit().getFactors().get(factor.name);
  });
}

class Prober {
public:
  Prober(ModuleOp original, const std::vector<Tensor> &inputs) : random(0) {
    probe.module = original.clone();
    probe.runs.assign(numRuns + 1, inputs);
    graph = *probe.module->getOps<dfg::GraphOp>().begin();
  }

  RoundingProbe run() {
    Block &body = graph.getBody().front();
    SmallVector<Operation *> operators;
    for (Operation &op : body.without_terminator())
      operators.push_back(&op);
    for (Operation *op : operators) {
      if (!isRounded(op))
        continue;
      if (auto splittable = dyn_cast<SplitInterface>(op))
        if (SplitRule rule = splittable.getSplitRule(); hasPartialSums(op, rule))
          moveOperands(op, rule);
      for (Value result : op->getResults())
        if (isNarrow(result.getType())) {
          OpBuilder builder(op->getContext());
          builder.setInsertionPointAfter(op);
          Value moved = move(builder, result);
          result.replaceAllUsesExcept(moved, moved.getDefiningOp());
        }
    }
    Builder builder(graph.getContext());
    if (ArrayAttr attributes = graph.getArgAttrsAttr()) {
      SmallVector<Attribute> all(attributes.begin(), attributes.end());
      all.resize(body.getNumArguments(), builder.getDictionaryAttr({}));
      graph.setArgAttrsAttr(builder.getArrayAttr(all));
    }
    graph.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
    return std::move(probe);
  }

private:
  void moveOperands(Operation *op, const SplitRule &rule) {
    OpBuilder builder(op);
    llvm::SmallDenseSet<unsigned> linear;
    for (ArrayRef<unsigned> set : rule.linear)
      linear.insert(set.begin(), set.end());
    for (unsigned operand : linear)
      if (isNarrow(op->getOperand(operand).getType()))
        op->setOperand(operand, move(builder, op->getOperand(operand)));
  }

  /// The value times a new input.
  Value move(OpBuilder &builder, Value value) {
    Value factor = graph.getBody().front().addArgument(value.getType(), value.getLoc());
    Tensor tensor(elementName(elementOf(value)), Shape(shapeOf(value).begin(), shapeOf(value).end()));
    double unit = std::ldexp(1.0, 1 - precisionOf(tensor.getElement()));
    for (auto [run, inputs] : llvm::enumerate(probe.runs)) {
      Tensor moves("f64", tensor.getShape());
      for (int64_t i = 0; i < moves.size(); ++i)
        moves.setReal(i, run == 0 ? 1 : random() % 2 ? 1 + unit : 1 - unit);
      inputs.push_back(std::move(moves));
    }
    return dfg::MulOp::create(builder, value.getLoc(), value, factor);
  }

  RoundingProbe probe;
  dfg::GraphOp graph;
  Random random;
};

} // namespace

RoundingProbe probeRounding(ModuleOp module, const std::vector<Tensor> &inputs) { return Prober(module, inputs).run(); }

std::vector<double> largestMoves(const std::vector<std::vector<Tensor>> &runs, size_t output) {
  const Tensor &still = runs.front()[output];
  std::vector<double> moves(static_cast<size_t>(still.size()));
  for (const std::vector<Tensor> &run : runs)
    for (int64_t i = 0; i < still.size(); ++i)
      if (double move = std::fabs(run[output].real(i) - still.real(i)); std::isfinite(move))
        moves[static_cast<size_t>(i)] = std::max(moves[static_cast<size_t>(i)], move);
  return moves;
}

bool hasNarrowFloats(ModuleOp module) {
  bool found = false;
  module.walk([&](Operation *op) { found |= llvm::any_of(op->getOperandTypes(), isNarrow); });
  return found;
}

} // namespace cleave::test
