// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts the graph along one axis, once for each question, and looks what follows.

#include "passes/planner/search/AxisFactors.h"

#include "passes/planner/SplitByStrategy.h"

using namespace mlir;

namespace cleave::search {

bool mentions(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

FactorOwners ownersOf(const Operator &op, unsigned factor) {
  FactorOwners owners;
  for (auto [operand, tensor] : llvm::zip_equal(op.operands, op.rule.operands))
    (operand.parameter != none ? owners.weights : owners.data) |= mentions(tensor, factor);
  return owners;
}

namespace {

class AxisFactors {
public:
  AxisFactors(dfg::GraphOp graph, SearchGraph &result) : graph(graph), result(result) {}

  /// The batch of every operator is what strategy data would cut.
  void run() {
    MeshSpec mesh{"batch", {0, 1}, {{"data", 2}}};
    std::vector<NodePlace> places(result.nodes.size(), NodePlace{&mesh, ""});
    GraphSplits splits(graph, result.nodes, places);
    for (BlockArgument input : splitBatch(splits, graph, "data"))
      result.singleSample.push_back(graph.getInputName(input.getArgNumber()).str());
    for (Operator &op : result.operators) {
      auto factor = splits.find(op.op)->factorCutBy("data");
      if (!factor || op.once)
        continue;
      op.batch = *factor;
      for (auto [tensor, factors] : llvm::zip_equal(op.results, op.rule.results))
        result.tensors[tensor].batched = mentions(factors, *factor);
    }
    findSequence(mesh, places);
    findExperts(mesh, places);
    for (Tensor &tensor : result.tensors) {
      if (tensor.producer != none)
        continue;
      for (auto [user, operand] : tensor.uses) {
        const Operator &op = result.operators[user];
        if (op.batch == none)
          continue;
        tensor.batched |= mentions(op.rule.operands[operand], op.batch);
        for (const DimFactors &dim : op.rule.operands[operand])
          if (llvm::is_contained(dim, op.batch))
            result.batch = std::max(result.batch, op.rule.factors[op.batch].size);
      }
    }
  }

private:
  dfg::GraphOp graph;
  SearchGraph &result;

  /// The dimension of an input that is its batch; none where it has none.
  unsigned batchDimOf(const Tensor &input) const {
    for (auto [user, operand] : input.uses)
      for (auto [dim, factors] : llvm::enumerate(result.operators[user].rule.operands[operand]))
        if (llvm::is_contained(factors, result.operators[user].batch))
          return dim;
    return none;
  }

  /// What follows a cut of the first dimension of every input that is not its batch.
  void findSequence(const MeshSpec &mesh, ArrayRef<NodePlace> places) {
    GraphSplits splits(graph, result.nodes, places);
    for (const Tensor &input : result.tensors) {
      auto type = cast<RankedTensorType>(input.value.getType());
      unsigned batch = input.producer == none ? batchDimOf(input) : none;
      // A batch of one cannot be cut, so no operator tells which dimension it is: the first.
      if (batch == none && input.producer == none && type.getRank() > 1 && type.getDimSize(0) == 1)
        batch = 0;
      if (batch != none && type.getRank() > 1)
        splits.cutInput(input.value, batch == 0 ? 1 : 0, mesh.axes.front().name, splits.decide(""));
    }
    for (Operator &op : result.operators) {
      OperatorSplit *split = splits.find(op.op);
      splits.followOperands(*split);
      if (auto factor = split->factorCutBy(mesh.axes.front().name); factor && *factor != op.batch && !op.once)
        op.sequence = *factor;
    }
  }

  /// The factor that numbers the matrices of a product with weights; a convolution's groups are channels.
  static std::optional<unsigned> numberOfMatrices(const Operator &op) {
    if (op.cost.costClass != CostClass::Contraction || op.slides)
      return std::nullopt;
    for (auto [factor, known] : llvm::enumerate(op.rule.factors))
      if (FactorOwners owners = ownersOf(op, factor);
          owners.weights && owners.data && known.kind == FactorKind::Parallel && factor != op.batch)
        return factor;
    return std::nullopt;
  }

  /// What follows where such matrices are on devices of their own.
  void findExperts(const MeshSpec &mesh, ArrayRef<NodePlace> places) {
    GraphSplits splits(graph, result.nodes, places);
    StringRef axis = mesh.axes.front().name;
    for (Operator &op : result.operators) {
      OperatorSplit *split = splits.find(op.op);
      splits.followOperands(*split);
      if (auto factor = numberOfMatrices(op)) {
        result.hasExperts = true;
        if (!split->uses(axis))
          splits.cut(*split, *factor, axis, splits.decide(""));
      }
      if (auto factor = split->factorCutBy(axis); factor && *factor != op.batch && !op.once)
        op.experts = *factor;
    }
  }
};

} // namespace

void findAxisFactors(dfg::GraphOp graph, SearchGraph &result) { AxisFactors(graph, result).run(); }

} // namespace cleave::search
