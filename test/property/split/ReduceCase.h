// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a failing case small.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_REDUCECASE_H
#define CLEAVE_TEST_PROPERTY_SPLIT_REDUCECASE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave::test {

/// Takes away outputs, operators and splits, one by one, as long as `fails` holds, until nothing more can go. Source:
/// Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002 (one at a time, not by halves).
mlir::OwningOpRef<mlir::ModuleOp> reduceCase(mlir::ModuleOp module, llvm::function_ref<bool(mlir::ModuleOp)> fails);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_REDUCECASE_H
