// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shows what the loops of a module's kernels are written as.

#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/NativeKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_WRITENATIVELOOPSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

class WriteNativeLoops : public impl::WriteNativeLoopsPassBase<WriteNativeLoops> {
public:
  using WriteNativeLoopsPassBase::WriteNativeLoopsPassBase;

private:
  void runOnOperation() override {
    for (plan::NativeKernelOp kernel : nativeKernelsOf(getOperation()))
      if (failed(writeNativeLoops(getOperation(), kernel, (kernel.getSymName() + ".entry").str(), reference)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace cleave
