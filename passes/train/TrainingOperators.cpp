// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// New operators follow the layouts of the one that they replace, forwards from its operands; those that have none, the
// positions of a dropout, follow its result.

#include "passes/train/TrainingOperators.h"

#include "passes/planner/ModelNode.h"
#include "passes/train/BatchNormTraining.h"
#include "passes/train/Dropout.h"
#include "passes/train/GradientPlaces.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

namespace {

/// Remembers the operators that are created.
struct CreatedOperators : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { operators.push_back(op); }
  SmallVector<Operation *> operators;
};

class TrainingOperators {
public:
  TrainingOperators(dfg::GraphOp graph, const TrainingOperatorOptions &options, std::vector<int64_t> &groups)
      : graph(graph), options(options), groups(groups), places(graph->getParentOfType<ModuleOp>()) {}

  LogicalResult replaceAll() {
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front())) {
      LogicalResult done = success();
      if (auto norm = dyn_cast<dfg::BatchNormOp>(op); norm && options.statistics != BatchStatistics::Running)
        done =
            replace(norm, [&](OpBuilder &builder) { return buildTrainingBatchNorm(builder, norm, nextGroups(norm)); });
      else if (auto dropout = dyn_cast<dfg::DropoutOp>(op))
        done =
            replace(dropout, [&](OpBuilder &builder) { return buildTrainingDropout(builder, dropout, options.seed); });
      if (failed(done))
        return failure();
    }
    return success();
  }

private:
  /// The groups of the operator's statistics; called for each once, in order.
  int64_t nextGroups(dfg::BatchNormOp norm) {
    if (options.statistics == BatchStatistics::Synchronized)
      return 1;
    size_t index = groups.size();
    return groups.emplace_back(index < options.groups.size() ? options.groups[index] : partsOfBatch(norm));
  }

  /// Into how many parts the devices of the operator's mesh cut the samples; its layouts are known. Unequal parts are
  /// no groups of equal size: one, whose sums are then joined.
  int64_t partsOfBatch(dfg::BatchNormOp norm) {
    FlatSymbolRefAttr place = dist::getPlace(norm).getMesh();
    const dist::MeshShape &mesh = places.shapeOf(place);
    StringAttr unequal = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(norm, place).getShares().first;
    int64_t parts = 1;
    for (const dist::Part &part : places.find(norm.getInput())->dims.front()) {
      if (unequal && llvm::is_contained(part.axes, unequal))
        return 1;
      parts *= mesh.ways(part.axes);
    }
    return parts;
  }

  LogicalResult replace(Operation *op, llvm::function_ref<Value(OpBuilder &)> build) {
    if (failed(places.follow(op, SmallVector<Value>(op->getNumResults()))))
      return failure();
    Layout layout = *places.find(op->getResult(0));
    CreatedOperators created;
    OpBuilder builder(op->getContext(), &created);
    builder.setInsertionPoint(op);
    Value result = build(builder);
    for (Operation *made : created.operators)
      if (made->getNumOperands() == 0 && made->getNumResults() == 1)
        hintLike(made->getResult(0), layout);
    if (result.getDefiningOp() && llvm::is_contained(created.operators, result.getDefiningOp()))
      places.hint(result, layout);
    // Reads and constants are copied to their users.
    llvm::erase_if(created.operators, followsItsUsers);
    if (failed(places.place(created.operators)))
      return failure();
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
    return success();
  }

  /// A value that broadcasts to a tensor lies as it does, in the dimensions that they share.
  void hintLike(Value value, Layout layout) {
    auto type = cast<RankedTensorType>(value.getType());
    if (static_cast<size_t>(type.getRank()) != layout.dims.size())
      return;
    for (auto [size, parts] : llvm::zip_equal(type.getShape(), layout.dims))
      if (size == 1)
        parts = {dist::Part{1, {}, {}}};
    places.hint(value, layout);
  }

  dfg::GraphOp graph;
  const TrainingOperatorOptions &options;
  std::vector<int64_t> &groups;
  GradientPlaces places;
};

} // namespace

std::optional<BatchStatistics> findStatistics(StringRef name) {
  return llvm::StringSwitch<std::optional<BatchStatistics>>(name)
      .Case("device", BatchStatistics::Device)
      .Case("synchronized", BatchStatistics::Synchronized)
      .Case("running", BatchStatistics::Running)
      .Default(std::nullopt);
}

LogicalResult replaceTrainingOperators(dfg::GraphOp graph, const TrainingOperatorOptions &options,
                                       std::vector<int64_t> *groups) {
  if (!options.drops)
    removeDropout(graph);
  std::vector<int64_t> unasked;
  return TrainingOperators(graph, options, groups ? *groups : unasked).replaceAll();
}

} // namespace cleave
