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
  /// The length of the longest sequence of operators of the program that read the operand's value as the operand's
  /// owner does (under the same view for the same routine), each of which needs the result of the one before. Of
  /// `enough` or more it may be any number from there. To be asked before any of them is replaced: the answer is kept.
  unsigned lengthAt(mlir::OpOperand &operand, unsigned enough);

private:
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, unsigned> known;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_SEQUENTIALREADS_H
