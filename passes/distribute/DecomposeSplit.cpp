// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes operators apart that are cut along factors that only the simpler operators can have cut.

#include "passes/distribute/OperatorLayouts.h"
#include "passes/distribute/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_DECOMPOSESPLITPASS
#include "passes/distribute/Passes.h.inc"

namespace {

/// Whether the split cuts a factor that cannot be cut as long as the operator is whole.
bool cutsStepwise(Operation *op) {
  dist::PlaceAttr place = dist::getPlace(op);
  if (!place || !place.getSplit() || !isa<DecomposeInterface>(op))
    return false;
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  return llvm::any_of(place.getSplit().getFactors(), [&](NamedAttribute entry) {
    auto factor = rule.find(entry.getName());
    return factor && rule.factors[*factor].kind == FactorKind::Stepwise;
  });
}

/// Remembers the operators that are made, in order.
class NewOperators : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { all.push_back(op); }
  SmallVector<Operation *> all;
};

class DecomposeSplit : public impl::DecomposeSplitPassBase<DecomposeSplit> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<Operation *> found;
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      for (Operation &op : graph.getBody().front())
        if (cutsStepwise(&op))
          found.push_back(&op);
    for (Operation *op : found) {
      auto mesh = symbols.lookup<dist::MeshOp>(dist::getPlace(op).getMesh().getAttr());
      if (!mesh)
        continue; // the next pass says so
      decompose(op, dist::MeshShape(mesh));
    }
  }

  /// The operand is cut as the split says; the simpler operators follow each other from there.
  void decompose(Operation *op, const dist::MeshShape &mesh) {
    dist::PlaceAttr place = dist::getPlace(op);
    SplitRule rule = cast<SplitInterface>(op).getSplitRule();
    SmallVector<dist::Axes> axes(rule.factors.size());
    for (NamedAttribute entry : place.getSplit().getFactors())
      if (auto factor = rule.find(entry.getName()))
        for (auto axis : cast<ArrayAttr>(entry.getValue()).getAsRange<StringAttr>())
          axes[*factor].push_back(axis);
    llvm::DenseMap<Value, dist::Layout> layouts;
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      layouts[operand] = dist::Layout::fromFactors(rule, rule.operands[index],
                                                   cast<RankedTensorType>(operand.getType()).getShape(), axes, mesh);

    NewOperators made;
    OpBuilder builder(op, &made);
    SmallVector<Value> results = cast<DecomposeInterface>(op).decompose(builder, op->getOperands());
    for (Operation *part : made.all) {
      if (part->hasTrait<OpTrait::ConstantLike>())
        continue;
      SmallVector<const dist::Layout *> operands;
      for (Value operand : part->getOperands()) {
        auto known = layouts.find(operand);
        operands.push_back(known == layouts.end() ? nullptr : &known->second);
      }
      part->setAttr(dist::placeAttrName, dist::PlaceAttr::get(op->getContext(), place.getMesh(), place.getBy(),
                                                              followOperands(part, operands, mesh)));
      auto found = findLayouts(part, mesh);
      if (failed(found))
        return signalPassFailure();
      for (auto [result, layout] : llvm::zip_equal(part->getResults(), found->results)) {
        layout.partial.clear();
        layout.combiner = Combiner::None;
        layouts[result] = layout;
      }
    }
    op->replaceAllUsesWith(results);
    op->erase();
  }
};

} // namespace
} // namespace cleave
