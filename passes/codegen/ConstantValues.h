// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values follow from parameters and constants alone: they are computed once, when a plan is loaded.

#ifndef CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H
#define CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H

#include "mlir/IR/Value.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// Answers for the values of one program; remembers what it has found. Values must not change their definition.
class ConstantValues {
public:
  /// Whether `value` depends on no input, nothing received, and no parameter that the program writes.
  bool contains(mlir::Value value);

private:
  /// Whether the operation reads a parameter that its program writes.
  bool readsWritten(mlir::Operation *op);

  llvm::DenseMap<mlir::Value, bool> known;
  /// By program: the parameters that it writes.
  llvm::DenseMap<mlir::Block *, llvm::DenseSet<mlir::Attribute>> written;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_CONSTANTVALUES_H
