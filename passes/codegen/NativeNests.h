// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel as nests of loops over memory: which loops all nests have in common and may be divided among cores, and in
// which order each nest runs the rest. Plain data, decided here and written out in NativeEmission.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVENESTS_H
#define CLEAVE_PASSES_CODEGEN_NATIVENESTS_H

#include "passes/codegen/NativeStorage.h"
#include "passes/codegen/NativeTiles.h"

#include "dialects/dfg/ScoreMasks.h"
#include "dialects/plan/Plan.h"

#include <optional>
#include <vector>

namespace cleave {

/// One operand of a nest: address = offset + sum of loop index * coefficient, in elements of the buffer.
struct Access {
  unsigned buffer = 0;
  int64_t offset = 0;
  /// One a loop of the operation.
  llvm::SmallVector<int64_t, 6> coefficients;

  bool operator==(const Access &) const = default;
};

/// Transposed memory is walked in squares of this size.
constexpr int64_t squareSize = 32;

/// A loop that is written out: one loop of the operation, or neighbouring ones as one.
struct Level {
  int64_t size = 1;
  /// The loops of the operation, the last varying fastest.
  llvm::SmallVector<unsigned, 2> loops;
  plan::LoopRange range = plan::LoopRange::Whole;

  /// How far the address moves from one iteration to the next.
  int64_t step(const Access &access) const { return access.coefficients[loops.back()]; }
};

/// A loop of a nest that becomes two: it keeps its number, and an inner one of `unit` iterations gets the next number.
struct LoopSplit {
  unsigned loop;
  int64_t unit;
  /// The outer one is a common loop.
  bool isCommon;
};

/// The loops of one linalg operation.
struct Nest {
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<int64_t, 6> sizes;
  llvm::SmallVector<bool, 6> reduction;
  /// Loops whose index the body asks for: those cannot be joined with others.
  llvm::SmallVector<bool, 6> indexed;
  /// In order; the loops that they make are the last ones.
  llvm::SmallVector<LoopSplit, 4> splits;
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

/// Which blocks of columns the rows of a kernel need: an iteration of common loop `level` has `unit` rows.
struct NestBand {
  unsigned level;
  int64_t unit, columns;
  dfg::ScoreBand band;
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
  /// Blocks outside of it are passed over.
  std::optional<NestBand> band;
  /// The common loop, if any, that goes from one square to the next: the nest has an inner level of the same loop.
  std::optional<unsigned> squaredCommon;
  /// The size of squares.
  int64_t square = squareSize;
  /// The size of the range that calls may divide: the product of `common`, or the size of the divided inner levels.
  int64_t parallelExtent = 1;
  /// Divided inner levels exist.
  bool hasDivided = false;
  /// Indices of the divided range that all nests run over before they go on; 0: each nest runs over all of its part.
  int64_t chunk = 0;
};

/// Whether only the nests in blocks write and read a buffer, each what one block needs.
bool isInBlocks(const NestPlan &plan, unsigned buffer);

/// Whether what other nests read of those in blocks begins with a fill, so that a block that is passed over gives what
/// sums and largest elements of nothing are.
bool beginsWithFills(const NestPlan &plan);

/// The linalg operations of `block` in order, with what each reads and writes; no loops are chosen yet.
std::vector<Nest> findNests(mlir::Block &block, const Storage &storage);

/// Sets what a nest reads and writes, by where its tensors lie now.
void findAccesses(Nest &nest, const Storage &storage);

/// Makes two of a loop, whose iterations the unit divides.
void splitLoop(Nest &nest, const Storage &storage, const LoopSplit &split);

/// Decides the loops of the operations in `block`. Temporaries of which an iteration of the common loops needs a small
/// part shrink to that part and may lie on the stack. `plain`: no common loops, natural order. `band`: of the kernel,
/// may be null.
NestPlan planNests(mlir::Block &block, Storage &storage, bool plain, const VectorRegisters &registers,
                   dfg::BandAttr band);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVENESTS_H
