// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel as launches on a GPU: which operations share a launch, and what each of its threads does. Decided here,
// shown in the IR by GpuLaunchAttributes, and written out in GpuEmission.
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
  /// Results begin with what fills have written to memory, and not with the values themselves.
  bool readsFill = false;
  /// One a result: whether it goes to memory.
  llvm::SmallVector<bool, 2> stored;
  /// What the step needs is known after the loops of all phases before its own.
  unsigned phase = 0;
  /// Operands that come through squares of shared memory.
  llvm::SmallVector<unsigned, 2> staged;
  /// An earlier phase has computed the same: once more is cheaper than to bring the values through memory.
  bool isRepeated = false;
  /// Join: one a result. The launch ends with partial results, which lie there; or, with `joinsPartials`, reads them.
  llvm::SmallVector<Access, 2> partials;
  bool joinsPartials = false;

  bool isInner() const { return kind != Once; }
  bool leavesPartials() const { return !partials.empty() && !joinsPartials; }
  /// Whether the step needs the elements of an operand.
  bool readsMemory(mlir::OpOperand &operand) const;
  /// The operation of the body that joins an iteration with the result so far; null where there is none.
  mlir::Operation *joinOf(unsigned result) const;
};

/// Blocks compute squares, of an outer level along which operands lie that neighbouring threads would read far apart,
/// and of the last one, and bring those operands through shared memory.
struct GpuSquares {
  unsigned across;
  int64_t side;
  /// Elements behind each row in shared memory.
  int64_t padding;

  /// Elements in shared memory.
  int64_t places() const { return side * (side + padding); }
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
  /// The launch joins what those of the launch before it have left in memory: its inner level are the splits.
  bool combines = false;
  std::optional<GpuSquares> squares;
  /// Each thread's inner iterations are written out, so that their values stay in registers from phase to phase.
  bool unrolled = false;
  /// One a phase, or none: units whose loads a thread has under way at once, where its iterations are a loop.
  llvm::SmallVector<int64_t, 4> ahead;
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
  unsigned lastPhase() const;
  int64_t aheadOf(unsigned phase) const { return ahead.empty() ? 1 : ahead[phase]; }
  /// Blocks that compute all groups, with all splits.
  int64_t blocksNeeded() const;
  bool hasKind(GpuStep::Kind kind) const {
    return llvm::any_of(steps, [&](const GpuStep &step) { return step.kind == kind; });
  }
};

/// All launches of a kernel in order.
struct GpuKernelPlan {
  std::vector<GpuLaunch> launches;
  /// Those of the storage, and memory for partial results.
  std::vector<Buffer> buffers;
  /// Where temporaries lie in the scratch memory; none for those that never get there.
  std::vector<std::optional<uint64_t>> scratchOffsets;
  uint64_t scratchBytes = 0;

  /// Whether elements of a buffer are read from memory: it is no value that is the same everywhere, and gets a place.
  bool isInMemory(unsigned buffer) const;
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

/// Whether a launch may run beside others that follow each other.
bool mayRunBeside(llvm::ArrayRef<GpuLaunch> others, const GpuLaunch &launch, const Storage &storage);

/// Whether an operand is one that the launch's squares are made for: neighbouring threads would read it far apart, and
/// it lies along the level across.
bool isTurned(const GpuLaunch &launch, const Access &access);

/// Decides which operands come through shared memory, and how many loads are under way at once. Expects memory to have
/// been assigned.
void chooseLoads(GpuKernelPlan &plan);

/// Decides which results go to memory: those that are needed where nothing else has them.
void chooseStores(GpuKernelPlan &plan, const Storage &storage);

/// Whether it is another launch that stores what a step computes: the one that joins partial results.
bool isStoredElsewhere(const GpuLaunch &launch, const GpuStep &step);

/// Assigns scratch memory to all that goes to memory of the kernel's own. Temporaries that no launch needs at the same
/// time may lie in the same place.
void placeTemporaries(GpuKernelPlan &plan, const Storage &storage);

/// Whether an address or a number of an iteration needs more than 32 bits.
bool needsWideNumbers(const GpuLaunch &launch);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULAUNCHES_H
