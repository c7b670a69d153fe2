// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of native kernels: dfg, linalg, loops, LLVM, one shared object.

#include "passes/codegen/NativeKernels.h"

#include "passes/codegen/LinkObject.h"
#include "passes/codegen/LowerBody.h"
#include "passes/codegen/NativeEmission.h"
#include "passes/codegen/NativeFusion.h"
#include "passes/codegen/NativeLowering.h"
#include "passes/codegen/NativeTarget.h"

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

#include <atomic>
#include <ctime>
#include <thread>

using namespace mlir;

namespace cleave {

namespace {

/// Adds the thread's processor time since the last call to one entry after the other.
class Stopwatch {
public:
  void addTo(double &seconds) {
    double now = read();
    seconds += now - last;
    last = now;
  }

private:
  static double read() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double last = read();
};

/// A part of the kernels that is compiled on its own.
struct Part {
  ArrayRef<KernelSource> sources;
  SmallVector<NativeKernelInfo> infos;
  SmallVector<char, 0> object;
  NativeTimes times;
  std::string error;
};

/// Kernels a part: enough to spread over threads, few enough parts that their fixed cost does not count. The same for
/// any number of threads, so that the object is the same.
constexpr size_t kernelsPerPart = 6;

} // namespace

static LogicalResult buildKernel(ModuleOp module, const KernelSource &source, bool reference,
                                 const VectorRegisters &registers, NativeKernelInfo &info, NativeTimes &times) {
  Stopwatch watch;
  OwningOpRef<ModuleOp> tensors = ModuleOp::create(module.getLoc());
  auto function = lowerToFunction(*tensors, source.symbol, *source.body);
  if (failed(function))
    return failure();
  if (!reference)
    fuseLinalgOperations(*function);
  watch.addTo(times.linalg);
  Block &block = function->getBody().front();
  Storage storage(block);
  SmallVector<bool> onStack;
  NestPlan plan = planNests(block, storage, reference, registers, onStack);
  info.parallelExtent = plan.parallelExtent;
  info.scratchBytes = emitKernel(module, source.symbol, plan, storage, onStack, !reference);
  watch.addTo(times.loops);
  return success();
}

/// Of the widest vectors that the code generator is told to use.
static VectorRegisters registersOf(const NativeTarget &target) {
  if (target.hasFeature("avx512vl"))
    return {64, 32};
  return target.hasFeature("avx") ? VectorRegisters{32, 16} : VectorRegisters{16, 16};
}

static void compilePart(MLIRContext &context, Part &part, const NativeTarget &target, bool reference) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  part.infos.resize(part.sources.size());
  for (auto [source, info] : llvm::zip(part.sources, part.infos))
    if (failed(buildKernel(*module, source, reference, registersOf(target), info, part.times))) {
      part.error = "kernel '" + source.symbol + "' expects operators with a reference meaning";
      return;
    }
  Stopwatch watch;
  // The polynomials are made of fused multiply-adds.
  if (failed(lowerToLlvmDialect(*module, /*exactFunctions=*/reference || !target.hasFeature("fma")))) {
    part.error = "kernel '" + part.sources.front().symbol + "' or one after it expects to lower to LLVM";
    return;
  }
  watch.addTo(part.times.dialect);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext, "kernels", /*disableVerification=*/true);
  if (!code) {
    part.error = "kernel '" + part.sources.front().symbol + "' or one after it expects to translate to LLVM";
    return;
  }
  watch.addTo(part.times.translate);
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  target.configure(*code, *machine, /*contract=*/!reference);
  optimizeModule(*code, *machine, /*vectorizes=*/true);
  watch.addTo(part.times.optimize);
  part.object = emitObject(*code, *machine);
  watch.addTo(part.times.emit);
}

static void prepareContext(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect,
                      LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
}

static void compileParts(MLIRContext &context, MutableArrayRef<Part> parts, const NativeTarget &target,
                         const NativeOptions &options) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++)
      compilePart(context, parts[i], target, options.reference);
  };
  // A context without threads has no locks.
  size_t count = context.isMultithreadingEnabled() ? std::min<size_t>(options.threads, parts.size()) : 1;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

static void operator+=(NativeTimes &sum, const NativeTimes &times) {
  for (double NativeTimes::*entry :
       {&NativeTimes::linalg, &NativeTimes::loops, &NativeTimes::dialect, &NativeTimes::translate,
        &NativeTimes::optimize, &NativeTimes::emit, &NativeTimes::link})
    sum.*entry += times.*entry;
}

llvm::Expected<NativeObject> compileNativeKernels(MLIRContext &context, ArrayRef<KernelSource> kernels,
                                                  const NativeOptions &options) {
  auto target = options.exactFeatures ? NativeTarget::withFeatures(options.cpu, *options.exactFeatures)
                                      : NativeTarget::create(options.cpu, options.features);
  if (!target)
    return target.takeError();
  prepareContext(context);
  std::vector<Part> parts;
  for (ArrayRef<KernelSource> rest = kernels; !rest.empty(); rest = rest.drop_front(parts.back().sources.size())) {
    parts.emplace_back();
    parts.back().sources = rest.take_front(kernelsPerPart);
  }
  compileParts(context, parts, *target, options);

  NativeObject object;
  object.triple = target->getTriple();
  object.cpu = target->getCpu();
  object.features = target->getFeatures();
  std::vector<SmallVector<char, 0>> objects;
  for (Part &part : parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    object.kernels.insert(object.kernels.end(), part.infos.begin(), part.infos.end());
    object.times += part.times;
    objects.push_back(std::move(part.object));
  }
  Stopwatch watch;
  auto image = linkSharedObject(objects);
  if (!image)
    return image.takeError();
  object.image = std::move(*image);
  watch.addTo(object.times.link);
  return object;
}

} // namespace cleave
