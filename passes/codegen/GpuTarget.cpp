// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes the GPU to LLVM, links CUDA's mathematical library, and writes PTX.

#include "passes/codegen/GpuTarget.h"

#include "passes/codegen/NativeTarget.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

#include <cstdlib>
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace llvm;

namespace cleave {

static const Target *findTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(Triple(ptxTriple), message);
  assert(target && "the target is registered");
  return target;
}

Expected<GpuTarget> GpuTarget::create(StringRef chip) {
  constexpr unsigned oldest = 80;
  unsigned version = 0;
  StringRef digits = chip;
  bool hasVersion = digits.consume_front("sm_") && !digits.consumeInteger(10, version);
  std::unique_ptr<MCSubtargetInfo> known(findTarget()->createMCSubtargetInfo(Triple(ptxTriple), "", ""));
  if (!hasVersion || version < oldest || !known->isCPUStringValid(chip))
    return createStringError("kernels for GPUs expect an architecture from sm_80 on that LLVM knows, got '" + chip +
                             "'");
  GpuTarget target;
  target.chip = chip.str();
  // The oldest version that knows all of sm_90 and lets kernels have more than 544 arguments, of CUDA 12.1; newer chips
  // have their own.
  if (version <= 90)
    target.features = "+ptx81";
  return target;
}

std::unique_ptr<TargetMachine> GpuTarget::createMachine() const {
  return std::unique_ptr<TargetMachine>(findTarget()->createTargetMachine(
      Triple(ptxTriple), chip, features, TargetOptions(), std::nullopt, std::nullopt, CodeGenOptLevel::Default));
}

void GpuTarget::configure(Module &module, const TargetMachine &machine) const {
  module.setTargetTriple(Triple(ptxTriple));
  module.setDataLayout(machine.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", chip);
    if (!features.empty())
      function.addFnAttr("target-features", features);
    function.addFnAttr(Attribute::NoUnwind);
    // Keeps LLVM from joining loads by itself: it would read what lies behind the end of a buffer, too, up to the next
    // multiple of 16 bytes. Ours are vectors where these are whole.
    function.addFnAttr(Attribute::NoImplicitFloat);
    for (Instruction &instruction : instructions(function))
      if (isa<FPMathOperator>(instruction))
        instruction.setHasAllowContract(true);
  }
}

//===-- the mathematical library ------------------------------------------------------------------------------===//

/// Where a toolkit has the library, relative to itself.
static constexpr StringLiteral libraryPath = "nvvm/libdevice/libdevice.10.bc";

static Expected<const MemoryBuffer *> findLibrary() {
  static std::mutex mutex;
  static std::unique_ptr<MemoryBuffer> library;
  std::lock_guard<std::mutex> lock(mutex);
  if (library)
    return library.get();
  SmallVector<std::string, 3> toolkits;
  if (const char *path = std::getenv("CUDA_PATH"))
    toolkits.push_back(path);
  if (!StringRef(CLEAVE_CUDA_PATH).empty())
    toolkits.push_back(CLEAVE_CUDA_PATH);
  toolkits.push_back("/usr/local/cuda");
  for (const std::string &toolkit : toolkits) {
    SmallString<128> path(toolkit);
    sys::path::append(path, libraryPath);
    if (auto file = MemoryBuffer::getFile(path)) {
      library = std::move(*file);
      return library.get();
    }
  }
  return createStringError("mathematical functions on GPUs expect CUDA's libdevice at '" + toolkits.front() + "/" +
                           libraryPath + "', found none; set CUDA_PATH to where the CUDA toolkit is");
}

static bool callsLibrary(const Module &module) {
  return any_of(module, [](const Function &function) {
    return function.isDeclaration() && function.getName().starts_with("__nv_");
  });
}

Error linkDeviceLibrary(Module &module) {
  if (!callsLibrary(module))
    return Error::success();
  auto buffer = findLibrary();
  if (!buffer)
    return buffer.takeError();
  auto library = getLazyBitcodeModule((*buffer)->getMemBufferRef(), module.getContext());
  if (!library)
    return library.takeError();
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (Linker::linkModules(module, std::move(*library), Linker::LinkOnlyNeeded))
    return createStringError("CUDA's libdevice does not link");
  for (const Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with("__nv_"))
      return createStringError("CUDA's libdevice has no function '" + function.getName() + "'");
  return Error::success();
}

void makeLocal(Module &module, const Twine &suffix) {
  for (GlobalValue &value : module.global_values()) {
    auto *function = dyn_cast<Function>(&value);
    if (value.isDeclaration() || (function && function->getCallingConv() == CallingConv::PTX_Kernel))
      continue;
    value.setLinkage(GlobalValue::InternalLinkage);
    value.setName(value.getName() + suffix);
  }
}

//===-- code --------------------------------------------------------------------------------------------------===//

void optimizeForGpu(Module &module, TargetMachine &machine) {
  PassInstrumentationCallbacks callbacks;
  // It takes vectors apart that are loaded, counting on others to join them again.
  callbacks.registerShouldRunOptionalPassCallback(
      [](StringRef name, Any) { return !name.starts_with("VectorCombine"); });
  optimizeModule(module, machine, /*vectorizes=*/false, &callbacks);
}

std::string emitPtx(Module &module, TargetMachine &machine) {
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::AssemblyFile, /*DisableVerify=*/true))
    reportFatalInternalError("LLVM emits no PTX");
  passes.run(module);
  return text.str().str();
}

std::string joinPtx(ArrayRef<std::string> texts) {
  constexpr StringLiteral lastOfHeader = ".address_size 64\n";
  std::string joined;
  for (StringRef text : texts) {
    size_t body = text.find(lastOfHeader) + lastOfHeader.size();
    joined += joined.empty() ? text : text.substr(body);
  }
  return joined;
}

} // namespace cleave
