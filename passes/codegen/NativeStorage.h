// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the tensors of a kernel lie in memory: in an argument, a constant, or memory of the kernel's own.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVESTORAGE_H
#define CLEAVE_PASSES_CODEGEN_NATIVESTORAGE_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace cleave {

/// A piece of memory.
struct Buffer {
  enum Kind { Input, Output, Constant, Temporary };
  Kind kind;
  mlir::Type element;
  /// Number of elements.
  int64_t size;
  /// Input, Output: which.
  unsigned index = 0;
  /// Constant: its elements.
  mlir::DenseElementsAttr value;
  /// Temporary: the only tensors in it have this one shape and lie in it densely.
  bool plain = true;
  /// Input, Output: another argument of the other kind may lie in the same memory.
  bool isShared = false;
  /// Temporary: where not empty, it lies on the stack and holds what one iteration of a kernel's common loops needs, so
  /// many elements along each dimension of its tensors; 0: it does not move along that one.
  llvm::SmallVector<int64_t, 4> extents = {};

  bool isOnStack() const { return !extents.empty(); }
};

/// A tensor as a part of a buffer: element (i0, i1, ...) lies at offset + sum of i * stride, in elements.
struct View {
  unsigned buffer;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> strides;
};

/// The strides of a dense row-major tensor.
llvm::SmallVector<int64_t, 4> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Bytes of an element in memory; i1 takes one.
int64_t elementBytes(mlir::Type element);

/// The memory of the tensors in a block of linalg operations that ends with a terminator whose operands are the
/// kernel's results. Results are written where they are wanted: into outputs, into the slices that they are inserted
/// into, and over the tensors that they update.
class Storage {
public:
  /// Inserts copies into `block` where a tensor cannot lie where it is wanted, then assigns memory to all tensors.
  explicit Storage(mlir::Block &block);

  llvm::ArrayRef<Buffer> getBuffers() const { return buffers; }
  /// Where a tensor lies; null for one that nobody reads.
  const View *find(mlir::Value tensor) const;
  /// The tensor's buffer; null as above.
  const Buffer *findBuffer(mlir::Value tensor) const;

  /// Lets a plain temporary lie on the stack (Buffer::extents).
  void putOnStack(unsigned buffer, llvm::ArrayRef<int64_t> extents);

private:
  void assign(mlir::Value tensor, View view);
  void assignOperands(mlir::Operation &op);
  void derive(mlir::Operation &op);

  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, View> views;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVESTORAGE_H
