// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the loops of a module's kernels for processors.

#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/NativeKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_CHOOSENATIVELOOPSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

class ChooseNativeLoops : public impl::ChooseNativeLoopsPassBase<ChooseNativeLoops> {
public:
  using ChooseNativeLoopsPassBase::ChooseNativeLoopsPassBase;

private:
  void runOnOperation() override {
    SmallVector<plan::NativeKernelOp> kernels = nativeKernelsOf(getOperation());
    if (kernels.empty())
      return;
    NativeOptions options = nativeOptionsOf(getOperation(), cpu);
    options.reference = reference;
    options.threads = threads;
    if (llvm::Error error = chooseNativeLoops(getContext(), kernels, options)) {
      getOperation().emitError("native kernels expect to get loops: ") << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace cleave
