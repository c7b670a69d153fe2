// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shows what the launches of a module's kernels are written as.

#include "passes/codegen/GpuKernels.h"
#include "passes/codegen/KernelPasses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_WRITEGPULAUNCHESPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

class WriteGpuLaunches : public impl::WriteGpuLaunchesPassBase<WriteGpuLaunches> {
public:
  using WriteGpuLaunchesPassBase::WriteGpuLaunchesPassBase;

private:
  void runOnOperation() override {
    for (GpuKernelSource &source : gpuKernelsOf(getOperation())) {
      source.symbol = source.kernel.getSymName().str() + ".launch";
      auto info = writeGpuLaunches(getOperation(), source);
      if (failed(info))
        return signalPassFailure();
      source.kernel.setScratchBytes(static_cast<int64_t>(info->scratchBytes));
    }
  }
};

} // namespace
} // namespace cleave
