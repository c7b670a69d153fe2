// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and launches the kernels of Epilogue.cu.

#include "runtime/drivers/cuda/CudaEpilogue.h"

#include <algorithm>
#include <bit>
#include <iostream>
#include <set>

/// The PTX of Epilogue.cu, with a zero at its end.
extern "C" const unsigned char cleaveEpiloguePtx[];

namespace cleave::runtime {

constexpr uint32_t threadsOfBlock = 256;
/// Blocks that keep any GPU busy; more would only wait.
constexpr uint64_t mostBlocks = 2048;

static const char *nameOf(CudaEpilogueDesc::Activation activation) {
  switch (activation) {
  case CudaEpilogueDesc::Activation::None:
    break;
  case CudaEpilogueDesc::Activation::Relu:
    return "relu";
  case CudaEpilogueDesc::Activation::Gelu:
    return "gelu_tanh";
  case CudaEpilogueDesc::Activation::GeluGradient:
    return "gelu_tanh_gradient";
  }
  return "none";
}

std::string CudaEpilogueDesc::text() const {
  std::string text;
  auto append = [&](bool isThere, const char *part) {
    if (isThere)
      text += (text.empty() ? "" : ", ") + std::string(part);
  };
  append(bias >= 0, "bias");
  append(added >= 0, "addition");
  append(activation != Activation::None, nameOf(activation));
  return text;
}

Expected<CudaEpilogue> CudaEpilogue::load(const CudaRuntime &cuda, const CudaEpilogueDesc &desc) {
  CudaEpilogue epilogue;
  if (desc.isEmpty() || desc.elements == 0)
    return epilogue;
  auto code = CudaModule::share(cuda, cleaveEpiloguePtx, "kernels of epilogues");
  if (!code)
    return code.error();
  std::string symbol = "cleave_epilogue_" + std::string(elementName(desc.element)) + "_" + nameOf(desc.activation);
  auto kernel = (*code)->find(cuda, symbol, threadsOfBlock);
  if (!kernel)
    return kernel.error();
  epilogue.cuda = &cuda;
  epilogue.code = std::move(*code);
  epilogue.kernel = *kernel;
  epilogue.desc = desc;
  return epilogue;
}

Error CudaEpilogue::enqueue(void *result, void *const *arguments, cudaStream_t stream) const {
  if (!kernel)
    return Error::success();
  auto address = [&](int input) { return input < 0 ? uint64_t(0) : reinterpret_cast<uint64_t>(arguments[input]); };
  uint64_t values[] = {reinterpret_cast<uint64_t>(result),
                       address(desc.bias),
                       address(desc.added),
                       address(desc.saved),
                       desc.elements,
                       desc.channels,
                       desc.inner,
                       std::bit_cast<uint32_t>(desc.addedScale)};
  void *addresses[std::size(values)];
  for (size_t i = 0; i != std::size(values); ++i)
    addresses[i] = &values[i];
  auto blocks = std::clamp<uint64_t>((desc.elements + threadsOfBlock - 1) / threadsOfBlock, 1, mostBlocks);
  cudaError_t code = cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(static_cast<uint32_t>(blocks)),
                                            dim3(threadsOfBlock), addresses, 0, stream);
  return checkCuda(*cuda, code, "launching a kernel of an epilogue");
}

void noteEpilogue(const std::string &library, const CudaEpilogueDesc &desc, const std::string &kernel) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(library + ": " + desc.text()).second)
    std::cerr << "cleave: " + library + " has no algorithm for " + kernel + " with " + desc.text() +
                     ": a second kernel computes that, here and wherever else\n";
}

} // namespace cleave::runtime
