// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles all native kernels of a module into one object.

#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/NativeKernels.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_COMPILENATIVEKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

class CompileNativeKernels : public impl::CompileNativeKernelsPassBase<CompileNativeKernels> {
public:
  using CompileNativeKernelsPassBase::CompileNativeKernelsPassBase;

private:
  void runOnOperation() override {
    SmallVector<plan::NativeKernelOp> kernels = nativeKernelsOf(getOperation());
    if (kernels.empty())
      return;
    NativeOptions options = nativeOptionsOf(getOperation(), cpu);
    options.reference = reference;
    options.threads = threads;
    auto object = compileNativeKernels(getContext(), kernels, options);
    if (!object) {
      getOperation().emitError("native kernels expect to compile: ") << llvm::toString(object.takeError());
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    SmallVector<StringRef> features(object->features.begin(), object->features.end());
    plan::ObjectOp::create(builder, builder.getUnknownLoc(), "native", object->triple, object->cpu,
                           builder.getStrArrayAttr(features), StringRef(object->image.data(), object->image.size()));
    for (auto [kernel, info] : llvm::zip(kernels, object->kernels)) {
      kernel.setObject("native");
      kernel.setSymbol(info.symbol);
      kernel.setParallelExtent(info.parallelExtent);
      kernel.setScratchBytes(static_cast<int64_t>(info.scratchBytes));
    }
  }
};

} // namespace
} // namespace cleave
