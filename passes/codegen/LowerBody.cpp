// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers blocks of operators to linalg by asking each one for its meaning.

#include "passes/codegen/LowerBody.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

FailureOr<SmallVector<Value>> lowerOperator(OpBuilder &builder, Operation *op, ValueRange operands) {
  if (auto lowerable = dyn_cast<LowerInterface>(op)) {
    auto results = lowerable.lowerToLinalg(builder, operands);
    if (succeeded(results))
      return results;
  } else if (auto fusion = dyn_cast<dfg::FusionOp>(op)) {
    return lowerBody(builder, fusion.getBody().front(), operands);
  } else if (DenseElementsAttr value; matchPattern(op, m_Constant(&value))) {
    return SmallVector<Value>{arith::ConstantOp::create(builder, op->getLoc(), value)};
  }
  return op->emitOpError("expects a reference meaning on these operands, found none");
}

FailureOr<SmallVector<Value>> lowerBody(OpBuilder &builder, Block &block, ValueRange inputs, OperatorLowering lower) {
  IRMapping mapping;
  mapping.map(block.getArguments(), inputs);
  auto mapped = [&](ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return mapping.lookup(value); });
  };
  for (Operation &op : block.without_terminator()) {
    auto results = lower(builder, &op, mapped(op.getOperands()));
    if (failed(results))
      return failure();
    mapping.map(op.getResults(), *results);
  }
  return mapped(block.getTerminator()->getOperands());
}

/// Gives the values of a lowered function signless types for unsigned ones.
static void dropUnsignedTypes(func::FuncOp function) {
  auto drop = [](Value value) {
    if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
      value.setType(tensor.clone(dfg::signlessType(tensor.getElementType())));
    else
      value.setType(dfg::signlessType(value.getType()));
  };
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), drop);
    llvm::for_each(op->getResults(), drop);
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue()))
        constant.setValueAttr(elements.bitcast(dfg::signlessType(elements.getElementType())));
  });
  function.walk([](UnrealizedConversionCastOp cast) {
    cast.replaceAllUsesWith(cast.getInputs());
    cast.erase();
  });
  Block &block = function.getBody().front();
  function.setFunctionType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
}

FailureOr<func::FuncOp> lowerToFunction(ModuleOp module, StringRef name, Region &body, OperatorLowering lower) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Block &block = body.front();
  Location location = module.getLoc();
  auto function =
      func::FuncOp::create(builder, location, name,
                           builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  builder.setInsertionPointToStart(function.addEntryBlock());
  auto results = lowerBody(builder, block, function.getArguments(), lower);
  if (failed(results))
    return failure();
  func::ReturnOp::create(builder, location, *results);
  dropUnsignedTypes(function);
  return function;
}

} // namespace cleave
