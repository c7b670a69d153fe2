// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a walk over a program has replaced by launches, and how the values lie in memory now.
//
//   value       in the IR                      kept beside it
//   %0          result of the old operator     current(%0): the launch's result, in the layout that the library chose
//                                              denseOf(%0): its row-major copy, made when first needed

#ifndef CLEAVE_PASSES_CODEGEN_REPLACEDVALUES_H
#define CLEAVE_PASSES_CODEGEN_REPLACEDVALUES_H

#include "passes/codegen/LibraryKernels.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

class ReplacedValues {
public:
  /// Reorders are kernels of `kernels` for `device`.
  ReplacedValues(LibraryKernels &kernels, KernelDevice device) : kernels(kernels), device(device) {}

  /// The value as it lies in memory now.
  mlir::Value current(mlir::Value value) const { return laidOut.lookup_or(value, value); }
  /// Whether the value lies otherwise than row-major.
  bool isLaidOut(mlir::Value value) const { return laidOut.contains(value); }
  /// Its row-major copy.
  mlir::Value denseOf(mlir::OpBuilder &builder, mlir::Value value);
  /// The value's bytes in the layout of `wanted`.
  mlir::Value inLayout(mlir::OpBuilder &builder, mlir::Value value, mlir::RankedTensorType wanted);
  /// What the library kernel `packing` makes of the value, row-major: a value of type `wanted`.
  mlir::Value packed(mlir::OpBuilder &builder, mlir::Value value, mlir::FlatSymbolRefAttr packing,
                     mlir::RankedTensorType wanted);
  /// A launch that brings `from` into the layout of `wanted`.
  mlir::Value reorder(mlir::OpBuilder &builder, mlir::Value from, mlir::RankedTensorType wanted);
  /// The value with its dimensions in their own order, by a transpose of the bytes as they lie, or as it was before it
  /// was laid so where its only reader joins what makes it. Sums of products go through memory in the order in which
  /// their results lie: they join readers whose results lie so, too, in `readerOrder`.
  mlir::Value seenRowMajor(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> order,
                           const std::optional<llvm::SmallVector<int64_t>> &readerOrder);

  /// The layout of another operand, of the value's shape, of an elementwise operator that reads the value; null for
  /// none.
  plan::LayoutAttr layoutOfCompany(mlir::Value value) const;

  /// From now on the value is `laid`, of the same elements in a layout.
  void setCurrent(mlir::Value value, mlir::Value laid) { laidOut[value] = laid; }
  /// Lets the operator's result lie in that order of its dimensions, in which `made` is brought.
  void lay(mlir::Operation *op, mlir::Value made, llvm::ArrayRef<int64_t> order);
  /// Says that something else computes what the operator does.
  void replace(mlir::Operation *op) { replaced.insert(op); }
  bool isReplaced(mlir::Operation *op) const { return replaced.contains(op); }
  /// Removes the operators of a program that something has replaced, and what was made for nobody.
  void erase(mlir::Block &program);

private:
  plan::LayoutAttr expectedLayout(mlir::Value value, llvm::ArrayRef<int64_t> shape) const;

  LibraryKernels &kernels;
  KernelDevice device;
  llvm::DenseMap<mlir::Value, mlir::Value> laidOut;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> reordered;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> packedBy;
  llvm::DenseSet<mlir::Operation *> replaced;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_REPLACEDVALUES_H
