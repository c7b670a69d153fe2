// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions of the operator interfaces and their defaults.

#include "dialects/interfaces/Interfaces.h"

using namespace mlir;

namespace cleave {

OpCost elementwiseCost(Operation *op, double flopsPerElement, CostClass costClass) {
  OpCost cost;
  cost.costClass = costClass;
  for (Type type : op->getOperandTypes())
    cost.bytesRead += static_cast<double>(tensorBytes(type));
  for (Type type : op->getResultTypes()) {
    cost.bytesWritten += static_cast<double>(tensorBytes(type));
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      cost.flops += flopsPerElement * static_cast<double>(tensor.getNumElements());
  }
  return cost;
}

Precision precisionByCost(Operation *op) {
  auto cost = dyn_cast<CostInterface>(op);
  return cost && cost.getCost().costClass == CostClass::Contraction ? Precision::Gains : Precision::Follows;
}

FailureOr<SmallVector<Value>> localizeByCloning(Operation *op, OpBuilder &builder, const LocalInstance &instance) {
  OperationState state(op->getLoc(), op->getName(), instance.operands, instance.results, op->getAttrs());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return SmallVector<Value>(builder.create(state)->getResults());
}

} // namespace cleave

#include "dialects/interfaces/Interfaces.cpp.inc"
