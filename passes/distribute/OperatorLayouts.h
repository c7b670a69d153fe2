// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From an operator's split to the layouts of its operands and results, and back.

#ifndef CLEAVE_PASSES_DISTRIBUTE_OPERATORLAYOUTS_H
#define CLEAVE_PASSES_DISTRIBUTE_OPERATORLAYOUTS_H

#include "dialects/dist/Layout.h"
#include "dialects/interfaces/Interfaces.h"

namespace cleave {

/// What follows from an operator's split on a mesh.
struct OperatorLayouts {
  SplitRule rule;
  /// By factor: the axes that cut it, into how many parts, and the size of a part.
  llvm::SmallVector<dist::Axes> axes;
  llvm::SmallVector<int64_t> ways, sizes;
  /// Canonical. An operand of a window operator has parts with a reach.
  std::vector<dist::Layout> operands, results;

  bool isCut() const {
    return llvm::any_of(ways, [](int64_t count) { return count > 1; });
  }
};

/// The layouts that the operator's `dist.place` asks for. Operators without SplitInterface are whole. Fails, with a
/// diagnostic on the operator, where the split names a factor or axis that is not there, a factor that cannot be cut,
/// or an axis twice.
llvm::FailureOr<OperatorLayouts> findLayouts(mlir::Operation *op, const dist::MeshShape &mesh);

/// The split that leaves operands where they are, as far as the rule allows: `operands` holds a layout, or null, for
/// each operand. Where they disagree the first counts. Partial axes cut nothing.
dist::SplitAttr followOperands(mlir::Operation *op, llvm::ArrayRef<const dist::Layout *> operands,
                               const dist::MeshShape &mesh);

/// The same, where also the layouts of results are known or wanted: they count after those of the operands.
dist::SplitAttr followLayouts(mlir::Operation *op, llvm::ArrayRef<const dist::Layout *> operands,
                              llvm::ArrayRef<const dist::Layout *> results, const dist::MeshShape &mesh);

/// The layout with the axes over which a value is replicated cutting a dimension, as far as one divides: the first
/// whose blocks come out even, or, with `mayPad` and where there is none, the longest.
dist::Layout shareReplicas(dist::Layout layout, const dist::MeshShape &mesh, bool mayPad = false);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_OPERATORLAYOUTS_H
