// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel as launches on a GPU: which operations share a launch, and what each of its threads does. Plain data,
// decided here and written out in GpuEmission.
//
// A launch has outer dimensions, whose iterations are independent of each other ("groups"), and inner ones, along which
// values are joined:
//
//   softmax of rows     outer: rows                inner: columns
//   sum of columns      outer: columns             inner: rows
//   elementwise         outer: everything          inner: none
//
// A group has `lanes` threads, which divide its inner iterations among them. Every value of a group (a maximum, a mean)
// is known to all its lanes; every value of an inner iteration is computed by one lane and stays with it.

#ifndef CLEAVE_PASSES_CODEGEN_GPULAUNCHES_H
#define CLEAVE_PASSES_CODEGEN_GPULAUNCHES_H

#include "passes/codegen/NativeNests.h"

#include <optional>
#include <vector>

namespace cleave {

/// A loop of a launch: one dimension, or neighbouring ones as one.
struct GpuLevel {
  int64_t size = 1;
  /// Numbers of dimensions, the last varying fastest.
  llvm::SmallVector<unsigned, 2> dims;

  /// How far an address moves from one iteration to the next.
  int64_t step(const Access &access) const { return access.coefficients[dims.back()]; }
};

/// A linalg operation in a launch.
struct GpuStep {
  enum Kind {
    Once,    ///< For each group: it has the outer dimensions only.
    Map,     ///< For each inner iteration.
    Join,    ///< Joins all inner iterations, in any order.
    Sequence ///< Goes through the inner iterations in order.
  };
  mlir::linalg::LinalgOp op;
  Kind kind = Once;
  /// The dimension of each loop of the operation; none for loops of one iteration.
  llvm::SmallVector<std::optional<unsigned>, 6> dims;
  /// One an operand of the operation, with a coefficient a dimension of the launch; none as in Nest.
  llvm::SmallVector<std::optional<Access>, 6> accesses;
  /// One a result: the value that it is joined into, where that is the same everywhere; else null.
  llvm::SmallVector<mlir::TypedAttr, 2> starts;
  /// One a result: whether it goes to memory.
  llvm::SmallVector<bool, 2> stored;
  /// What the step needs is known after the loops of all phases before its own.
  unsigned phase = 0;
  /// An earlier phase has computed the same: once more is cheaper than to bring the values through memory.
  bool isRepeated = false;
  /// Join: one a result. The launch ends with partial results, which lie there; or, with `joinsPartials`, reads them.
  llvm::SmallVector<Access, 2> partials;
  bool joinsPartials = false;

  bool isInner() const { return kind != Once; }
  /// Whether the step needs the elements of an operand.
  bool readsMemory(mlir::OpOperand &operand) const;
  /// The operation of the body that joins an iteration with the result so far; null where there is none.
  mlir::Operation *joinOf(unsigned result) const;
};

struct GpuLaunch {
  /// Multiprocessors that are to be kept busy.
  int64_t processors = 1;
  /// Sizes of the dimensions.
  llvm::SmallVector<int64_t, 6> sizes;
  std::vector<GpuStep> steps;
  /// The last varies fastest.
  llvm::SmallVector<GpuLevel, 4> outer, inner;
  int64_t outerSize = 1, innerSize = 1;

  /// Neighbouring threads are neighbours along the last inner level; else along the last outer one.
  bool innerFast = false;
  /// Elements side by side along that level that a thread takes at once; divides the level, unless that is ragged.
  int64_t width = 1;
  /// The inner iterations are rows that begin anywhere between multiples of the width, as this access does: what lies
  /// before the first multiple and behind the last one is taken one by one.
  std::optional<Access> ragged;
  /// Threads of a group, and groups side by side in a block.
  int64_t lanes = 1, groups = 1;
  /// Blocks among which the inner iterations of a group are divided.
  int64_t splits = 1;
  /// An outer level along which operands lie that neighbouring threads would read far apart: blocks compute squares of
  /// it and of the fast level, and bring those operands through shared memory.
  std::optional<unsigned> across;
  /// Each thread's inner iterations are written out, so that their values stay in registers from phase to phase.
  bool unrolled = false;
  /// Numbers beyond 32 bits occur.
  bool isLarge = false;

  int64_t blocks = 1, threads = 1;
  /// It may run at the same time as the launch before it.
  bool isBeside = false;

  const GpuLevel *fastLevel() const {
    const auto &levels = innerFast ? inner : outer;
    return levels.empty() ? nullptr : &levels.back();
  }
  /// Units of `width` elements, of which a thread computes one after the other; of ragged rows the most there may be.
  int64_t innerUnits() const { return innerFast ? innerSize / width : innerSize; }
  int64_t outerUnits() const { return innerFast ? outerSize : outerSize / width; }
  int64_t unitsPerSplit() const { return (innerUnits() + splits - 1) / splits; }
  /// Units that a thread computes at most.
  int64_t rounds() const { return (unitsPerSplit() + lanes - 1) / lanes; }
  /// What a thread computes at once of values of a group.
  int64_t groupWidth() const { return innerFast ? 1 : width; }
  /// Whether an operand is one that squares are made for.
  bool isTurned(const Access &access) const {
    return across && outer[*across].step(access) == 1 && std::abs(outer.back().step(access)) >= turnedDistance;
  }
  static constexpr int64_t turnedDistance = 16;
};

/// All launches of a kernel in order.
struct GpuKernelPlan {
  std::vector<GpuLaunch> launches;
  /// Those of the storage, and memory for partial results.
  std::vector<Buffer> buffers;
  /// Where temporaries lie in the scratch memory; none for those that never get there.
  std::vector<std::optional<uint64_t>> scratchOffsets;
  uint64_t scratchBytes = 0;
};

/// Threads on a multiprocessor that keep the memory busy.
inline constexpr int64_t threadsForMemory = 256;

/// Decides the launches of the operations in `block` on a GPU of that many multiprocessors. `plain`: one launch an
/// operation, one thread an iteration of its parallel loops.
GpuKernelPlan planLaunches(mlir::Block &block, const Storage &storage, int64_t processors, bool plain);

/// Whether all accesses of `steps` move along `outer` as if it continued `inner`, so that both can be one level.
bool canJoin(llvm::ArrayRef<GpuStep> steps, const GpuLevel &outer, const GpuLevel &inner);

/// The dimension's index is asked for by a body.
bool isIndexed(llvm::ArrayRef<GpuStep> steps, unsigned dim);

/// Decides levels, threads and blocks of a launch whose steps and processors are known; `isInner` has one flag a
/// dimension.
void chooseMapping(GpuLaunch &launch, llvm::ArrayRef<bool> isInner, llvm::ArrayRef<Buffer> buffers, bool plain);

/// Lets later phases of a launch compute again what is cheap, where threads cannot keep it from phase to phase.
void repeatCheapSteps(GpuLaunch &launch, llvm::ArrayRef<Buffer> buffers);

/// Lets launches that follow each other run at the same time where none needs another, as the parts of a concatenation.
void putSideBySide(GpuKernelPlan &plan, const Storage &storage);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULAUNCHES_H
