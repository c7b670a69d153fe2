// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the operators of a kernel to linalg operations whose launches on a GPU are decided.

#include "passes/codegen/GpuKernels.h"

#include "passes/codegen/GpuLaunchAttributes.h"
#include "passes/codegen/GpuOperators.h"
#include "passes/codegen/GpuRowSums.h"
#include "passes/codegen/KernelThreads.h"
#include "passes/codegen/NativeFusion.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

using namespace mlir;

namespace cleave {

/// The parameter that a value is, as it was before the step; null for what is none.
static FlatSymbolRefAttr parameterOf(Value value) {
  while (isa_and_present<dfg::ReshapeOp, plan::ViewOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (auto read = value.getDefiningOp<dfg::ReadOp>())
    return read.getParameterAttr();
  auto shard = value.getDefiningOp<dist::ShardOfOp>();
  return shard ? shard.getParameterAttr() : FlatSymbolRefAttr();
}

std::vector<GpuKernelSource> gpuKernelsOf(ModuleOp module) {
  std::vector<GpuKernelSource> sources;
  for (auto kernel : module.getOps<plan::NativeKernelOp>())
    if (kernel.getDriver() == "cuda")
      sources.push_back({"cleave_kernel_" + std::to_string(sources.size()), kernel, {}});
  DenseMap<StringAttr, GpuKernelSource *> byName;
  for (GpuKernelSource &source : sources)
    byName[source.kernel.getSymNameAttr()] = &source;
  module.walk([&](dist::WriteOp write) {
    auto launch = write.getValue().getDefiningOp<plan::LaunchOp>();
    GpuKernelSource *source = launch ? byName.lookup(launch.getKernelAttr().getAttr()) : nullptr;
    if (!source)
      return;
    unsigned output = cast<OpResult>(write.getValue()).getResultNumber();
    for (OpOperand &operand : launch->getOpOperands())
      if (parameterOf(operand.get()) == write.getParameterAttr())
        source->overwrites.push_back({operand.getOperandNumber(), output});
  });
  return sources;
}

/// Fills a kernel's `loops`; false where an operator has no reference meaning.
static bool chooseLaunches(plan::NativeKernelOp kernel, const GpuOptions &options) {
  OwningOpRef<ModuleOp> tensors = ModuleOp::create(UnknownLoc::get(kernel.getContext()));
  bool reference = options.reference;
  auto function =
      lowerToFunction(*tensors, kernel.getSymName(), kernel.getBody(), reference ? lowerOperator : lowerGpuOperator);
  if (failed(function))
    return false;
  if (!reference) {
    fuseLinalgOperations(*function);
    divideSumsByRows(*function);
  }
  Block &block = function->getBody().front();
  Storage storage(block);
  GpuKernelPlan plan = planLaunches(block, storage, options.processors, reference);
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  plan::YieldOp::create(builder, end->getLoc(), end->getOperands());
  end->erase();
  kernel.getLoops().takeBody(function->getBody());
  writeLaunches(kernel, plan);
  return true;
}

llvm::Error chooseGpuLaunches(MLIRContext &context, ArrayRef<GpuKernelSource> kernels, const GpuOptions &options) {
  std::vector<char> isChosen(kernels.size(), false);
  forEachInThreads(context, options.threads, kernels.size(),
                   [&](size_t i) { isChosen[i] = chooseLaunches(kernels[i].kernel, options); });
  for (auto [source, chosen] : llvm::zip(kernels, isChosen))
    if (!chosen) {
      plan::NativeKernelOp kernel = source.kernel;
      return llvm::createStringError("kernel '" + kernel.getSymName() + "' expects operators with a reference meaning");
    }
  return llvm::Error::success();
}

} // namespace cleave
