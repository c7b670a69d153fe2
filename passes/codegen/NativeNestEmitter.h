// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the loops of one nest and its body.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVENESTEMITTER_H
#define CLEAVE_PASSES_CODEGEN_NATIVENESTEMITTER_H

#include "passes/codegen/NativeNests.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"

namespace cleave {

/// The type with which elements lie in memory: i8 for i1.
mlir::Type memoryType(mlir::Type element);

class NestEmitter {
public:
  /// `bases` holds a pointer a buffer, null for splat constants; `begin` and `end` (index) are the range of divided
  /// levels.
  NestEmitter(mlir::OpBuilder &builder, const NestPlan &plan, const Storage &storage, llvm::ArrayRef<mlir::Value> bases,
              mlir::Value begin, mlir::Value end, bool reassociate)
      : builder(builder), plan(plan), storage(storage), bases(bases), begin(begin), end(end), reassociate(reassociate) {
  }

  /// Writes a nest of the plan at the builder's insertion point; `indices` holds an index a common loop, of the one in
  /// squares a number of a square.
  void emit(const Nest &nest, llvm::ArrayRef<mlir::Value> indices);

private:
  /// Addresses of all accesses so far, in elements; null for zero.
  using Offsets = llvm::SmallVector<mlir::Value, 6>;

  void emitLevel(const Nest &nest, unsigned level, const Offsets &offsets, llvm::SmallVectorImpl<mlir::Value> &carried);
  void emitBody(const Nest &nest, const Offsets &offsets, llvm::SmallVectorImpl<mlir::Value> &carried, bool isCarried);
  /// What a tile sums up, before and after the loops along which the result stays.
  llvm::SmallVector<mlir::Value> loadSums(const Nest &nest, const Offsets &offsets);
  void storeSums(const Nest &nest, const Offsets &offsets, llvm::ArrayRef<mlir::Value> sums);
  void emitTile(const Nest &nest, const Offsets &offsets, llvm::SmallVectorImpl<mlir::Value> &sums);
  mlir::Value loadVector(const Access &access, mlir::Value offset, int64_t width);
  mlir::Value loadForAll(const Access &access, mlir::Value offset, int64_t width);
  llvm::SmallVector<mlir::Value> cloneBody(const Nest &nest, mlir::IRMapping &mapping);
  mlir::Value indexOf(const Nest &nest, unsigned loop);
  mlir::Value loadElement(mlir::Value tensor, mlir::ValueRange indices);
  Offsets advanced(const Nest &nest, const Level &level, mlir::Value index, const Offsets &offsets);

  /// Where a level starts and ends.
  std::pair<mlir::Value, mlir::Value> bounds(const Level &level);
  mlir::Value index(int64_t value);
  mlir::Value sum(mlir::Value a, mlir::Value b);
  mlir::Value scaled(mlir::Value value, int64_t factor);
  mlir::Value address(unsigned buffer, mlir::Value offset);
  mlir::Value load(unsigned buffer, mlir::Value offset);
  void store(unsigned buffer, mlir::Value offset, mlir::Value element);
  /// The constant of a splat buffer.
  mlir::Value splat(const Buffer &buffer);
  unsigned carriedFrom(const Nest &nest) const;

  mlir::OpBuilder &builder;
  const NestPlan &plan;
  const Storage &storage;
  llvm::ArrayRef<mlir::Value> bases;
  mlir::Value begin, end;
  bool reassociate;
  /// Of the nest that is being written: the index of each loop, the starts of squares by their level's last loop, and
  /// the location.
  llvm::SmallVector<mlir::Value, 6> loopIndices;
  llvm::DenseMap<unsigned, mlir::Value> squareStarts;
  mlir::Location location = mlir::UnknownLoc::get(builder.getContext());
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVENESTEMITTER_H
