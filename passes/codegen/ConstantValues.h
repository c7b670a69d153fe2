// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values follow from parameters and constants alone: they are computed once, when a plan is loaded.

#ifndef CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H
#define CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H

#include "mlir/IR/Value.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// Answers for the values of one module; remembers what it has found. Values must not change their definition.
class ConstantValues {
public:
  /// Whether `value` depends on no input, nothing received, and no parameter that steps write.
  bool contains(mlir::Value value);
  /// Before an operator of one result is erased: another value may come to lie where its result was.
  void forget(mlir::Operation *op) { known.erase(op->getResult(0)); }

private:
  llvm::DenseMap<mlir::Value, bool> known;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H
