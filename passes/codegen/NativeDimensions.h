// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which loops of a kernel's operations run over the same index: the dimensions of the tensors between the operations
// tie them together.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVEDIMENSIONS_H
#define CLEAVE_PASSES_CODEGEN_NATIVEDIMENSIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <limits>

namespace cleave {

/// A dimension that all operations of a kernel share: each has exactly one parallel loop for it, and at every index of
/// it reads of the tensors between them only what was computed at that index.
struct CommonDimension {
  /// The loop of each operation, in the order of the operations.
  llvm::SmallVector<unsigned, 8> loops;
  int64_t size;
};

/// Finds the common dimensions of all linalg operations of a block, or of the first ones, in the order of the loops of
/// the last one.
class SharedDimensions {
public:
  explicit SharedDimensions(mlir::Block &block, size_t count = std::numeric_limits<size_t>::max());

  llvm::ArrayRef<CommonDimension> getCommon() const { return common; }
  /// The dimension of a tensor between operations that belongs to a common dimension.
  std::optional<unsigned> dimensionOf(mlir::Value tensor, unsigned commonIndex) const;

private:
  using Node = unsigned;

  void number(mlir::Block &block, size_t count);
  void connect(mlir::Operation &op);
  void connectSlice(mlir::Value slice, mlir::Value whole);
  void connectOperands(mlir::linalg::LinalgOp op);
  bool isTracked(mlir::Value tensor) const { return tensorNodes.count(tensor); }
  Node node(mlir::Value tensor, unsigned dim) const { return tensorNodes.lookup(tensor) + dim; }
  std::optional<CommonDimension> commonAt(Node loop) const;

  llvm::SmallVector<mlir::linalg::LinalgOp> ops;
  llvm::DenseMap<mlir::Operation *, Node> loopNodes;
  llvm::DenseMap<mlir::Value, Node> tensorNodes;
  llvm::SmallVector<mlir::Value> tensors;
  llvm::EquivalenceClasses<Node> classes;
  llvm::DenseSet<Node> poisoned;
  llvm::SmallVector<CommonDimension> common;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVEDIMENSIONS_H
