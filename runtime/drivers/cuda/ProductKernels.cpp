// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and launches the kernels of Products.cu.

#include "runtime/drivers/cuda/ProductKernels.h"

#include <algorithm>

/// The PTX of Products.cu, with a zero at its end.
extern "C" const unsigned char cleaveProductsPtx[];

namespace cleave::runtime {

Expected<ProductKernels> ProductKernels::load(const CudaRuntime &cuda, ElementType element) {
  constexpr uint32_t threads = 256;
  auto code = CudaModule::share(cuda, cleaveProductsPtx, "kernels around products");
  if (!code)
    return code.error();
  ProductKernels kernels;
  for (auto [name, kernel] :
       {std::pair{"gather", &kernels.gatherKernel}, {"spread", &kernels.spreadKernel}, {"sum", &kernels.sumKernel}}) {
    auto found = (*code)->find(cuda, "cleave_" + std::string(name) + "_" + std::string(elementName(element)), threads);
    if (!found)
      return found.error();
    *kernel = *found;
  }
  kernels.cuda = &cuda;
  kernels.code = std::move(*code);
  return kernels;
}

Error ProductKernels::launch(cudaKernel_t kernel, std::span<uint64_t> values, uint64_t elements,
                             cudaStream_t stream) const {
  constexpr uint32_t threads = 256;
  /// Blocks that keep any GPU busy; more would only wait.
  constexpr uint64_t mostBlocks = 2048;
  std::vector<void *> addresses;
  for (uint64_t &value : values)
    addresses.push_back(&value);
  auto blocks = static_cast<uint32_t>(std::clamp<uint64_t>((elements + threads - 1) / threads, 1, mostBlocks));
  cudaError_t code = cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks), dim3(threads),
                                            addresses.data(), 0, stream);
  return checkCuda(*cuda, code, "launching a kernel beside a product");
}

Error ProductKernels::step(cudaKernel_t kernel, void *to, const void *from, uint64_t count, const WindowSteps &steps,
                           cudaStream_t stream) const {
  std::vector<uint64_t> values = {reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), count};
  for (const auto *sizes : {&steps.compact, &steps.data, &steps.strides})
    values.insert(values.end(), sizes->begin(), sizes->end());
  return launch(kernel, values, count, stream);
}

Error ProductKernels::gather(void *compact, const void *data, const WindowSteps &steps, cudaStream_t stream) const {
  return step(gatherKernel, compact, data, steps.compactElements(), steps, stream);
}

Error ProductKernels::spread(void *data, const void *compact, const WindowSteps &steps, cudaStream_t stream) const {
  return step(spreadKernel, data, compact, steps.dataElements(), steps, stream);
}

Error ProductKernels::sum(void *result, const void *partial, uint64_t count, uint64_t parts,
                          cudaStream_t stream) const {
  uint64_t values[] = {reinterpret_cast<uint64_t>(result), reinterpret_cast<uint64_t>(partial), count, parts};
  return launch(sumKernel, values, count, stream);
}

} // namespace cleave::runtime
