// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches in squares: operands that lie across come through shared memory, so that neighbouring threads read and write
// neighbouring elements of everything.

#include "passes/codegen/GpuLaunchEmitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace cleave {

/// A thread's elements in a square of squareSize by squareSize: how many, and how far apart.
static constexpr int64_t squareRounds = 4, squareStep = squareSize / squareRounds;

void LaunchEmitter::emitSquares() {
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
  firstColumn = n.mul(next(llvm::divideCeil(launch.outer.back().size, squareSize)), squareSize);
  firstRow = n.mul(next(llvm::divideCeil(launch.outer[*launch.across].size, squareSize)), squareSize);
  outerIndices.assign(launch.outer.size(), Value());
  for (size_t i = launch.outer.size() - 1; i-- > 0;)
    if (i != *launch.across)
      outerIndices[i] = next(launch.outer[i].size);
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      const auto &access = step.accesses[operand->getOperandNumber()];
      auto isSame = [&](const Turned &other) {
        return other.access.buffer == access->buffer && other.access.offset == access->offset &&
               other.access.coefficients == access->coefficients;
      };
      if (!access || !bases[access->buffer] || !launch.isTurned(*access) || llvm::any_of(turned, isSame))
        continue;
      // A column more than needed, so that a column of the square lies in different banks.
      constexpr int64_t places = squareSize * (squareSize + 1);
      // Those for which there is no room are read where they lie.
      if (Type element = plan.buffers[access->buffer].element; shared.hasRoom(element, places))
        turned.push_back({*access, shared.make(element, places), {}});
    }
  }
  Value x = small.rem(thread, squareSize), y = small.div(thread, squareSize);
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
    return size % squareSize == 0 ? Value() : n.less(outerIndices[level], n.constant(size));
  };
  Value isColumn = place(launch.outer.size() - 1, firstColumn, column);
  return both(isColumn, place(*launch.across, firstRow, row));
}

/// Neighbouring threads read along the level across.
void LaunchEmitter::fillSquares(Value x, Value y) {
  NumberBuilder small(builder, 32);
  for (int64_t round = 0; round < squareRounds; ++round) {
    Value column = small.add(y, round * squareStep);
    Value isValid = enterSquare(column, x);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        shared.store(each.base, small.add(small.mul(column, squareSize + 1), x),
                     loadElements(each.access, nullptr, 1)[0]);
    });
  }
}

void LaunchEmitter::computeSquares(Value x, Value y) {
  NumberBuilder small(builder, 32);
  for (int64_t round = 0; round < squareRounds; ++round) {
    Value row = small.add(y, round * squareStep);
    Value isValid = enterSquare(x, row);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        each.element = shared.load(each.base, small.add(small.mul(x, squareSize + 1), row),
                                   plan.buffers[each.access.buffer].element);
      groupValues.clear();
      for (const GpuStep &step : launch.steps)
        emitStep(step, nullptr, nullptr);
      for (const auto &[access, values] : pendingStores)
        storeElements(access, nullptr, values);
      pendingStores.clear();
    });
  }
}

} // namespace cleave
