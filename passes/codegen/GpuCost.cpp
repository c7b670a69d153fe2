// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the bytes that launches move.

#include "passes/codegen/GpuCost.h"

#include "passes/codegen/GpuOperators.h"
#include "passes/codegen/GpuRowSums.h"
#include "passes/codegen/NativeFusion.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace cleave {

/// The bytes that an access touches.
static double bytesOf(const GpuLaunch &launch, const Access &access, const Buffer &buffer) {
  if (buffer.kind == Buffer::Constant)
    return 0;
  double elements = 1;
  for (auto [size, coefficient] : llvm::zip(launch.sizes, access.coefficients))
    elements *= coefficient == 0 ? 1 : static_cast<double>(size);
  return std::min(elements, static_cast<double>(buffer.size)) * static_cast<double>(elementBytes(buffer.element));
}

/// What the body reads at indices of its own: an element in each iteration.
static double extractedBytes(linalg::LinalgOp op) {
  double iterations = 1, bytes = 0;
  for (int64_t size : op.getStaticLoopRanges())
    iterations *= static_cast<double>(size);
  op.getBlock()->walk(
      [&](tensor::ExtractOp extract) { bytes += iterations * static_cast<double>(elementBytes(extract.getType())); });
  return bytes;
}

static double secondsOf(const GpuLaunch &launch, ArrayRef<Buffer> buffers, const GpuModel &gpu) {
  double bytes = 0;
  // Read from memory: once, or, where threads keep nothing, once a loop.
  llvm::SmallSet<std::pair<unsigned, unsigned>, 16> read;
  SmallVector<bool> written(buffers.size(), false);
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    unsigned loop = launch.unrolled ? 0 : step.phase;
    for (OpOperand &operand : op->getOpOperands()) {
      const auto &access = step.accesses[operand.getOperandNumber()];
      if (access && step.readsMemory(operand) && !written[access->buffer] && read.insert({access->buffer, loop}).second)
        bytes += bytesOf(launch, *access, buffers[access->buffer]);
    }
    for (auto [init, stored] : llvm::zip(op.getDpsInitsMutable(), step.stored)) {
      const Access &access = *step.accesses[init.getOperandNumber()];
      written[access.buffer] = true;
      if (stored)
        bytes += bytesOf(launch, access, buffers[access.buffer]);
    }
    for (const Access &partial : step.partials)
      bytes += static_cast<double>(buffers[partial.buffer].size * elementBytes(buffers[partial.buffer].element));
    if (!step.joinsPartials)
      bytes += extractedBytes(op);
  }
  auto enough = static_cast<double>(gpu.processors * threadsForMemory);
  double busy = std::min(1.0, static_cast<double>(launch.blocks * launch.threads) / enough);
  return gpu.cost.launchSeconds() + gpu.cost.streamSeconds(bytes) / busy;
}

double estimateSeconds(const GpuKernelPlan &plan, const GpuModel &gpu) {
  double seconds = 0;
  for (const GpuLaunch &launch : plan.launches)
    seconds += secondsOf(launch, plan.buffers, gpu);
  return seconds;
}

std::optional<double> estimateSeconds(Region &body, const GpuModel &gpu) {
  OwningOpRef<ModuleOp> tensors = ModuleOp::create(UnknownLoc::get(body.front().getTerminator()->getContext()));
  auto function = lowerToFunction(*tensors, "kernel", body, lowerGpuOperator);
  if (failed(function))
    return std::nullopt;
  fuseLinalgOperations(*function);
  divideSumsByRows(*function);
  Block &block = function->getBody().front();
  Storage storage(block);
  return estimateSeconds(planLaunches(block, storage, gpu.processors, /*plain=*/false), gpu);
}

} // namespace cleave
