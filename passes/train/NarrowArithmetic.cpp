// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk in the order of the data. An operator that is to read bfloat16 is replaced by one that does; whoever reads
// its result then takes that, or a conversion.

#include "passes/train/MixedPrecision.h"
#include "passes/train/Passes.h"

#include "passes/planner/ModelNode.h"
#include "passes/planner/NarrowOperators.h"
#include "passes/train/PlacedCasts.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_NARROWARITHMETICPASS
#include "passes/train/Passes.h.inc"

namespace {

class Narrowing {
public:
  explicit Narrowing(dfg::GraphOp graph)
      : graph(graph), operators(graph), casts(graph), narrow(BFloat16Type::get(graph.getContext())),
        wide(Float32Type::get(graph.getContext())) {}

  LogicalResult run() {
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front()))
      if (failed(operators.contains(&op) ? replace(&op) : readWide(&op)))
        return failure();
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    return success();
  }

private:
  bool isWide(Value value) { return elementOf(value) == wide; }

  LogicalResult replace(Operation *op) {
    auto precision = cast<PrecisionInterface>(op);
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      FailureOr<Value> value = operand.get();
      if (isWide(operand.get()))
        value = precision.keepsWide(operand.getOperandNumber()) ? asWide(operand) : asNarrow(operand);
      if (failed(value))
        return failure();
      operands.push_back(*value);
    }
    OpBuilder builder(op);
    for (auto [old, made] : llvm::zip_equal(op->getResults(), cloneRetyped(builder, op, operands, wide, narrow)))
      if (old.getType() == made.getType())
        old.replaceAllUsesWith(made);
      else
        narrowed[old] = made;
    replaced.push_back(op);
    return success();
  }

  LogicalResult readWide(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      FailureOr<Value> value = asWide(operand);
      if (failed(value))
        return failure();
      operand.set(*value);
    }
    return success();
  }

  FailureOr<Value> asWide(OpOperand &operand) {
    Value known = narrowed.lookup(operand.get());
    return known ? casts.before(operand, known, wide) : FailureOr<Value>(operand.get());
  }

  /// What an operator makes is rounded once, where it is made; inputs and parameters once a use.
  FailureOr<Value> asNarrow(OpOperand &operand) {
    if (Value known = narrowed.lookup(operand.get()))
      return known;
    Operation *producer = operand.get().getDefiningOp();
    if (!producer || followsItsUsers(producer))
      return casts.before(operand, operand.get(), narrow);
    Value &made = rounded[operand.get()];
    if (made)
      return made;
    FailureOr<Value> value = casts.behind(operand.get(), narrow);
    if (succeeded(value))
      made = *value;
    return value;
  }

  dfg::GraphOp graph;
  NarrowOperators operators;
  PlacedCasts casts;
  Type narrow, wide;
  /// The results of operators that were replaced in bfloat16, and other values rounded.
  DenseMap<Value, Value> narrowed, rounded;
  SmallVector<Operation *> replaced;
};

class NarrowArithmetic : public impl::NarrowArithmeticPassBase<NarrowArithmetic> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      if (failed(narrowArithmetic(graph)))
        return signalPassFailure();
  }
};

} // namespace

LogicalResult narrowArithmetic(dfg::GraphOp graph) { return Narrowing(graph).run(); }

} // namespace cleave
