// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel as nests of loops over memory: which loops all nests have in common and may be divided among cores, and in
// which order each nest runs the rest. Plain data, decided here and written out in NativeEmission.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVENESTS_H
#define CLEAVE_PASSES_CODEGEN_NATIVENESTS_H

#include "passes/codegen/NativeStorage.h"
#include "passes/codegen/NativeTiles.h"

#include <optional>
#include <vector>

namespace cleave {

/// One operand of a nest: address = offset + sum of loop index * coefficient, in elements of the buffer.
struct Access {
  unsigned buffer = 0;
  int64_t offset = 0;
  /// One a loop of the operation.
  llvm::SmallVector<int64_t, 6> coefficients;
};

/// Transposed memory is walked in squares of this size.
constexpr int64_t tileSize = 32;

/// A loop that is written out: one loop of the operation, or neighbouring ones as one.
struct Level {
  int64_t size = 1;
  /// The loops of the operation, the last varying fastest.
  llvm::SmallVector<unsigned, 2> loops;
  enum Range {
    Whole,   ///< All of it.
    Divided, ///< The part of [begin, end) that the call asks for.
    Tiles,   ///< Every tileSize-th index. A level `InTile` of the same loop lies inside.
    InTile   ///< The indices from where a level `Tiles`, or a common loop, of the same loop stands.
  };
  Range range = Whole;

  /// How far the address moves from one iteration to the next.
  int64_t step(const Access &access) const { return access.coefficients[loops.back()]; }
};

/// The loops of one linalg operation.
struct Nest {
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<int64_t, 6> sizes;
  llvm::SmallVector<bool, 6> reduction;
  /// Loops whose index the body asks for: those cannot be joined with others.
  llvm::SmallVector<bool, 6> indexed;
  /// By loop that became two: the inner one, and its number of iterations.
  llvm::DenseMap<unsigned, std::pair<unsigned, int64_t>> innerLoops;
  /// One an operand of the operation; none for operands without memory (scalars, tensors that nobody writes).
  llvm::SmallVector<std::optional<Access>, 6> accesses;

  /// The common loops around all nests, in the order of NestPlan::common, then that over blocks.
  llvm::SmallVector<Level, 4> outer;
  /// The loops inside them, from the outermost to the innermost; those of one iteration are left out.
  llvm::SmallVector<Level, 6> inner;
  /// What stands in registers inside all of them. Splitting loops for it gave the nest more than the operation has.
  std::optional<RegisterTile> tile;

  bool isEmpty() const { return llvm::is_contained(sizes, 0); }
};

/// All nests of a kernel in order. Each runs for every index of the common loops, one after the other.
struct NestPlan {
  std::vector<Nest> nests;
  /// Sizes of the common loops around all nests; the last varies fastest.
  llvm::SmallVector<int64_t, 4> common;
  /// The number of leading nests that have one more loop in common, which runs around them inside of all those: of
  /// `blocks` iterations, each with a part of what the other nests join.
  size_t nestsInBlocks = 0;
  int64_t blocks = 1;
  /// The common loop, if any, whose steps are tiles of the nest's inner level over the same loop.
  std::optional<unsigned> tiledCommon;
  /// The size of the range that calls may divide: the product of `common`, or the size of the divided inner levels.
  int64_t parallelExtent = 1;
  /// Divided inner levels exist: all nests run over one part of the range after the other.
  bool hasDivided = false;
};

/// The linalg operations of `block` in order, with what each reads and writes; no loops are chosen yet.
std::vector<Nest> findNests(mlir::Block &block, const Storage &storage);

/// Sets what a nest reads and writes, by where its tensors lie now.
void findAccesses(Nest &nest, const Storage &storage);

/// Decides the loops of the operations in `block`. Temporaries of which an iteration of the common loops needs a small
/// part shrink to that part and may lie on the stack: `onStack` has one flag a buffer. `plain`: no common loops,
/// natural order.
NestPlan planNests(mlir::Block &block, Storage &storage, bool plain, const VectorRegisters &registers,
                   llvm::SmallVectorImpl<bool> &onStack);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVENESTS_H
