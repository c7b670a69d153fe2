// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowering pass in C++.

#ifndef CLEAVE_PASSES_CODEGEN_PASSES_H
#define CLEAVE_PASSES_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/codegen/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_PASSES_H
