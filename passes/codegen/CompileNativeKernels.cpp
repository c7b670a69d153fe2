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
    auto isNative = [](plan::NativeKernelOp kernel) { return kernel.getDriver() != "cuda"; };
    SmallVector<plan::NativeKernelOp> kernels =
        llvm::to_vector(llvm::make_filter_range(getOperation().getOps<plan::NativeKernelOp>(), isNative));
    if (kernels.empty())
      return;
    std::vector<KernelSource> sources;
    for (auto [index, kernel] : llvm::enumerate(kernels))
      sources.push_back({"cleave_kernel_" + std::to_string(index), &kernel.getBody()});
    NativeOptions options;
    options.cpu = cpu;
    if (auto processor = plan::getProcessor(getOperation()); processor && cpu.empty()) {
      options.cpu = processor->name.str();
      options.exactFeatures.emplace();
      for (StringRef feature : processor->features)
        options.exactFeatures->push_back(feature.str());
    }
    options.reference = reference;
    options.threads = threads;
    auto object = compileNativeKernels(getContext(), sources, options);
    if (!object) {
      getOperation().emitError("native kernels expect to compile: ") << llvm::toString(object.takeError());
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    SmallVector<StringRef> features(object->features.begin(), object->features.end());
    plan::ObjectOp::create(builder, builder.getUnknownLoc(), "native", object->triple, object->cpu,
                           builder.getStrArrayAttr(features), StringRef(object->image.data(), object->image.size()));
    for (auto [kernel, source, info] : llvm::zip(kernels, sources, object->kernels)) {
      kernel.setObject("native");
      kernel.setSymbol(source.symbol);
      kernel.setParallelExtent(info.parallelExtent);
      kernel.setScratchBytes(static_cast<int64_t>(info.scratchBytes));
    }
  }
};

} // namespace
} // namespace cleave
