// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles all kernels of a module that are for GPUs into one object.

#include "dialects/dist/Dist.h"
#include "passes/codegen/GpuKernels.h"
#include "passes/codegen/GpuTarget.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/cost/Machine.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_COMPILEGPUKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

/// "sm_90" as 90; none for what is no architecture.
static std::optional<unsigned> versionOf(StringRef chip) {
  unsigned version = 0;
  if (!chip.consume_front("sm_") || chip.consumeInteger(10, version))
    return std::nullopt;
  return version;
}

/// The oldest architecture among the machine's GPUs that run code: code for it runs on all of them.
static std::string oldestChipOf(ModuleOp module) {
  StringRef oldest;
  for (const dist::Device &device : dist::getDevices(module)) {
    if (device.driver != "cuda")
      continue;
    StringRef chip = device.chip.empty() ? StringRef(oldestChip) : device.chip;
    // What is no architecture stays, and is refused by name.
    if (oldest.empty() || !versionOf(chip) || (versionOf(oldest) && *versionOf(chip) < *versionOf(oldest)))
      oldest = chip;
  }
  return oldest.empty() ? oldestChip.str() : oldest.str();
}

/// Whether all GPUs of the machine are only simulated.
static bool isSimulated(ModuleOp module) {
  SmallVector<dist::Device> devices = dist::getDevices(module);
  auto isGpu = [](const dist::Device &device) { return device.isGpu(); };
  return llvm::any_of(devices, isGpu) &&
         llvm::none_of(devices, [](const dist::Device &device) { return device.driver == "cuda"; });
}

namespace {

class CompileGpuKernels : public impl::CompileGpuKernelsPassBase<CompileGpuKernels> {
public:
  using CompileGpuKernelsPassBase::CompileGpuKernelsPassBase;

private:
  /// "gpu", or, where a parameter has that name, one like it.
  std::string objectName() {
    std::string name = "gpu";
    while (SymbolTable::lookupSymbolIn(getOperation(), name))
      name += ".ptx";
    return name;
  }

  void runOnOperation() override {
    std::vector<GpuKernelSource> sources = gpuKernelsOf(getOperation());
    if (sources.empty())
      return;
    GpuOptions options;
    options.chip = chip.empty() ? oldestChipOf(getOperation()) : chip;
    options.threads = threads;
    options.runs = !isSimulated(getOperation());
    auto object = compileGpuKernels(getContext(), sources, options);
    if (!object) {
      getOperation().emitError("kernels for GPUs expect to compile: ") << llvm::toString(object.takeError());
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto code = plan::ObjectOp::create(builder, builder.getUnknownLoc(), objectName(), ptxTriple, object->chip,
                                       builder.getStrArrayAttr({}), object->ptx);
    for (auto [source, info] : llvm::zip(sources, object->kernels)) {
      plan::NativeKernelOp kernel = source.kernel;
      SmallVector<Attribute> launches;
      for (const GpuFunction &launch : info.launches)
        launches.push_back(
            plan::GpuLaunchAttr::get(&getContext(), launch.symbol, launch.blocks, launch.threads, /*sharedBytes=*/0));
      kernel.setObject(code.getSymName());
      kernel.setLaunchesAttr(builder.getArrayAttr(launches));
      kernel.setScratchBytes(static_cast<int64_t>(info.scratchBytes));
    }
  }
};

} // namespace
} // namespace cleave
