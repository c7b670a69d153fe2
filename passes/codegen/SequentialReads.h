// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices that products read one after the other, as the cells of a recurrent layer do.

#ifndef CLEAVE_PASSES_CODEGEN_SEQUENTIALREADS_H
#define CLEAVE_PASSES_CODEGEN_SEQUENTIALREADS_H

#include "mlir/IR/Value.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave {

class SequentialReads {
public:
  /// Whether `many` operators of the program or more read the operand's value as the operand's owner does (under the
  /// same view of it), each of which needs the result of the one before. To be asked before any of them is replaced,
  /// and with the same number: the answer is kept.
  bool areMany(mlir::OpOperand &operand, unsigned many);

private:
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, bool> known;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_SEQUENTIALREADS_H
