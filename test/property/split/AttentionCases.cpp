// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, alone or with its gradient, whose queries and keys devices divide by positions.

#include "test/property/split/Placements.h"
#include "test/property/split/SplitCases.h"

#include <limits>

using namespace mlir;

namespace cleave::test {
namespace {

constexpr Bounds any = {-4, 4};

/// Attention on [batch, heads, positions, depth]; keys lie as they are or transposed.
class AttentionGraph {
public:
  AttentionGraph(MLIRContext &context, uint64_t seed) : g(context, seed) {
    Builder types(&context);
    element = g.dice.oneIn(4)   ? Type(types.getF64Type())
              : g.dice.oneIn(4) ? Type(types.getBF16Type())
                                : types.getF32Type();
    const std::vector<std::vector<int64_t>> grids = {{2}, {3}, {4}, {2, 2}, {2, 2, 2}};
    sizes = g.dice.of<std::vector<int64_t>>(grids);
    for (size_t axis = 0; axis != sizes.size(); ++axis)
      axes.push_back("x" + std::to_string(axis));
    // One in five has devices with unequal numbers of keys.
    int64_t devices = 1;
    for (int64_t size : sizes)
      devices *= size;
    batch = g.dice.between(1, 2);
    heads = g.dice.between(1, 3);
    keys = devices * g.dice.between(1, 4) + (g.dice.oneIn(5) ? 1 : 0);
    queries = g.dice.oneIn(2) ? keys : g.dice.between(1, 9);
    depth = g.dice.between(1, 5);
    isTransposed = g.dice.oneIn(2);
  }

  SplitCase make(bool withGradient) {
    Value q = cut(g.add<dfg::NegOp>(Rounding::Exact, Bounds{}, tensor({batch, heads, queries, depth})), 2);
    Value k =
        cut(g.add<dfg::NegOp>(Rounding::Exact, Bounds{},
                              isTransposed ? tensor({batch, heads, depth, keys}) : tensor({batch, heads, keys, depth})),
            isTransposed ? 3 : 2);
    Value v = cut(g.add<dfg::NegOp>(Rounding::Exact, Bounds{}, tensor({batch, heads, keys, depth})), 2);
    Value scores = cut(product(q, k, 3, isTransposed ? 2 : 3), 2);
    scores = cut(g.add<dfg::MulOp>(Rounding::Inexact, any, scores, factor()), 2);
    if (g.dice.oneIn(2))
      scores = cut(g.add<dfg::AddOp>(Rounding::Inexact, any, scores, bias()), 2);
    if (g.dice.oneIn(2))
      scores = hidden(scores, -std::numeric_limits<double>::infinity());
    Value weights = cut(g.add<dfg::SoftmaxOp>(Rounding::Inexact, any, scores, 3), 2);
    SmallVector<Value> outputs = {cut(product(weights, v, 3, 2), 2)};
    if (withGradient)
      addGradient(q, k, v, weights, outputs);
    return finish(outputs);
  }

private:
  Value tensor(ArrayRef<int64_t> shape) { return g.input(element, shape, Bounds{}); }
  Value factor() { return g.fresh(element, {}, {0.5, 1}); }
  Value product(Value a, Value b, int64_t contractA, int64_t contractB) {
    return g.add<dfg::DotGeneralOp>(Rounding::Inexact, any, a, b, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
                                    ArrayRef<int64_t>(contractA), ArrayRef<int64_t>(contractB), false);
  }
  /// Of all pairs, or of all queries alike; the same for all heads or not.
  Value bias() {
    SmallVector<int64_t> shape = {g.dice.oneIn(2) ? queries : 1, keys};
    if (g.dice.oneIn(2))
      shape.insert(shape.begin(), heads);
    return tensor(shape);
  }
  /// Keys behind a query are hidden, but for the first one.
  Value hidden(Value scores, double number) {
    if (!mask) {
      auto positions = [&](int64_t dim) {
        return cut(g.add<dfg::IotaOp>(Rounding::Exact, any, g.type(g.i64(), {queries, keys}), dim), 0);
      };
      mask = cut(
          g.add<dfg::CompareOp>(Rounding::Exact, any, positions(0), positions(1), dfg::Comparison::GreaterOrEqual), 0);
    }
    auto type = g.type(element, {});
    Value none = g.add<dfg::ConstantOp>(Rounding::Exact, any,
                                        DenseElementsAttr::get(type, Attribute(g.at().getFloatAttr(element, number))));
    return cut(g.add<dfg::SelectOp>(Rounding::Inexact, any, mask, scores, none), 2);
  }

  void addGradient(Value q, Value k, Value v, Value weights, SmallVectorImpl<Value> &outputs) {
    Value cotangent = cut(g.add<dfg::NegOp>(Rounding::Exact, Bounds{}, tensor({batch, heads, queries, depth})), 2);
    Value ofValues = cut(product(weights, cotangent, 2, 2), 0, 2);
    Value ofWeights = cut(product(cotangent, v, 3, 3), 2);
    Value both = cut(g.add<dfg::MulOp>(Rounding::Inexact, any, ofWeights, weights), 2);
    Value sums =
        cut(g.add<dfg::ReduceOp>(Rounding::Inexact, any, both, dfg::ReduceKind::Sum, ArrayRef<int64_t>(3), true), 2);
    Value rest = cut(g.add<dfg::SubOp>(Rounding::Inexact, any, ofWeights, sums), 2);
    Value ofScores = cut(g.add<dfg::MulOp>(Rounding::Inexact, any, weights, rest), 2);
    if (mask)
      ofScores = hidden(ofScores, 0);
    Value ofQueries = cut(product(ofScores, k, 3, isTransposed ? 3 : 2), 2);
    Value ofKeys = isTransposed ? cut(product(q, ofScores, 2, 2), 0, 2) : cut(product(ofScores, q, 2, 2), 0, 2);
    outputs.push_back(ofQueries);
    for (auto [value, dim] : {std::pair(ofKeys, isTransposed ? 3 : 2), std::pair(ofValues, 2)})
      outputs.push_back(cut(g.add<dfg::NegOp>(Rounding::Inexact, any, value), dim));
  }

  /// Has the operator cut along the dimension of its result, or of an operand.
  Value cut(Value value, size_t dim) {
    return remember(value, [dim](const SplitRule &rule) { return rule.results[0][dim]; });
  }
  Value cut(Value value, size_t operand, size_t dim) {
    return remember(value, [=](const SplitRule &rule) { return rule.operands[operand][dim]; });
  }
  Value remember(Value value, std::function<DimFactors(const SplitRule &)> factors) {
    cuts.push_back({value.getDefiningOp(), std::move(factors)});
    return value;
  }

  SplitCase finish(ArrayRef<Value> outputs) {
    SplitCase made{"attention", g.finish(outputs), 1};
    ModuleOp module = *made.module;
    addDevices(module, numDevices);
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<StringRef> names(axes.begin(), axes.end());
    SmallVector<int64_t> devices;
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    for (int64_t device = 0; device != count; ++device)
      devices.push_back(device);
    auto mesh = dist::MeshOp::create(builder, module.getLoc(), builder.getStringAttr("ring"),
                                     builder.getStrArrayAttr(names), builder.getDenseI64ArrayAttr(sizes),
                                     builder.getDenseI64ArrayAttr(devices), DictionaryAttr());
    for (auto &[op, factors] : cuts) {
      SplitRule rule = cast<SplitInterface>(op).getSplitRule();
      DimFactors list = factors(rule);
      dist::SplitAttr split;
      if (!list.empty())
        split = dist::SplitAttr::get(builder.getContext(),
                                     builder.getDictionaryAttr(builder.getNamedAttr(rule.factors[list.front()].name,
                                                                                    builder.getStrArrayAttr(names))));
      place(op, mesh, split);
    }
    return made;
  }

  GraphBuilder g;
  Type element;
  std::vector<int64_t> sizes;
  std::vector<std::string> axes;
  int64_t batch = 1, heads = 1, keys = 1, queries = 1, depth = 1;
  bool isTransposed = false;
  Value mask;
  std::vector<std::pair<Operation *, std::function<DimFactors(const SplitRule &)>>> cuts;
};

} // namespace

SplitCase makeAttentionCase(MLIRContext &context, uint64_t seed, bool withGradient) {
  return AttentionGraph(context, seed).make(withGradient);
}

} // namespace cleave::test
