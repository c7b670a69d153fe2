// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes what the threads of a launch do.

#ifndef CLEAVE_PASSES_CODEGEN_GPULAUNCHEMITTER_H
#define CLEAVE_PASSES_CODEGEN_GPULAUNCHEMITTER_H

#include "passes/codegen/GpuEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace cleave {

/// Where a thread stands in one of its inner iterations.
struct Round {
  /// Indices of the inner levels, null for zero.
  llvm::SmallVector<mlir::Value, 4> indices;
  /// Whether the iteration is one of the launch's; null where it always is.
  mlir::Value isValid;
  /// Number among a thread's iterations that are written out.
  size_t number = 0;
  /// Elements side by side, from these indices on.
  size_t width = 1;
};

class LaunchEmitter {
public:
  /// `symbol` begins the names of what the module gains; `block` is the block's number among those of the launch (i32).
  LaunchEmitter(mlir::OpBuilder &outside, mlir::LLVM::LLVMFuncOp function, llvm::StringRef symbol,
                const GpuKernelPlan &plan, const GpuLaunch &launch, const Storage &storage, mlir::Value block)
      : module(function->getParentOfType<mlir::ModuleOp>()), symbol(symbol), plan(plan), launch(launch),
        storage(storage), builder(outside), location(builder.getUnknownLoc()), n(builder, launch.isLarge ? 64 : 32),
        function(function), block(block), shared(builder, module, symbol) {}

  void run();

private:
  /// What a Join or Sequence has so far: one a result, of each the groups that the thread computes.
  using Sums = llvm::SmallVector<Elements, 2>;

  mlir::Value constantBuffer(const Buffer &buffer, unsigned index);
  void findBases();
  void findThread();
  void emitSquares();
  void fillSquares(mlir::Value x, mlir::Value y);
  void computeSquares(mlir::Value x, mlir::Value y);
  void forEachInSquare(mlir::Value first, llvm::function_ref<void(mlir::Value)> visit);
  mlir::Value placeInSquare(mlir::Value column, mlir::Value row);
  mlir::Value enterSquare(mlir::Value column, mlir::Value row);
  void emitPhases();
  void emitPhase(unsigned phase);
  void emitWrittenLoop(llvm::ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  void emitLoop(llvm::ArrayRef<unsigned> steps, std::vector<Sums> &sums, int64_t ahead);
  void emitRounds(llvm::ArrayRef<unsigned> steps, std::vector<Sums> &sums, mlir::Value start, mlir::Value end,
                  int64_t ahead);
  void emitSideBySide(llvm::ArrayRef<unsigned> steps, llvm::MutableArrayRef<Round> rounds, std::vector<Sums> &sums);
  void findRaggedUnits();
  void emitRaggedEnds(llvm::ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  Round roundAt(mlir::Value unit) const;
  void finishSums(llvm::ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  void storePartials(const GpuStep &step, const Sums &sums);
  void storeGroupValues();

  void emitStep(const GpuStep &step, const Round *round, Sums *sums);
  void joinPartials(const GpuStep &step, const Round &round, Sums &sums);
  Elements operandElements(const GpuStep &step, unsigned operand, const Round *round);
  Elements loadElements(const Access &access, const Round *round, size_t count);
  void storeElements(const Access &access, const Round *round, mlir::ValueRange elements);
  Sums startOf(const GpuStep &step);
  Elements initOf(const GpuStep &step, unsigned result);
  size_t widthOf(const Round *round) const { return round ? round->width : launch.groupWidth(); }
  bool startsNeutral() const { return launch.lanes > 1 || launch.splits > 1; }
  mlir::Value offsetOf(const Access &access, const Round *round);
  bool isAligned(const Access &access, size_t count) const;
  mlir::Value loopIndex(const GpuStep &step, unsigned loop, const Round *round, size_t element);
  mlir::Value loadAt(mlir::Value tensor, mlir::ValueRange indices);
  mlir::Value both(mlir::Value a, mlir::Value b) {
    return !a ? b : !b ? a : mlir::arith::AndIOp::create(builder, location, a, b).getResult();
  }
  /// Calls `body` where the condition holds; null: always.
  void onlyIf(mlir::Value condition, llvm::function_ref<void()> body);
  const MemoryBuilder memory() { return MemoryBuilder(builder, plan.buffers, bases); }

  mlir::ModuleOp module;
  llvm::StringRef symbol;
  const GpuKernelPlan &plan;
  const GpuLaunch &launch;
  const Storage &storage;
  mlir::OpBuilder &builder;
  mlir::Location location;
  NumberBuilder n;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value block;
  llvm::SmallVector<mlir::Value> bases;
  SharedMemory shared;
  std::optional<LaneJoiner> joiner;

  /// The thread's lane and split, the first of its groups, and whether it has groups at all (null: all have).
  mlir::Value lane, split, firstGroup, isInside;
  /// Of the group's ragged row: the elements before the first multiple of the width (null: none), and whole units.
  mlir::Value raggedStart, raggedUnits;
  llvm::SmallVector<mlir::Value, 4> outerIndices;
  /// Operands in squares: which, where in shared memory, and the thread's element.
  struct Turned {
    Access access;
    mlir::Value base, element;
  };
  llvm::SmallVector<Turned> turned;
  /// Where the block's square begins along the level across and the fast one.
  mlir::Value firstRow, firstColumn;
  /// Values of the thread's groups by their buffers, and those of inner iterations, by their numbers, that are kept.
  llvm::DenseMap<unsigned, Elements> groupValues;
  std::vector<llvm::DenseMap<unsigned, Elements>> innerValues;
  /// Group values that were read from memory, and those that go there at the end.
  llvm::SmallDenseSet<unsigned> loaded;
  llvm::SmallVector<std::pair<Access, Elements>> pendingStores;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULAUNCHEMITTER_H
