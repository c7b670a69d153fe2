// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of native kernels from decided loops: scf, LLVM, one shared object.

#include "passes/codegen/NativeKernels.h"

#include "passes/codegen/KernelThreads.h"
#include "passes/codegen/LinkObject.h"
#include "passes/codegen/NativeEmission.h"
#include "passes/codegen/NativeLowering.h"
#include "passes/codegen/NestAttributes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace cleave {

namespace {

/// A part of the kernels that is compiled on its own.
struct Part {
  ArrayRef<NativeKernelSource> sources;
  SmallVector<NativeKernelInfo> infos;
  SmallVector<char, 0> object;
  std::string error;
};

/// Kernels a part: enough to spread over threads, few enough parts that their fixed cost does not count. The same for
/// any number of threads, so that the object is the same.
constexpr size_t kernelsPerPart = 6;

} // namespace

FailureOr<NativeKernelInfo> writeNativeLoops(ModuleOp module, const NativeKernelSource &source, bool reference) {
  plan::NativeKernelOp kernel = source.kernel;
  if (kernel.getLoops().empty())
    return kernel.emitOpError("expects loops, found none; run --codegen-choose-native-loops before");
  Block &block = kernel.getLoops().front();
  Storage storage(block);
  FailureOr<NestPlan> plan = readNests(block, kernel.getCommonAttr(), storage);
  if (failed(plan))
    return failure();
  NativeKernelInfo info;
  info.parallelExtent = plan->parallelExtent;
  info.scratchBytes = emitKernel(module, source.symbol, *plan, storage, !reference);
  kernel.removeCommonAttr();
  kernel.getLoops().getBlocks().clear();
  return info;
}

static void compilePart(MLIRContext &context, Part &part, const NativeTarget &target, bool reference) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (const NativeKernelSource &source : part.sources) {
    auto info = writeNativeLoops(*module, source, reference);
    if (failed(info)) {
      plan::NativeKernelOp kernel = source.kernel;
      part.error = "kernel '" + kernel.getSymName().str() + "' has no loops that can be written";
      return;
    }
    part.infos.push_back(*info);
  }
  // The polynomials are made of fused multiply-adds.
  if (failed(lowerToLlvmDialect(*module, /*exactFunctions=*/reference || !target.hasFeature("fma")))) {
    part.error = "kernel '" + part.sources.front().symbol + "' or one after it expects to lower to LLVM";
    return;
  }
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext, "kernels", /*disableVerification=*/true);
  if (!code) {
    part.error = "kernel '" + part.sources.front().symbol + "' or one after it expects to translate to LLVM";
    return;
  }
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  target.configure(*code, *machine, /*contract=*/!reference);
  optimizeModule(*code, *machine, /*vectorizes=*/true);
  part.object = emitObject(*code, *machine);
}

static void prepareContext(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect,
                      LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
}

llvm::Expected<NativeTarget> NativeOptions::createTarget() const {
  return exactFeatures ? NativeTarget::withFeatures(cpu, *exactFeatures) : NativeTarget::create(cpu, features);
}

SmallVector<plan::NativeKernelOp> nativeKernelsOf(ModuleOp module) {
  return llvm::to_vector(llvm::make_filter_range(
      module.getOps<plan::NativeKernelOp>(), [](plan::NativeKernelOp kernel) { return kernel.getDriver() != "cuda"; }));
}

NativeOptions nativeOptionsOf(ModuleOp module, StringRef cpu) {
  NativeOptions options;
  options.cpu = cpu.str();
  if (auto processor = plan::getProcessor(module); processor && cpu.empty()) {
    options.cpu = processor->name.str();
    options.exactFeatures.emplace();
    for (StringRef feature : processor->features)
      options.exactFeatures->push_back(feature.str());
  }
  return options;
}

llvm::Expected<NativeObject> compileNativeKernels(MLIRContext &context, ArrayRef<NativeKernelSource> kernels,
                                                  const NativeOptions &options) {
  auto target = options.createTarget();
  if (!target)
    return target.takeError();
  prepareContext(context);
  std::vector<Part> parts;
  for (ArrayRef<NativeKernelSource> rest = kernels; !rest.empty();
       rest = rest.drop_front(parts.back().sources.size())) {
    parts.emplace_back();
    parts.back().sources = rest.take_front(kernelsPerPart);
  }
  forEachInThreads(context, options.threads, parts.size(),
                   [&](size_t i) { compilePart(context, parts[i], *target, options.reference); });

  NativeObject object;
  object.triple = target->getTriple();
  object.cpu = target->getCpu();
  object.features = target->getFeatures();
  std::vector<SmallVector<char, 0>> objects;
  for (Part &part : parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    object.kernels.insert(object.kernels.end(), part.infos.begin(), part.infos.end());
    objects.push_back(std::move(part.object));
  }
  auto image = linkSharedObject(objects);
  if (!image)
    return image.takeError();
  object.image = std::move(*image);
  return object;
}

} // namespace cleave
