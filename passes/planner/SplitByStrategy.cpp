// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds batches, and layers with their columns and rows.

#include "passes/planner/SplitByStrategy.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

//===-- data --------------------------------------------------------------------------------------------------===//

/// Whether everything that a dimension of an input reaches computes its parts by themselves.
static bool reachesOnlyParallel(GraphSplits &splits, BlockArgument input, unsigned dim, StringRef axis) {
  return splits.tryInput(input, dim, axis, [&](OperatorSplit &split) {
    for (auto [operand, tensor] : llvm::zip_equal(split.op->getOperands(), split.rule.operands))
      for (const ValueCut &cut : splits.cutsOf(operand)) {
        if (!llvm::is_contained(cut.axes, axis))
          continue;
        auto factor =
            GraphSplits::factorAt(split, tensor, cut, split.mesh->sizeOf(axis), [](unsigned) { return true; });
        if (factor && split.rule.factors[*factor].kind != FactorKind::Parallel)
          return false;
      }
    return true;
  });
}

/// Whether a value goes, by way of operators that are whole so far, into one that the axis cuts.
static bool meetsCut(GraphSplits &splits, Value value, StringRef axis) {
  llvm::SetVector<Operation *> reached(value.getUsers().begin(), value.getUsers().end());
  for (size_t next = 0; next != reached.size(); ++next) {
    OperatorSplit *split = splits.find(reached[next]);
    if (split && split->uses(axis))
      return true;
    for (Operation *user : reached[next]->getUsers())
      reached.insert(user);
  }
  return false;
}

SmallVector<BlockArgument> splitBatch(GraphSplits &splits, dfg::GraphOp graph, StringRef axis) {
  SmallVector<BlockArgument> single;
  // What users that are cut want of an input follows from them.
  for (OperatorSplit &split : splits.getOperators())
    splits.followOperands(split);
  for (BlockArgument input : graph.getBody().getArguments()) {
    auto type = cast<RankedTensorType>(input.getType());
    if (type.getRank() == 0)
      continue;
    if (meetsCut(splits, input, axis))
      continue;
    unsigned batch = 0;
    for (unsigned dim = 0; dim < type.getRank(); ++dim)
      if (reachesOnlyParallel(splits, input, dim, axis)) {
        batch = dim;
        break;
      }
    if (type.getDimSize(batch) < 2) {
      single.push_back(input);
      continue;
    }
    StringRef name = graph.getInputName(input.getArgNumber());
    std::string text =
        "strategy data: batch of " + (name.empty() ? "input " + std::to_string(input.getArgNumber()) : name.str());
    splits.cutInput(input, batch, axis, splits.decide(std::move(text)));
    splits.followFrom(input);
  }
  return single;
}

//===-- tensor ------------------------------------------------------------------------------------------------===//

namespace {

/// The ways in which an operator with weights can be split.
struct Layer {
  std::optional<unsigned> column, tableRow;
  /// Factors over which weights and input are summed.
  SmallVector<unsigned> rows;
};

class LayerSplitter {
public:
  LayerSplitter(GraphSplits &splits, StringRef axis) : splits(splits), axis(axis) {}

  void run() {
    for (OperatorSplit &split : splits.getOperators()) {
      int64_t ways = split.mesh->sizeOf(axis);
      if (ways > 1 && !isWeight(split.op))
        decide(split, findLayer(split, ways), ways);
      splits.followOperands(split);
    }
  }

private:
  GraphSplits &splits;
  StringRef axis;
  llvm::DenseMap<Operation *, bool> weights;

  /// Whether an operator computes from parameters and constants alone.
  bool isWeight(Operation *op) {
    if (!op)
      return false;
    if (followsItsUsers(op))
      return true;
    auto known = weights.find(op);
    if (known != weights.end())
      return known->second;
    bool constant = llvm::all_of(op->getOperands(), [&](Value operand) { return isWeight(operand.getDefiningOp()); });
    return weights[op] = constant && op->getNumOperands() != 0;
  }

  static bool mentions(const TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
  }

  Layer findLayer(const OperatorSplit &split, int64_t ways) {
    Layer layer;
    const SplitRule &rule = split.rule;
    for (auto [index, factor] : llvm::enumerate(rule.factors)) {
      bool inWeights = false, inInputs = false;
      for (auto [operand, tensor] : llvm::zip_equal(split.op->getOperands(), rule.operands))
        if (mentions(tensor, index))
          (isWeight(operand.getDefiningOp()) ? inWeights : inInputs) = true;
      if (!inWeights || factor.size < ways || split.fixed[index])
        continue;
      if (factor.kind == FactorKind::Reduction)
        inInputs ? layer.rows.push_back(index) : void(layer.tableRow = layer.tableRow.value_or(index));
      else if (factor.kind == FactorKind::Parallel && !inInputs && !layer.column)
        layer.column = index;
    }
    return layer;
  }

  void decide(OperatorSplit &split, const Layer &layer, int64_t ways) {
    if (!layer.column && !layer.tableRow)
      return;
    if (split.closed || split.uses(axis))
      return;
    for (auto [operand, tensor] : llvm::zip_equal(split.op->getOperands(), split.rule.operands))
      for (const ValueCut &cut : splits.cutsOf(operand)) {
        if (!llvm::is_contained(cut.axes, axis))
          continue;
        auto row = GraphSplits::factorAt(split, tensor, cut, ways,
                                         [&](unsigned factor) { return llvm::is_contained(layer.rows, factor); });
        if (row)
          return splits.cut(split, *row, meshAxis(split), splits.decide("strategy tensor: row", split.node),
                            cut.extent);
        // The input is divided along something that the layer keeps: the layer follows it.
        if (GraphSplits::factorAt(split, tensor, cut, ways, [&](unsigned factor) {
              return split.rule.factors[factor].kind == FactorKind::Parallel;
            }))
          return;
      }
    unsigned factor = layer.tableRow ? *layer.tableRow : *layer.column;
    splits.cut(split, factor, meshAxis(split),
               splits.decide(layer.tableRow ? "strategy tensor: row" : "strategy tensor: column", split.node));
  }

  /// The axis in the mesh's own text.
  StringRef meshAxis(const OperatorSplit &split) {
    return llvm::find_if(split.mesh->axes, [&](const MeshAxis &known) { return known.name == axis; })->name;
  }
};

} // namespace

void splitLayers(GraphSplits &splits, StringRef axis) { LayerSplitter(splits, axis).run(); }

//===-- everything --------------------------------------------------------------------------------------------===//

void splitEverything(GraphSplits &splits) {
  size_t turn = 0;
  for (OperatorSplit &split : splits.getOperators()) {
    SmallVector<unsigned> factors;
    for (auto [index, factor] : llvm::enumerate(split.rule.factors))
      if (factor.kind != FactorKind::Unsplittable && factor.size > 1)
        factors.push_back(index);
    for (const MeshAxis &axis : split.mesh->axes)
      if (!factors.empty())
        splits.cut(split, factors[turn++ % factors.size()], axis.name, splits.decide("strategy split", split.node));
  }
}

} // namespace cleave
