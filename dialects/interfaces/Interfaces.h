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

/// Where values of an operator may be rounded to bfloat16.
enum class Precision {
  Gains,   ///< It is much faster on bfloat16: its operands are rounded, and its result.
  Follows, ///< As well on bfloat16: its result is rounded where the values that it reads were.
  Wide     ///< Sums over many elements, and functions that magnify what rounding leaves out: it reads and gives f32.
};

/// The default of PrecisionInterface: contractions gain, all others follow.
Precision precisionByCost(mlir::Operation *op);

/// The default of SplitInterface::localize: the operator on its operands' parts, with the parts' types as results.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> localizeByCloning(mlir::Operation *op, mlir::OpBuilder &builder,
                                                                  const LocalInstance &instance);

} // namespace cleave

#include "dialects/interfaces/Interfaces.h.inc"

#endif // CLEAVE_DIALECTS_INTERFACES_INTERFACES_H
