// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a kernel library computes an operator: which routine, with which arguments, and what may be fused behind it.

#ifndef CLEAVE_DIALECTS_INTERFACES_LIBRARYCALL_H
#define CLEAVE_DIALECTS_INTERFACES_LIBRARYCALL_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace cleave {

/// Who decides how an argument lies in memory.
enum class LayoutChoice {
  Any,   ///< The library: the argument is reordered for it.
  Given, ///< Whoever made the argument: the library takes it as it is.
  Dense  ///< Row-major.
};

/// A routine of the library (runtime/LibraryKernelDesc.h lists them) and how an operator maps to it.
struct LibraryCall {
  std::string routine;
  /// Integer lists (array<i64>) and real numbers (f64) by the routine's names.
  mlir::DictionaryAttr parameters;
  /// A choice for every operand of the operator, in order.
  llvm::SmallVector<LayoutChoice, 3> operands;
  /// Null, or the type under which the library sees an operand's bytes (a transposed matrix, grouped weights).
  llvm::SmallVector<mlir::RankedTensorType, 3> views;
  LayoutChoice result = LayoutChoice::Any;
  /// One value a channel may be added by the routine itself, along this dimension of the result; -1: it may not.
  int64_t biasDim = -1;
  /// Elementwise operators may be fused behind it.
  bool takesEpilogues = false;
  /// Worth it only where the first operand is not row-major: on row-major data Cleave's own kernels fuse more.
  bool onlyOnBlocked = false;
};

/// An elementwise operator fused behind a library routine: its kind as the library names it, and the index of the
/// operand that is not the routine's result, or -1. A conversion has no kind: it says what type the routine writes.
struct LibraryEpilogue {
  std::string kind;
  double alpha = 0, beta = 0;
  int otherOperand = -1;
  /// The routine can do it as a bias alone, which it adds to its sums.
  bool onlyAsBias = false;
};

} // namespace cleave

#endif // CLEAVE_DIALECTS_INTERFACES_LIBRARYCALL_H
