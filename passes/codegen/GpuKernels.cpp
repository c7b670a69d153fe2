// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of kernels for GPUs from decided launches: LLVM, PTX.

#include "passes/codegen/GpuKernels.h"

#include "passes/codegen/GpuEmission.h"
#include "passes/codegen/GpuLaunchAttributes.h"
#include "passes/codegen/GpuLowering.h"
#include "passes/codegen/GpuTarget.h"
#include "passes/codegen/KernelThreads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace cleave {

namespace {

/// A part of the kernels that is compiled on its own.
struct GpuPart {
  size_t number = 0;
  ArrayRef<GpuKernelSource> sources;
  std::vector<GpuKernelInfo> infos;
  std::string ptx, error;
};

/// As for processors: enough to spread over threads, few enough that what each part costs does not count.
constexpr size_t gpuKernelsPerPart = 6;

} // namespace

FailureOr<GpuKernelInfo> writeGpuLaunches(ModuleOp module, const GpuKernelSource &source, bool runs) {
  plan::NativeKernelOp kernel = source.kernel;
  if (kernel.getLoops().empty() || !kernel.getMappings())
    return kernel.emitOpError("expects launches, found none; run --codegen-choose-gpu-launches before");
  Storage storage(kernel.getLoops().front());
  FailureOr<GpuKernelPlan> plan = readLaunches(kernel, storage);
  if (failed(plan))
    return failure();
  for (Buffer &buffer : plan->buffers)
    buffer.isShared = llvm::any_of(source.overwrites, [&](auto pair) {
      return (buffer.kind == Buffer::Input && buffer.index == pair.first) ||
             (buffer.kind == Buffer::Output && buffer.index == pair.second);
    });
  GpuKernelInfo info;
  info.scratchBytes = plan->scratchBytes;
  for (ArrayRef<GpuLaunch> rest = plan->launches; !rest.empty();) {
    size_t count = 1;
    while (count < rest.size() && rest[count].isBeside)
      ++count;
    GpuFunction function{source.symbol + "_" + std::to_string(info.launches.size()), 0, rest.front().threads};
    for (const GpuLaunch &launch : rest.take_front(count))
      function.blocks += launch.blocks;
    if (runs)
      emitLaunches(module, function.symbol, *plan, rest.take_front(count), storage);
    info.launches.push_back(std::move(function));
    rest = rest.drop_front(count);
  }
  kernel.removeMappingsAttr();
  kernel.getLoops().getBlocks().clear();
  return info;
}

static llvm::Error compile(MLIRContext &context, GpuPart &part, const GpuTarget &target, const GpuOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (const GpuKernelSource &source : part.sources) {
    auto info = writeGpuLaunches(*module, source, options.runs);
    plan::NativeKernelOp kernel = source.kernel;
    if (failed(info))
      return llvm::createStringError("kernel '" + kernel.getSymName() + "' has no launches that can be written");
    part.infos.push_back(std::move(*info));
  }
  if (!options.runs)
    return llvm::Error::success();
  std::string name = "kernel '" + part.sources.front().symbol + "' or one after it";
  if (failed(lowerToNvvmDialect(*module)))
    return llvm::createStringError(name + " expects to lower to LLVM");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext, "kernels", /*disableVerification=*/true);
  if (!code)
    return llvm::createStringError(name + " expects to translate to LLVM");
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  target.configure(*code, *machine);
  if (llvm::Error error = linkDeviceLibrary(*code))
    return error;
  makeLocal(*code, "_part" + llvm::Twine(part.number));
  optimizeForGpu(*code, *machine);
  part.ptx = emitPtx(*code, *machine);
  return llvm::Error::success();
}

static void prepareGpuContext(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context
      .loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect,
                   LLVM::LLVMDialect, math::MathDialect, NVVM::NVVMDialect, scf::SCFDialect, tensor::TensorDialect>();
}

llvm::Expected<GpuObject> compileGpuKernels(MLIRContext &context, ArrayRef<GpuKernelSource> kernels,
                                            const GpuOptions &options) {
  auto target = GpuTarget::create(options.chip);
  if (!target)
    return target.takeError();
  prepareGpuContext(context);
  std::vector<GpuPart> parts;
  for (ArrayRef<GpuKernelSource> rest = kernels; !rest.empty(); rest = rest.drop_front(parts.back().sources.size())) {
    size_t number = parts.size();
    parts.push_back({number, rest.take_front(gpuKernelsPerPart), {}, {}, {}});
  }
  forEachInThreads(context, options.threads, parts.size(), [&](size_t i) {
    if (llvm::Error error = compile(context, parts[i], *target, options))
      parts[i].error = llvm::toString(std::move(error));
  });

  GpuObject object;
  object.chip = target->getChip();
  std::vector<std::string> texts;
  for (GpuPart &part : parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    object.kernels.insert(object.kernels.end(), part.infos.begin(), part.infos.end());
    texts.push_back(std::move(part.ptx));
  }
  if (options.runs)
    object.ptx = joinPtx(texts);
  return object;
}

} // namespace cleave
