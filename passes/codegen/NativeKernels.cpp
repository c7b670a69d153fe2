// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of native kernels from decided loops: scf, LLVM, one shared object.

#include "passes/codegen/NativeKernels.h"

#include "passes/codegen/KernelThreads.h"
#include "passes/codegen/LinkObject.h"
#include "passes/codegen/NativeEmission.h"
#include "passes/codegen/NativeLowering.h"
#include "passes/codegen/NestAttributes.h"
#include "passes/codegen/ObjectCache.h"

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
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace cleave {

namespace {

/// A kernel compiled in a module of its own: its code does not depend on the plan's other kernels.
struct CompiledKernel {
  NativeKernelInfo info;
  SmallVector<char, 0> object;
  std::string error;
};

} // namespace

FailureOr<NativeKernelInfo> writeNativeLoops(ModuleOp module, plan::NativeKernelOp kernel, StringRef symbol,
                                             bool reference) {
  if (kernel.getLoops().empty())
    return kernel.emitOpError("expects loops, found none; run --codegen-choose-native-loops before");
  Block &block = kernel.getLoops().front();
  Storage storage(block);
  FailureOr<NestPlan> plan = readNests(block, kernel.getCommonAttr(), storage);
  if (failed(plan))
    return failure();
  NativeKernelInfo info;
  info.symbol = symbol.str();
  info.parallelExtent = plan->parallelExtent;
  info.scratchBytes = emitKernel(module, symbol, *plan, storage, !reference);
  kernel.removeCommonAttr();
  kernel.getLoops().getBlocks().clear();
  return info;
}

/// Compiles a kernel, or takes its object from the cache. Its function is named by its content.
static CompiledKernel compileKernel(MLIRContext &context, plan::NativeKernelOp kernel, const NativeTarget &target,
                                    bool reference, const ObjectCache &cache) {
  constexpr StringLiteral unnamed = "cleave_kernel";
  CompiledKernel compiled;
  std::string name = "kernel '" + kernel.getSymName().str() + "'";
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  auto info = writeNativeLoops(*module, kernel, unnamed, reference);
  if (failed(info)) {
    compiled.error = name + " has no loops that can be written";
    return compiled;
  }
  // The polynomials are made of fused multiply-adds.
  if (failed(lowerToLlvmDialect(*module, /*exactFunctions=*/reference || !target.hasFeature("fma")))) {
    compiled.error = name + " expects to lower to LLVM";
    return compiled;
  }
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext, "kernels", /*disableVerification=*/true);
  if (!code) {
    compiled.error = name + " expects to translate to LLVM";
    return compiled;
  }
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  target.configure(*code, *machine, /*contract=*/!reference);
  std::string content = contentName(*code);
  compiled.info = *info;
  compiled.info.symbol = (unnamed + "_" + content).str();
  if (auto object = cache.find(content)) {
    compiled.object = std::move(*object);
    return compiled;
  }
  for (llvm::GlobalValue &value : code->global_values())
    if (StringRef rest = value.getName(); rest.consume_front(unnamed))
      value.setName(compiled.info.symbol + rest.str());
  optimizeModule(*code, *machine, /*vectorizes=*/true);
  compiled.object = emitObject(*code, *machine);
  cache.keep(content, compiled.object);
  return compiled;
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

llvm::Expected<NativeObject> compileNativeKernels(MLIRContext &context, ArrayRef<plan::NativeKernelOp> kernels,
                                                  const NativeOptions &options) {
  auto target = options.createTarget();
  if (!target)
    return target.takeError();
  prepareContext(context);
  ObjectCache cache = ObjectCache::ofUser();
  std::vector<CompiledKernel> compiled(kernels.size());
  forEachInThreads(context, options.threads, kernels.size(), [&](size_t i) {
    compiled[i] = compileKernel(context, kernels[i], *target, options.reference, cache);
  });
  cache.prune();

  NativeObject object;
  object.triple = target->getTriple();
  object.cpu = target->getCpu();
  object.features = target->getFeatures();
  std::vector<SmallVector<char, 0>> objects;
  llvm::StringSet<> linked;
  for (CompiledKernel &kernel : compiled) {
    if (!kernel.error.empty())
      return llvm::createStringError(kernel.error);
    // Kernels of the same code are one.
    if (linked.insert(kernel.info.symbol).second)
      objects.push_back(std::move(kernel.object));
    object.kernels.push_back(std::move(kernel.info));
  }
  auto image = linkSharedObject(objects);
  if (!image)
    return image.takeError();
  object.image = std::move(*image);
  return object;
}

} // namespace cleave
