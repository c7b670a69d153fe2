// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions of element types between operators that may be placed.

#ifndef CLEAVE_PASSES_TRAIN_PLACEDCASTS_H
#define CLEAVE_PASSES_TRAIN_PLACEDCASTS_H

#include "passes/train/GradientPlaces.h"

#include "dialects/dfg/Dfg.h"

namespace cleave {

/// Converts values of one graph.
class PlacedCasts {
public:
  explicit PlacedCasts(dfg::GraphOp graph) : places(graph->getParentOfType<mlir::ModuleOp>()) {}

  /// `value`, which is to take an operand's part, as the operator is to read it: in front of the operator, on its mesh,
  /// cut as the operand is. Of a constant it is a constant. Behind the value's own operator where the operator has no
  /// place.
  llvm::FailureOr<mlir::Value> before(mlir::OpOperand &operand, mlir::Value value, mlir::Type element);

  /// The result of an operator behind it, on its mesh, cut as the result is.
  llvm::FailureOr<mlir::Value> behind(mlir::Value result, mlir::Type element);

private:
  GradientPlaces places;
};

/// The element type of a value.
mlir::Type elementOf(mlir::Value value);

/// The operator, appended again on `operands`, with results of `to` where they are of `from`.
llvm::SmallVector<mlir::Value> cloneRetyped(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                                            mlir::Type from, mlir::Type to);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_PLACEDCASTS_H
