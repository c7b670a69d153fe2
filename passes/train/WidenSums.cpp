// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks behind every conversion from bfloat16 to f32 for the sum that was rounded: through operators that only move
// elements, as nobody else reads what is between.

#include "passes/train/MixedPrecision.h"
#include "passes/train/Passes.h"

#include "passes/train/PlacedCasts.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_WIDENSUMSPASS
#include "passes/train/Passes.h.inc"

namespace {

class Widening {
public:
  explicit Widening(dfg::GraphOp graph)
      : graph(graph), casts(graph), narrow(BFloat16Type::get(graph.getContext())),
        wide(Float32Type::get(graph.getContext())) {}

  LogicalResult run() {
    for (dfg::CastOp widened : llvm::to_vector(graph.getOps<dfg::CastOp>())) {
      if (!isNarrow(widened.getInput()) || elementOf(widened) != wide)
        continue;
      FailureOr<Value> sum = widen(widened.getInput());
      if (failed(sum))
        return failure();
      if (!*sum)
        continue;
      widened.replaceAllUsesWith(*sum);
      eraseChain(widened);
    }
    return success();
  }

private:
  bool isNarrow(Value value) { return elementOf(value) == narrow; }

  /// The value in f32, where what rounded it can leave that; else null.
  FailureOr<Value> widen(Value value) {
    Operation *op = value.getDefiningOp();
    auto precision = dyn_cast_or_null<PrecisionInterface>(op);
    if (!precision || op->getNumResults() != 1 || !value.hasOneUse())
      return Value();
    switch (precision.getPrecision()) {
    case Precision::Gains:
      return widenProduct(precision);
    case Precision::Wide:
      return widenOperands(op);
    case Precision::Follows:
      return widenMoved(op);
    }
    llvm_unreachable("all precisions are known");
  }

  FailureOr<Value> widenProduct(PrecisionInterface product) {
    OpBuilder builder(product);
    Value made = product.buildWide(builder);
    if (made)
      made.getDefiningOp()->setDiscardableAttrs(product->getDiscardableAttrDictionary());
    return made;
  }

  FailureOr<Value> widenOperands(Operation *op) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return isNarrow(operand); }))
      return Value();
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      FailureOr<Value> value = operand.get();
      if (isNarrow(operand.get()))
        value = casts.before(operand, operand.get(), wide);
      if (failed(value))
        return failure();
      operands.push_back(*value);
    }
    return again(op, operands);
  }

  FailureOr<Value> widenMoved(Operation *op) {
    auto cost = dyn_cast<CostInterface>(op);
    CostClass kind = cost ? cost.getCost().costClass : CostClass::Elementwise;
    if ((kind != CostClass::View && kind != CostClass::Movement) ||
        llvm::count_if(op->getOperands(), [&](Value operand) { return isNarrow(operand); }) != 1)
      return Value();
    SmallVector<Value> operands(op->getOperands());
    Value &moved = *llvm::find_if(operands, [&](Value operand) { return isNarrow(operand); });
    FailureOr<Value> value = widen(moved);
    if (failed(value) || !*value)
      return value;
    moved = *value;
    return again(op, operands);
  }

  Value again(Operation *op, ValueRange operands) {
    OpBuilder builder(op);
    return cloneRetyped(builder, op, operands, narrow, wide).front();
  }

  /// Erases an operator that nobody reads, and what then is read by nobody.
  void eraseChain(Operation *op) {
    while (op && op->use_empty()) {
      Operation *next = nullptr;
      for (Value operand : op->getOperands())
        if (isNarrow(operand))
          next = operand.getDefiningOp();
      op->erase();
      op = next;
    }
  }

  dfg::GraphOp graph;
  PlacedCasts casts;
  Type narrow, wide;
};

class WidenSums : public impl::WidenSumsPassBase<WidenSums> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      if (failed(widenSums(graph)))
        return signalPassFailure();
  }
};

} // namespace

LogicalResult widenSums(dfg::GraphOp graph) { return Widening(graph).run(); }

} // namespace cleave
