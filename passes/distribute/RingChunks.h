// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of an attention for one chunk of its keys: what a ring's step computes.

#ifndef CLEAVE_PASSES_DISTRIBUTE_RINGCHUNKS_H
#define CLEAVE_PASSES_DISTRIBUTE_RINGCHUNKS_H

#include "passes/distribute/KeyRing.h"

namespace cleave {

/// What devices bring together to make a value: by one gather, or by some of an axis each that nothing else reads.
struct Gathered {
  mlir::Value whole, own;  ///< The value, and what a device has of it.
  dist::LayoutAttr layout; ///< How that lies.
  int64_t dim = 0;         ///< Which dimension is gathered.

  /// The dimension and the axes that cut it.
  dist::Part getPart() const { return dist::Layout::of(layout).dims[static_cast<size_t>(dim)].front(); }
};

/// The gathers along a value's dimension that make it; none where another operator does, or others join it.
std::optional<Gathered> findGathered(mlir::Value value, int64_t dim);

/// Makes chunks of an attention's values. Operators of the attention, and what is made of positions alone, are repeated
/// for the chunk as their split rules say; what was gathered comes around; all else is sliced.
class RingChunks {
public:
  /// `replaced`: values of the attention that do not follow from its operators but are given, for the whole of the keys
  /// or, where they have keys, for the present chunk.
  using Replaced = llvm::DenseMap<mlir::Value, mlir::Value>;

  RingChunks(KeyRing &ring, mlir::OpBuilder &builder);

  /// Whether a value has chunks along a dimension whose elements are keys.
  bool canChunk(mlir::Value value, int64_t dim);

  /// Goes on to the next chunk. The one after it of all that is `gathered` is on its way.
  void begin(int64_t step, llvm::ArrayRef<Gathered> gathered);
  /// The present chunk of a value along the dimension.
  mlir::Value chunk(mlir::Value value, int64_t dim);
  /// What an operator gives of the present chunk: a part of its result where that has keys, else a term of it.
  mlir::Value apply(mlir::Operation *op, unsigned keysFactor);

  Replaced replaced;

  /// The factor of an operand's dimension, or of the first result's, that is all of it, is as large as there are keys
  /// and can be cut.
  std::optional<unsigned> factorAt(const SplitRule &rule, const TensorFactors &factors, int64_t dim) const;
  /// The layout of a part of the keys in that dimension, which is `step` chunks further on than the device's own.
  dist::LayoutAttr layoutAt(dist::LayoutAttr layout, int64_t dim, int64_t step) const;

private:
  mlir::Value known(mlir::Value value) const;
  bool isRepeated(mlir::Operation *op);
  bool isComputed(mlir::Operation *op, unsigned &count) const;
  bool canApply(mlir::Operation *op, unsigned factor);
  mlir::Value slice(mlir::Value value, int64_t dim);
  mlir::Value start();
  bool isGathered(mlir::Value value, int64_t dim) const;

  KeyRing &ring;
  mlir::OpBuilder &builder;
  llvm::DenseSet<mlir::Operation *> own;
  int64_t step = 0;
  /// Of this step, and the start of its chunk.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> made;
  mlir::Value startOfChunk;
  /// What has come of values that were gathered, and what comes next.
  llvm::DenseMap<mlir::Value, mlir::Value> here, next;
};

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_RINGCHUNKS_H
