// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries libraries and writes their answers as plan.library_kernel. The table of libraries by driver is here.

#include "passes/codegen/LibraryKernels.h"

#include "passes/codegen/LayoutTypes.h"

#include "dialects/dfg/PlainScores.h"
#include "runtime/drivers/cpu/OneDnn.h"
#include "runtime/drivers/cuda/rules/CudaLibraries.h"
#include "runtime/drivers/cuda/rules/CudnnAttention.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace cleave {

// The search counts the memory that the library takes.
static_assert(dfg::mostKeptScores == runtime::CudnnAttention::mostScores);

KernelDevice kernelDeviceOf(dist::ProgramOp program) {
  dist::Device device = dist::getDeviceOf(program);
  if (device.isGpu())
    return {&runtime::cudaLibraries(), 1};
  auto processor = plan::getProcessor(program->getParentOfType<ModuleOp>());
  bool isWide = !processor || processor->hasFeature("avx512f");
  int64_t lanes = isWide ? 16 : processor->hasFeature("avx") ? 8 : 4;
  // Without VNNI AVX2 multiplies twice as many integers as reals; with AVX-512 there are as many reals.
  bool hasIntegers = processor && (processor->hasFeature("avx512vnni") || processor->hasFeature("avxvnni") ||
                                   (processor->hasFeature("avx2") && !processor->hasFeature("avx512f")));
  return {&runtime::oneDnnLibrary(), static_cast<unsigned>(device.cores), lanes, hasIntegers};
}

/// Everything that tells kernels apart, as text.
static std::string keyOf(const runtime::LibraryKernelDesc &desc, ArrayRef<bool> anyInputs, ArrayRef<bool> anyOutputs,
                         MLIRContext *context) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  stream << desc.library << '.' << desc.operation;
  for (const auto &[name, values] : desc.ints) {
    stream << ' ' << name << '=';
    llvm::interleaveComma(values, stream);
  }
  for (const auto &[name, values] : desc.reals) {
    stream << ' ' << name << '=';
    llvm::interleave(values, stream, [&](double value) { stream << llvm::format("%a", value); }, ",");
  }
  for (const runtime::LibraryPostOp &post : desc.postOps)
    stream << ' ' << post.kind << '(' << llvm::format("%a,%a", post.alpha, post.beta) << ',' << post.argument << ')';
  for (const runtime::TensorType &type : desc.inputs)
    stream << ' ' << fromRuntimeType(context, type);
  for (bool any : anyInputs)
    stream << any;
  stream << " ->";
  for (const runtime::TensorType &type : desc.outputs)
    stream << ' ' << fromRuntimeType(context, type);
  for (bool any : anyOutputs)
    stream << any;
  return key;
}

FailureOr<LibraryKernel> LibraryKernels::get(const runtime::LibraryKernelQuery &query, KernelDevice device) {
  MLIRContext *context = module.getContext();
  SmallVector<bool> anyInputs(query.anyInputs.begin(), query.anyInputs.end());
  SmallVector<bool> anyOutputs(query.anyOutputs.begin(), query.anyOutputs.end());
  std::string suffix = (" on " + StringRef(device.library->name()) + " of " + Twine(device.threads)).str();
  std::string key = keyOf(query.desc, anyInputs, anyOutputs, context) + suffix;
  for (bool isConstant : query.constantInputs)
    key += isConstant ? " constant" : " -";
  key += query.sharesConstants ? " shared" : "";
  if (auto found = byQuery.find(key); found != byQuery.end())
    return found->second;
  if (refused.contains(key))
    return failure();
  runtime::LibraryKernelQuery asked = query;
  asked.mayTransform = device.mayTransform;
  auto choice = device.library->choose(asked, device.threads);
  if (!choice) {
    refused.insert(key);
    return failure();
  }
  return byQuery[key] = insert(*choice, suffix);
}

const LibraryKernel &LibraryKernels::insert(const runtime::LibraryChoice &choice, StringRef suffix) {
  const runtime::LibraryKernelDesc &desc = choice.desc;
  MLIRContext *context = module.getContext();
  LibraryKernel kernel;
  for (const auto &[input, packing] : choice.packings)
    kernel.packings[input] = insert({packing, {}, {}}, suffix).symbol;
  auto [entry, inserted] = byKernel.try_emplace(keyOf(desc, {}, {}, context) + suffix.str());
  if (!inserted)
    return entry->second;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<NamedAttribute> parameters;
  for (const auto &[name, values] : desc.ints)
    parameters.push_back(builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values)));
  for (const auto &[name, values] : desc.reals)
    parameters.push_back(builder.getNamedAttr(name, builder.getDenseF64ArrayAttr(values)));
  SmallVector<Attribute> postOps;
  for (const runtime::LibraryPostOp &post : desc.postOps)
    postOps.push_back(plan::PostOpAttr::get(context, post.kind, builder.getF64FloatAttr(post.alpha),
                                            builder.getF64FloatAttr(post.beta), post.argument));
  SmallVector<Type> inputs, outputs;
  for (const runtime::TensorType &type : desc.inputs)
    inputs.push_back(kernel.inputs.emplace_back(fromRuntimeType(context, type)));
  for (const runtime::TensorType &type : desc.outputs)
    outputs.push_back(kernel.outputs.emplace_back(fromRuntimeType(context, type)));
  std::string name = desc.library + "." + desc.operation + "." + std::to_string(byKernel.size() - 1);
  kernel.symbol = FlatSymbolRefAttr::get(context, name);
  plan::LibraryKernelOp::create(builder, builder.getUnknownLoc(), name, desc.library, desc.operation,
                                builder.getDictionaryAttr(parameters), builder.getFunctionType(inputs, outputs),
                                builder.getArrayAttr(postOps), desc.implementation, desc.scratchBytes);
  kernel.quality = choice.quality;
  return entry->second = std::move(kernel);
}

} // namespace cleave
