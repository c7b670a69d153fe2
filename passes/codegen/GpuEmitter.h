// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the parts of a launch's function are written with: numbers, memory, and sums over threads.

#ifndef CLEAVE_PASSES_CODEGEN_GPUEMITTER_H
#define CLEAVE_PASSES_CODEGEN_GPUEMITTER_H

#include "passes/codegen/GpuLaunches.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// The address space of global memory.
inline constexpr unsigned globalSpace = 1;

/// Elements side by side.
using Elements = llvm::SmallVector<mlir::Value, 8>;

/// Writes whole numbers of one width; a null value is zero.
class NumberBuilder {
public:
  NumberBuilder(mlir::OpBuilder &builder, unsigned bits)
      : builder(builder), location(builder.getUnknownLoc()), type(builder.getIntegerType(bits)) {}

  mlir::Type getType() const { return type; }
  mlir::Value constant(int64_t value) const;
  mlir::Value add(mlir::Value a, mlir::Value b) const;
  mlir::Value add(mlir::Value a, int64_t b) const { return b == 0 ? a : add(a, constant(b)); }
  mlir::Value mul(mlir::Value a, int64_t factor) const;
  /// Of a number that is not negative; null for a divisor of one where the result is zero.
  mlir::Value div(mlir::Value a, int64_t divisor) const;
  mlir::Value rem(mlir::Value a, int64_t divisor) const;
  mlir::Value min(mlir::Value a, mlir::Value b) const;
  mlir::Value less(mlir::Value a, mlir::Value b) const;
  mlir::Value orZero(mlir::Value a) const { return a ? a : constant(0); }
  /// As a value of type `index`.
  mlir::Value toIndex(mlir::Value a) const;
  /// As a value of 64 bits.
  mlir::Value toWide(mlir::Value a) const;
  /// The indices of `levels` at a position of all of them.
  llvm::SmallVector<mlir::Value, 4> takeApart(mlir::Value position, llvm::ArrayRef<GpuLevel> levels) const;

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::Type type;
};

/// Reads and writes elements of buffers.
class MemoryBuilder {
public:
  /// `bases` holds an address a buffer, null where a buffer has one value everywhere.
  MemoryBuilder(mlir::OpBuilder &builder, llvm::ArrayRef<Buffer> buffers, llvm::ArrayRef<mlir::Value> bases)
      : builder(builder), location(builder.getUnknownLoc()), buffers(buffers), bases(bases) {}

  /// `count` elements that are `step` apart; `isAligned`: the first lies at a multiple of as many bytes as they take.
  Elements load(unsigned buffer, mlir::Value wideOffset, int64_t step, size_t count, bool isAligned) const;
  void store(unsigned buffer, mlir::Value wideOffset, int64_t step, mlir::ValueRange elements, bool isAligned) const;

private:
  mlir::Value address(unsigned buffer, mlir::Value wideOffset, int64_t more) const;
  mlir::Value fromMemory(mlir::Value value, mlir::Type element) const;
  mlir::Value toMemory(mlir::Value value) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  llvm::ArrayRef<Buffer> buffers;
  llvm::ArrayRef<mlir::Value> bases;
};

/// Memory that the threads of a block share: one array, which grows up to what every GPU lets a kernel declare.
class SharedMemory {
public:
  SharedMemory(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef symbol)
      : builder(builder), location(builder.getUnknownLoc()), module(module), symbol(symbol) {}

  /// Whether there is room for so many elements besides all that was made.
  bool hasRoom(mlir::Type element, int64_t count) const;
  /// Room for so many elements, which there has to be.
  mlir::Value make(mlir::Type element, int64_t count);
  /// Lets what was made be overwritten, when all threads of the block have read it.
  void reuse();
  /// Positions are i32.
  void store(mlir::Value base, mlir::Value position, mlir::Value value) const;
  mlir::Value load(mlir::Value base, mlir::Value position, mlir::Type element) const;
  /// Lets all threads of the block see what each has stored.
  void wait() const;

private:
  mlir::Value address(mlir::Value base, mlir::Value position, mlir::Type inMemory) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::ModuleOp module;
  llvm::StringRef symbol;
  mlir::LLVM::GlobalOp array;
  /// Bytes of what was made, and of the array.
  int64_t used = 0, size = 0;
};

/// A value that all lanes of a group join theirs into.
struct JoinedValue {
  /// One a group that the thread computes.
  Elements values;
  /// What joins two of them.
  mlir::Operation *join;
};

/// Joins values of threads.
class LaneJoiner {
public:
  /// `group` is the number of the thread's group in its block, `lane` that of the thread in its group (both i32).
  LaneJoiner(mlir::OpBuilder &builder, SharedMemory &shared, const GpuLaunch &launch, mlir::Value group,
             mlir::Value lane)
      : builder(builder), location(builder.getUnknownLoc()), shared(shared), launch(launch), group(group), lane(lane) {}

  /// Gives all lanes of a group what their values join to, always in the same order. All threads of the block must come
  /// here.
  void join(llvm::MutableArrayRef<JoinedValue> all);
  /// `a` and `b` joined as `join` joins its operands.
  mlir::Value combine(mlir::Operation *join, mlir::Value a, mlir::Value b) const;

private:
  mlir::Value exchange(mlir::Value value, int32_t distance) const;
  void joinInWarp(JoinedValue &joined, int64_t lanes) const;
  int64_t placesOf(const JoinedValue &joined) const;
  void joinShared(llvm::MutableArrayRef<JoinedValue> all);
  void joinWarps(llvm::MutableArrayRef<JoinedValue> all, llvm::ArrayRef<mlir::Value> bases) const;
  void joinColumns(llvm::MutableArrayRef<JoinedValue> all, llvm::ArrayRef<mlir::Value> bases) const;
  mlir::Value combineAll(mlir::Operation *join, Elements values) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  SharedMemory &shared;
  const GpuLaunch &launch;
  mlir::Value group, lane;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUEMITTER_H
