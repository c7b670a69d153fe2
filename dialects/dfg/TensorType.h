// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short words for the types of values that are tensors, as all values of graphs are.

#ifndef CLEAVE_DIALECTS_DFG_TENSORTYPE_H
#define CLEAVE_DIALECTS_DFG_TENSORTYPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace cleave {

/// The type of a value that is a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The type of its elements.
inline mlir::Type elementOf(mlir::Value value) { return tensorType(value).getElementType(); }

/// The type of an operation's first result, which is a tensor.
inline mlir::RankedTensorType resultType(mlir::Operation *op) { return tensorType(op->getResult(0)); }

} // namespace cleave

#endif // CLEAVE_DIALECTS_DFG_TENSORTYPE_H
