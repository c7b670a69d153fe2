// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the operators of a kernel to linalg operations whose loops are decided.

#include "dialects/dfg/ScoreMasks.h"
#include "passes/codegen/KernelThreads.h"
#include "passes/codegen/LowerBody.h"
#include "passes/codegen/NativeFusion.h"
#include "passes/codegen/NativeKernels.h"
#include "passes/codegen/NestAttributes.h"

using namespace mlir;

namespace cleave {

/// Of the widest vectors that the code generator is told to use.
static VectorRegisters registersOf(const NativeTarget &target) {
  if (target.hasFeature("avx512vl"))
    return {64, 32};
  return target.hasFeature("avx") ? VectorRegisters{32, 16} : VectorRegisters{16, 16};
}

/// Fills a kernel's `loops`; false where an operator has no reference meaning.
static bool chooseLoops(plan::NativeKernelOp kernel, bool reference, const VectorRegisters &registers) {
  OwningOpRef<ModuleOp> tensors = ModuleOp::create(UnknownLoc::get(kernel.getContext()));
  auto function = lowerToFunction(*tensors, kernel.getSymName(), kernel.getBody());
  if (failed(function))
    return false;
  if (!reference)
    fuseLinalgOperations(*function);
  Block &block = function->getBody().front();
  Storage storage(block);
  auto band = kernel->getAttrOfType<dfg::BandAttr>(dfg::bandAttrName);
  NestPlan plan = planNests(block, storage, reference, registers, band);
  kernel.setCommonAttr(writeNests(plan, storage, kernel.getContext()));
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  plan::YieldOp::create(builder, end->getLoc(), end->getOperands());
  end->erase();
  kernel.getLoops().takeBody(function->getBody());
  return true;
}

llvm::Error chooseNativeLoops(MLIRContext &context, ArrayRef<plan::NativeKernelOp> kernels,
                              const NativeOptions &options) {
  auto target = options.createTarget();
  if (!target)
    return target.takeError();
  VectorRegisters registers = registersOf(*target);
  std::vector<char> isChosen(kernels.size(), false);
  forEachInThreads(context, options.threads, kernels.size(),
                   [&](size_t i) { isChosen[i] = chooseLoops(kernels[i], options.reference, registers); });
  for (auto [index, kernel] : llvm::enumerate(llvm::to_vector(kernels)))
    if (!isChosen[index])
      return llvm::createStringError("kernel '" + kernel.getSymName() + "' expects operators with a reference meaning");
  return llvm::Error::success();
}

} // namespace cleave
