// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the processor whose instructions kernels may use: what all CPU devices of the module have.

#include "passes/codegen/ChooseProcessor.h"
#include "passes/codegen/KernelPasses.h"

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "runtime/drivers/cpu/OneDnn.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_CHOOSEPROCESSORPASS
#include "passes/codegen/KernelPasses.h.inc"

llvm::Expected<NativeTarget> commonTarget(ArrayRef<StringRef> chips) {
  SmallVector<StringRef> names;
  for (StringRef chip : chips)
    if (!llvm::is_contained(names, chip))
      names.push_back(chip);
  // A device without a chip is this machine, beside others by name.
  if (names.size() > 1)
    llvm::replace(names, StringRef(), StringRef(nativeCpu));
  return NativeTarget::create(llvm::join(names, "+"), "");
}

bool multipliesBrainFloats(const NativeTarget &target) { return target.hasFeature("avx512bw"); }

/// Writes what all CPU devices have; nothing where there are none.
static llvm::Error choose(ModuleOp module) {
  SmallVector<StringRef> chips;
  for (const dist::Device &device : dist::getDevices(module))
    if (device.isProcessor())
      chips.push_back(device.chip);
  if (chips.empty())
    return llvm::Error::success();
  auto target = commonTarget(chips);
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
