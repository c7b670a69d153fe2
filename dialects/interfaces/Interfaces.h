// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C++ side of the operator interfaces.

#ifndef CLEAVE_DIALECTS_INTERFACES_INTERFACES_H
#define CLEAVE_DIALECTS_INTERFACES_INTERFACES_H

#include "dialects/interfaces/HostTensor.h"
#include "dialects/interfaces/LibraryCall.h"
#include "dialects/interfaces/SplitRule.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave {

/// What DifferentiateInterface is asked for.
struct GradientRequest {
  /// One a result, of the result's type; null where the scalar does not depend on the result.
  mlir::ValueRange cotangents;
  /// By operand: whether its cotangent is wanted.
  llvm::ArrayRef<bool> needed;
};

/// The default cost: all operands read, all results written, `flopsPerElement` operations per result element.
OpCost elementwiseCost(mlir::Operation *op, double flopsPerElement, CostClass costClass = CostClass::Elementwise);

/// The default of SplitInterface::localize: the operator on its operands' parts, with the parts' types as results.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> localizeByCloning(mlir::Operation *op, mlir::OpBuilder &builder,
                                                                  const LocalInstance &instance);

} // namespace cleave

#include "dialects/interfaces/Interfaces.h.inc"

#endif // CLEAVE_DIALECTS_INTERFACES_INTERFACES_H
