// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How launches read memory: which operands lie across and come through shared memory, and how many loads a thread has
// under way.

#include "passes/codegen/GpuLaunches.h"
#include "passes/codegen/GpuLimits.h"
#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

bool isTurned(const GpuLaunch &launch, const Access &access) {
  // Elements that lie so far apart that neighbouring threads do not read them together.
  constexpr int64_t turnedDistance = 16;
  return launch.squares && launch.outer[launch.squares->across].step(access) == 1 &&
         std::abs(launch.outer.back().step(access)) >= turnedDistance;
}

/// As many operands as there is room for; others are read where they lie.
static void chooseStaged(const GpuKernelPlan &plan, GpuLaunch &launch) {
  int64_t used = 0;
  SmallVector<Access> staged;
  for (GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      const auto &access = step.accesses[operand->getOperandNumber()];
      if (!access || !plan.isInMemory(access->buffer) || !isTurned(launch, *access) ||
          llvm::any_of(launch.steps, [&](const GpuStep &other) { return writeAccess(other, access->buffer); }))
        continue;
      if (!llvm::is_contained(staged, *access)) {
        int64_t bytes = sharedBytesOf(plan.buffers[access->buffer].element, launch.squares->places());
        if (used + bytes > mostSharedBytes)
          continue;
        used += bytes;
        staged.push_back(*access);
      }
      step.staged.push_back(operand->getOperandNumber());
    }
  }
}

/// The units whose loads a thread should have under way at once, so that it does not wait for each: of what it reads
/// along a row in a phase, within what may be written out.
static int64_t unitsAhead(const GpuKernelPlan &plan, const GpuLaunch &launch, unsigned phase) {
  constexpr int64_t enoughBytes = 32, most = 4, mostOperations = 192;
  llvm::SmallDenseMap<unsigned, int64_t> bytes;
  int64_t operations = 0;
  for (const GpuStep &step : launch.steps) {
    if (!step.isInner() || step.phase != phase)
      continue;
    linalg::LinalgOp op = step.op;
    op.getBlock()->walk([&](Operation *) { operations += launch.width; });
    for (OpOperand &operand : op->getOpOperands())
      if (const auto &access = step.accesses[operand.getOperandNumber()]; access && step.readsMemory(operand) &&
                                                                          launch.fastLevel()->step(*access) != 0 &&
                                                                          plan.isInMemory(access->buffer))
        bytes[access->buffer] = launch.width * elementBytes(plan.buffers[access->buffer].element);
  }
  int64_t ofUnit = 0;
  for (auto [buffer, ofBuffer] : bytes)
    ofUnit += ofBuffer;
  if (ofUnit == 0)
    return 1;
  int64_t units = std::clamp<int64_t>(std::min(enoughBytes / ofUnit, mostOperations / operations), 1, most);
  return launch.rounds() >= 2 * units ? units : 1;
}

static void chooseAhead(const GpuKernelPlan &plan, GpuLaunch &launch) {
  if (!launch.innerFast || launch.unrolled)
    return;
  for (unsigned phase = 0; phase <= launch.lastPhase(); ++phase)
    launch.ahead.push_back(unitsAhead(plan, launch, phase));
  if (llvm::all_of(launch.ahead, [](int64_t units) { return units == 1; }))
    launch.ahead.clear();
}

void chooseLoads(GpuKernelPlan &plan) {
  for (GpuLaunch &launch : plan.launches) {
    if (launch.squares)
      chooseStaged(plan, launch);
    chooseAhead(plan, launch);
  }
}

} // namespace cleave
