// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads, writes and barriers: one factor a dimension.

#include "dialects/dfg/Dfg.h"

using namespace mlir;

namespace cleave::dfg {

/// Factors d0, d1, ... of the dimensions of `type`, for every operand and result.
static SplitRule identitySplitRule(Operation *op, Type type) {
  SplitRule rule;
  TensorFactors dims;
  for (auto [dim, size] : llvm::enumerate(cast<RankedTensorType>(type).getShape()))
    dims.push_back({rule.addFactor("d" + std::to_string(dim), size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

SplitRule ReadOp::getSplitRule() { return identitySplitRule(*this, getType()); }

SplitRule WriteOp::getSplitRule() { return identitySplitRule(*this, getValue().getType()); }

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError("expects a 'dfg.parameter' named '") << getParameter() << "', found none";
  if (parameter.getTensorType() != getValue().getType())
    return emitOpError("expects the parameter's type ")
           << parameter.getTensorType() << ", got " << getValue().getType();
  return success();
}

LogicalResult BarrierOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return success();
}

SplitRule BarrierOp::getSplitRule() {
  SplitRule rule = identitySplitRule(*this, getType());
  rule.linear = {{0}};
  return rule;
}

FailureOr<SmallVector<Value>> BarrierOp::lowerToLinalg(OpBuilder &, ValueRange operands) {
  return SmallVector<Value>{operands.front()};
}

LogicalResult OffloadOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return success();
}

SplitRule OffloadOp::getSplitRule() { return identitySplitRule(*this, getType()); }

LogicalResult OffloadOp::verify() {
  for (Operation *user : (*this)->getUsers())
    // What writes a parameter, or a part of it, keeps it there.
    if (!isa<FetchOp>(user) && (user->getNumResults() != 0 || !user->hasAttr("parameter")))
      return emitOpError("expects nothing but 'dfg.fetch' to read its result, or a parameter to be written with it, "
                         "found '")
             << user->getName() << "'";
  return success();
}

LogicalResult FetchOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return success();
}

SplitRule FetchOp::getSplitRule() { return identitySplitRule(*this, getType()); }

LogicalResult FetchOp::verify() {
  Operation *maker = getInput().getDefiningOp();
  // A read of a parameter, or of a part of it.
  bool isParameter = maker && maker->getNumOperands() == 0 && maker->hasAttr("parameter");
  if (!isParameter && !isa_and_present<OffloadOp>(maker))
    return emitOpError("expects the result of 'dfg.offload', or a parameter");
  return success();
}

OpCost BarrierOp::getCost() {
  OpCost cost;
  cost.costClass = CostClass::View;
  return cost;
}

} // namespace cleave::dfg
