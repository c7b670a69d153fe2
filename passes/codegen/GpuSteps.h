// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds out which nests may be steps of one launch.

#ifndef CLEAVE_PASSES_CODEGEN_GPUSTEPS_H
#define CLEAVE_PASSES_CODEGEN_GPUSTEPS_H

#include "passes/codegen/GpuLaunches.h"

namespace cleave {

/// The value that a tensor has everywhere; null where nobody knows one.
mlir::TypedAttr splatOf(mlir::Value tensor);

/// What the results of a nest begin with, as GpuStep::starts.
llvm::SmallVector<mlir::TypedAttr, 2> startsOf(const Nest &nest, bool readsFill);

/// Whether a nest is nothing but a fill whose value all nests that read it begin with.
bool isOnlyStart(const Nest &nest, llvm::ArrayRef<Nest> all, bool readsFill);

/// What a step of the nest is, with or without inner dimensions.
GpuStep::Kind kindOf(const Nest &nest, bool hasInner);

/// Buffers that the body of an operation reads at indices of its own.
llvm::SmallVector<unsigned> extractedBuffers(mlir::linalg::LinalgOp op, const Storage &storage);

/// Where a step writes a buffer; null where it does not.
const Access *writeAccess(const GpuStep &step, unsigned buffer);

/// The first phase in which a step may run that comes after another one in its launch; none where neither writes what
/// the other reads or writes.
std::optional<unsigned> firstPhaseAfter(const GpuStep &earlier, const GpuStep &step);

/// Steps that may share a launch, and their dimensions.
class StepGroup {
public:
  /// For a GPU of that many multiprocessors.
  StepGroup(const Storage &storage, llvm::ArrayRef<Buffer> buffers, int64_t processors, bool plain)
      : storage(storage), buffers(buffers), plain(plain) {
    launch.processors = processors;
  }

  bool isEmpty() const { return launch.steps.empty(); }
  /// Adds a nest; false, and no change, where it must not share the launch. `keepsRegisters`: nor where values that
  /// stay in registers from phase to phase would have to leave them.
  bool add(const Nest &nest, bool keepsRegisters = false);
  /// The launch of all steps.
  GpuLaunch finish() const { return launch; }
  llvm::SmallVector<bool> getInner() const { return isInner; }

private:
  bool tryAdd(const Nest &nest);
  bool linkLoops(const Nest &nest, GpuStep &step);
  void placeLoops(const Nest &nest, GpuStep &step);
  double distance(const Nest &nest, unsigned loop, unsigned dim) const;
  bool classify();
  bool writesSafely(const GpuStep &step) const;
  bool choosePhases();
  std::optional<unsigned> lastWriter(unsigned buffer, unsigned before) const;

  const Storage &storage;
  llvm::ArrayRef<Buffer> buffers;
  bool plain;
  GpuLaunch launch;
  llvm::SmallVector<bool> isInner;
  /// Of each step: whether each of its dimensions is one of a reduction.
  std::vector<llvm::SmallVector<bool, 6>> reductions;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUSTEPS_H
