// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes the processor to LLVM and runs its optimizer and code generator.

#include "passes/codegen/NativeTarget.h"

#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Operator.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"

#include <cstdlib>
#include <mutex>
#include <set>

using namespace llvm;

namespace cleave {

/// Features that matter to the loops that we compile, and to libraries' choices of kernels. Others that a processor has
/// are left out, so that a plan runs on as many machines as its speed allows.
static constexpr StringLiteral usefulFeatures[] = {
    "amx-bf16",   "amx-int8",        "amx-tile", "avx",        "avx2",       "avx512bf16", "avx512bitalg", "avx512bw",
    "avx512cd",   "avx512dq",        "avx512f",  "avx512fp16", "avx512ifma", "avx512vbmi", "avx512vbmi2",  "avx512vl",
    "avx512vnni", "avx512vpopcntdq", "avxvnni",  "bmi",        "bmi2",       "cx16",       "f16c",         "fma",
    "lzcnt",      "movbe",           "popcnt",   "sse3",       "sse4.1",     "sse4.2",     "ssse3"};

/// `cpu` as LLVM names it, or "native".
static std::set<std::string> knownFeatures(StringRef cpu) {
  std::set<std::string> all;
  if (cpu == nativeCpu) {
    for (const auto &feature : sys::getHostCPUFeatures())
      if (feature.second)
        all.insert(feature.first().str());
  } else {
    SmallVector<StringRef> ofCpu;
    X86::getFeaturesForCPU(cpu, ofCpu);
    // LLVM leaves out what others imply.
    StringMap<bool> implied;
    for (StringRef feature : ofCpu) {
      all.insert(feature.str());
      X86::updateImpliedFeatures(feature, /*Enabled=*/true, implied);
    }
    for (const auto &feature : implied)
      if (feature.second)
        all.insert(feature.first().str());
  }
  std::set<std::string> useful;
  for (StringRef feature : usefulFeatures)
    if (all.count(feature.str()))
      useful.insert(feature.str());
  return useful;
}

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
}

Expected<NativeTarget> NativeTarget::create(StringRef cpu, StringRef changes) {
  if (cpu.empty())
    if (const char *limit = std::getenv("CLEAVE_CPU"))
      cpu = limit;
  if (cpu.empty())
    cpu = nativeCpu;
  std::set<std::string> features;
  SmallVector<StringRef> parts;
  cpu.split(parts, '+');
  for (auto [index, part] : enumerate(parts)) {
    if (part != nativeCpu && X86::parseArchX86(part, /*Only64Bit=*/true) == X86::CK_None)
      return createStringError("native kernels expect native or an x86-64 processor as LLVM names it, as x86-64-v3, "
                               "got '" +
                               part + "'");
    std::set<std::string> known = knownFeatures(part);
    if (index == 0)
      features = known;
    else
      set_intersect(features, known);
  }
  SmallVector<StringRef> each;
  changes.split(each, ',', -1, /*KeepEmpty=*/false);
  for (StringRef change : each) {
    if (change.consume_front("-"))
      features.erase(change.str());
    else
      features.insert(change.ltrim('+').str());
  }
  std::string name = cpu == nativeCpu ? sys::getHostCPUName().str() : cpu.str();
  return withFeatures(name, std::vector<std::string>(features.begin(), features.end()));
}

Expected<NativeTarget> NativeTarget::withFeatures(StringRef cpu, ArrayRef<std::string> features) {
  initializeTarget();
  NativeTarget target;
  target.triple = sys::getDefaultTargetTriple();
  if (!Triple(target.triple).isX86_64())
    return createStringError("native kernels expect an x86-64 machine, got '" + target.triple + "'");
  target.cpu = cpu.str();
  // Of several processors the first.
  target.tuneCpu = cpu.split('+').first.str();
  if (target.tuneCpu == nativeCpu)
    target.tuneCpu = sys::getHostCPUName().str();
  target.features = features;
  for (const std::string &feature : target.features)
    target.featureString += (target.featureString.empty() ? "+" : ",+") + feature;
  return target;
}

std::unique_ptr<TargetMachine> NativeTarget::createMachine() const {
  std::string message;
  Triple parsed(triple);
  const Target *target = TargetRegistry::lookupTarget(parsed, message);
  assert(target && "the host's target is registered");
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      parsed, "x86-64", featureString, TargetOptions(), Reloc::PIC_, std::nullopt, CodeGenOptLevel::Default));
}

static bool hasBrainFloats(const Module &module) {
  auto isBrain = [](const Value *value) { return value->getType()->getScalarType()->isBFloatTy(); };
  return llvm::any_of(module, [&](const Function &function) {
    return llvm::any_of(instructions(function), [&](const Instruction &instruction) {
      return isBrain(&instruction) || llvm::any_of(instruction.operands(), isBrain);
    });
  });
}

/// Processors without instructions for bfloat16 have a vector of one such number made by way of float32, and the way
/// back is a call to the compiler's library, which not every system has: rounds to nearest, ties to even, and keeps
/// NaN.
static void defineRoundingToBrain(Module &module) {
  LLVMContext &context = module.getContext();
  IRBuilder<> builder(context);
  auto *type = FunctionType::get(builder.getBFloatTy(), {builder.getFloatTy()}, /*isVarArg=*/false);
  // Every part of the kernels that has such numbers defines it: only the code generator knows whether it is called.
  auto *function = Function::Create(type, GlobalValue::WeakODRLinkage, "__truncsfbf2", module);
  function->setVisibility(GlobalValue::HiddenVisibility);
  builder.SetInsertPoint(BasicBlock::Create(context, "", function));
  Value *bits = builder.CreateBitCast(function->getArg(0), builder.getInt32Ty());
  Value *odd = builder.CreateAnd(builder.CreateLShr(bits, 16), 1);
  Value *rounded = builder.CreateLShr(builder.CreateAdd(bits, builder.CreateAdd(odd, builder.getInt32(0x7fff))), 16);
  Value *quiet = builder.CreateLShr(builder.CreateOr(bits, 0x400000), 16);
  Value *isNan = builder.CreateICmpUGT(builder.CreateAnd(bits, 0x7fffffff), builder.getInt32(0x7f800000));
  Value *result = builder.CreateTrunc(builder.CreateSelect(isNan, quiet, rounded), builder.getInt16Ty());
  builder.CreateRet(builder.CreateBitCast(result, builder.getBFloatTy()));
}

void NativeTarget::configure(Module &module, const TargetMachine &machine, bool contract) const {
  module.setTargetTriple(Triple(triple));
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(PICLevel::BigPIC);
  if (!hasFeature("avx512bf16") && hasBrainFloats(module))
    defineRoundingToBrain(module);
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", "x86-64");
    function.addFnAttr("tune-cpu", tuneCpu);
    function.addFnAttr("target-features", featureString);
    function.addFnAttr("prefer-vector-width", hasFeature("avx512vl") ? "512" : "256");
    function.addFnAttr(Attribute::NoUnwind);
    bool makesIntegers = llvm::any_of(
        instructions(function), [](Instruction &instruction) { return isa<FPToSIInst, FPToUIInst>(instruction); });
    if (contract && !makesIntegers)
      for (Instruction &instruction : instructions(function))
        if (isa<FPMathOperator>(instruction))
          instruction.setHasAllowContract(true);
  }
}

void optimizeModule(Module &module, TargetMachine &machine, bool vectorizes, PassInstrumentationCallbacks *callbacks) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = vectorizes;
  tuning.SLPVectorization = vectorizes;
  tuning.LoopUnrolling = true;
  tuning.LoopInterleaving = true;
  PassBuilder builder(&machine, tuning, std::nullopt, callbacks);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
}

SmallVector<char, 0> emitObject(Module &module, TargetMachine &machine) {
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::ObjectFile, /*DisableVerify=*/true))
    reportFatalInternalError("the host's target emits no object files");
  passes.run(module);
  return object;
}

} // namespace cleave
