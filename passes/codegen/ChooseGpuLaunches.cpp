// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the launches of a module's kernels for GPUs.

#include "passes/codegen/GpuKernels.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/cost/CostAnalysis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_CHOOSEGPULAUNCHESPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

class ChooseGpuLaunches : public impl::ChooseGpuLaunchesPassBase<ChooseGpuLaunches> {
public:
  using ChooseGpuLaunchesPassBase::ChooseGpuLaunchesPassBase;

private:
  void runOnOperation() override {
    std::vector<GpuKernelSource> kernels = gpuKernelsOf(getOperation());
    if (kernels.empty())
      return;
    GpuOptions options;
    options.processors = getAnalysis<CostAnalysis>().gpuModel().processors;
    options.reference = reference;
    options.threads = threads;
    if (llvm::Error error = chooseGpuLaunches(getContext(), kernels, options)) {
      getOperation().emitError("kernels for GPUs expect to get launches: ") << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace cleave
