// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the processor whose instructions kernels may use: what all CPU devices of the module have.

#include "passes/codegen/ChooseProcessor.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/NativeTarget.h"

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "runtime/drivers/cpu/OneDnn.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_CHOOSEPROCESSORPASS
#include "passes/codegen/KernelPasses.h.inc"

/// Writes what all CPU devices have; nothing where there are none.
static llvm::Error choose(ModuleOp module) {
  SmallVector<StringRef> chips;
  for (const dist::Device &device : dist::getDevices(module))
    if (device.driver == "cpu" && !llvm::is_contained(chips, device.chip))
      chips.push_back(device.chip);
  if (chips.empty())
    return llvm::Error::success();
  // A device without a chip is this machine, beside others by name.
  if (chips.size() > 1)
    llvm::replace(chips, StringRef(), StringRef(nativeCpu));
  auto target = NativeTarget::create(llvm::join(chips, "+"), "");
  if (!target)
    return target.takeError();
  plan::setProcessor(module, {target->getCpu(), llvm::to_vector_of<StringRef>(target->getFeatures())});
  return llvm::Error::success();
}

llvm::Error chooseProcessor(ModuleOp module, bool limitsLibraries) {
  if (!plan::getProcessor(module))
    if (llvm::Error error = choose(module))
      return error;
  auto processor = plan::getProcessor(module);
  if (!processor || !limitsLibraries)
    return llvm::Error::success();
  std::vector<std::string> features;
  for (StringRef feature : processor->features)
    features.push_back(feature.str());
  if (runtime::Error error = runtime::limitOneDnn(features))
    return llvm::createStringError("processor \"" + processor->name + "\": " + error.message());
  return llvm::Error::success();
}

namespace {

class ChooseProcessor : public impl::ChooseProcessorPassBase<ChooseProcessor> {
public:
  using ChooseProcessorPassBase::ChooseProcessorPassBase;

private:
  void runOnOperation() override {
    if (llvm::Error error = chooseProcessor(getOperation(), limitsLibraries)) {
      getOperation().emitError() << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace cleave
