// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds linalg operations on tensors of static shape: what the lowerings of all operators are made of.

#ifndef CLEAVE_DIALECTS_DFG_LOWERGENERICS_H
#define CLEAVE_DIALECTS_DFG_LOWERGENERICS_H

#include "dialects/dfg/LowerElements.h"
#include "dialects/dfg/TensorType.h"

#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinTypes.h"

namespace cleave::dfg {

/// Builds linalg operations at a builder's insertion point.
class LinalgBuilder {
public:
  /// Computes the results of one iteration: `elements` holds an element of each input, then one of each output.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(const ElementBuilder &e, mlir::ValueRange elements)>;
  /// As Body, for a single result.
  using ElementBody = llvm::function_ref<mlir::Value(const ElementBuilder &e, mlir::ValueRange elements)>;

  LinalgBuilder(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  mlir::OpBuilder &getBuilder() const { return builder; }
  mlir::MLIRContext *getContext() const { return builder.getContext(); }

  /// A tensor whose elements nobody has written.
  mlir::Value empty(llvm::ArrayRef<int64_t> shape, mlir::Type element) const;

  /// A tensor with one value everywhere.
  mlir::Value filled(llvm::ArrayRef<int64_t> shape, mlir::Value scalar) const;

  /// A new tensor, element by element; `maps` leads from its index to those of the inputs.
  mlir::Value map(llvm::ArrayRef<int64_t> shape, mlir::Type element, mlir::ValueRange inputs,
                  llvm::ArrayRef<mlir::AffineMap> maps, ElementBody body) const;

  /// As `map`, into `target`, whose present elements the body sees last.
  mlir::Value update(mlir::Value target, mlir::ValueRange inputs, llvm::ArrayRef<mlir::AffineMap> maps,
                     ElementBody body) const;

  /// Joins into `targets`. `maps` holds one map an input, then one a target, over loops of which those in `reduced`
  /// are reductions.
  llvm::SmallVector<mlir::Value> reduce(mlir::ValueRange targets, mlir::ValueRange inputs,
                                        llvm::ArrayRef<mlir::AffineMap> maps, llvm::ArrayRef<int64_t> reduced,
                                        Body body) const;

  /// As `reduce`, into one target.
  mlir::Value reduceInto(mlir::Value target, mlir::ValueRange inputs, llvm::ArrayRef<mlir::AffineMap> maps,
                         llvm::ArrayRef<int64_t> reduced, ElementBody body) const;

  /// The tensor with elements of another type, by the rules of `dfg.cast`; the same where the type is the same.
  mlir::Value converted(mlir::Value tensor, mlir::Type element) const;

  /// The same elements in row-major order under another shape.
  mlir::Value reshaped(mlir::Value tensor, llvm::ArrayRef<int64_t> shape) const;

  /// Every stride-th element from `offsets` on, as many as `shape` says.
  mlir::Value sliced(mlir::Value tensor, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> shape,
                     llvm::ArrayRef<int64_t> strides) const;

  /// `target` with `source` written at `offsets`.
  mlir::Value inserted(mlir::Value source, mlir::Value target, llvm::ArrayRef<int64_t> offsets) const;

  /// The tensor surrounded by `scalar`; the tensor itself where there is nothing to add.
  mlir::Value padded(mlir::Value tensor, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                     mlir::Value scalar) const;

  mlir::AffineExpr dim(unsigned position) const { return builder.getAffineDimExpr(position); }
  mlir::AffineMap identity(unsigned rank) const { return builder.getMultiDimIdentityMap(rank); }
  /// From `rank` loops to those of them that are not in `dropped`.
  mlir::AffineMap without(unsigned rank, llvm::ArrayRef<int64_t> dropped) const;
  /// From `rank` loops to the index in an operand of `shape` that is broadcast by NumPy's rule to `target`.
  mlir::AffineMap broadcast(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> target) const;
  mlir::AffineMap mapOf(unsigned rank, llvm::ArrayRef<mlir::AffineExpr> results) const {
    return mlir::AffineMap::get(rank, 0, results, getContext());
  }

private:
  llvm::SmallVector<mlir::Value> generic(mlir::ValueRange inputs, mlir::ValueRange targets,
                                         llvm::ArrayRef<mlir::AffineMap> maps,
                                         llvm::ArrayRef<mlir::utils::IteratorType> iterators, Body body) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_LOWERGENERICS_H
