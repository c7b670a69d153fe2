// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches in squares: operands that lie across come through shared memory, so that neighbouring threads read and write
// neighbouring elements of everything.

#include "passes/codegen/GpuLaunchEmitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace cleave {

/// Calls `visit` with a thread's places along one side of the square, so that all threads together have all of the
/// other.
void LaunchEmitter::forEachInSquare(Value first, llvm::function_ref<void(Value)> visit) {
  int64_t side = launch.squares->side, step = launch.threads / side;
  NumberBuilder small(builder, 32);
  for (int64_t place = 0; place < side; place += step)
    visit(small.add(first, place));
}

void LaunchEmitter::emitSquares() {
  const GpuSquares &squares = *launch.squares;
  NumberBuilder small(builder, 32);
  Value thread = NVVM::ThreadIdXOp::create(builder, location, builder.getI32Type());
  // The block's place: squares along the fast level, then across, then the other levels.
  Value rest = block;
  auto next = [&](int64_t size) {
    Value index = small.rem(rest, size);
    rest = small.div(rest, size);
    return !index || !launch.isLarge ? index
                                     : arith::ExtUIOp::create(builder, location, n.getType(), index).getResult();
  };
  firstColumn = n.mul(next(llvm::divideCeil(launch.outer.back().size, squares.side)), squares.side);
  firstRow = n.mul(next(llvm::divideCeil(launch.outer[squares.across].size, squares.side)), squares.side);
  outerIndices.assign(launch.outer.size(), Value());
  for (size_t i = launch.outer.size() - 1; i-- > 0;)
    if (i != squares.across)
      outerIndices[i] = next(launch.outer[i].size);
  for (const GpuStep &step : launch.steps)
    for (unsigned operand : step.staged) {
      const Access &access = *step.accesses[operand];
      if (llvm::none_of(turned, [&](const Turned &other) { return other.access == access; }))
        turned.push_back({access, shared.make(plan.buffers[access.buffer].element, squares.places()), {}});
    }
  Value x = small.rem(thread, squares.side), y = small.div(thread, squares.side);
  fillSquares(x, y);
  shared.wait();
  computeSquares(x, y);
}

/// Sets the thread's element by its place in the square, and says whether there is one; null: there always is.
Value LaunchEmitter::enterSquare(Value column, Value row) {
  auto place = [&](unsigned level, Value first, Value inSquare) -> Value {
    Value wide =
        launch.isLarge ? arith::ExtUIOp::create(builder, location, n.getType(), inSquare).getResult() : inSquare;
    outerIndices[level] = n.add(first, wide);
    int64_t size = launch.outer[level].size;
    return size % launch.squares->side == 0 ? Value() : n.less(outerIndices[level], n.constant(size));
  };
  Value isColumn = place(launch.outer.size() - 1, firstColumn, column);
  return both(isColumn, place(launch.squares->across, firstRow, row));
}

/// The element at a place in shared memory, which has a row for each column of the square.
Value LaunchEmitter::placeInSquare(Value column, Value row) {
  NumberBuilder small(builder, 32);
  return small.add(small.mul(column, launch.squares->side + launch.squares->padding), row);
}

/// Neighbouring threads read along the level across.
void LaunchEmitter::fillSquares(Value x, Value y) {
  forEachInSquare(y, [&](Value column) {
    Value isValid = enterSquare(column, x);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        shared.store(each.base, placeInSquare(column, x), loadElements(each.access, nullptr, 1)[0]);
    });
  });
}

void LaunchEmitter::computeSquares(Value x, Value y) {
  forEachInSquare(y, [&](Value row) {
    Value isValid = enterSquare(x, row);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        each.element = shared.load(each.base, placeInSquare(x, row), plan.buffers[each.access.buffer].element);
      groupValues.clear();
      for (const GpuStep &step : launch.steps)
        emitStep(step, nullptr, nullptr);
      for (const auto &[access, values] : pendingStores)
        storeElements(access, nullptr, values);
      pendingStores.clear();
    });
  });
}

} // namespace cleave
