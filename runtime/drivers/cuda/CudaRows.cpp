// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and launches the kernels of Rows.cu.

#include "runtime/drivers/cuda/CudaRows.h"

#include "runtime/drivers/cuda/CudaRow.h"

#include <algorithm>

/// The PTX of Rows.cu, with a zero at its end.
extern "C" const unsigned char cleaveRowsPtx[];

namespace cleave::runtime {

/// Blocks that keep any GPU busy; more would only wait.
constexpr uint64_t mostBlocks = 2048;

Expected<CudaRows> CudaRows::load(const CudaRuntime &cuda, ElementType element) {
  auto code = CudaModule::share(cuda, cleaveRowsPtx, "kernels that copy rows");
  if (!code)
    return code.error();
  auto kernel = (*code)->find(cuda, "cleave_rows_" + std::to_string(elementBytes(element)), cudaRowThreads);
  if (!kernel)
    return kernel.error();
  CudaRows rows;
  rows.cuda = &cuda;
  rows.code = std::move(*code);
  rows.kernel = *kernel;
  rows.bytes = elementBytes(element);
  return rows;
}

Error CudaRows::enqueue(const void *source, void *target, const CudaRowsDesc &desc, cudaStream_t stream) const {
  uint64_t values[] = {reinterpret_cast<uint64_t>(source),
                       reinterpret_cast<uint64_t>(target),
                       desc.rows,
                       desc.width,
                       desc.sourceDistance,
                       desc.targetDistance,
                       desc.allRows,
                       desc.allWidth};
  void *addresses[std::size(values)];
  for (size_t i = 0; i != std::size(values); ++i)
    addresses[i] = &values[i];
  uint64_t pieces = desc.allRows * (desc.allWidth * bytes / sizeof(uint64_t[2]) / cudaRowPiece + 1);
  auto blocks = static_cast<uint32_t>(std::clamp<uint64_t>(pieces, 1, mostBlocks));
  cudaError_t status = cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks),
                                              dim3(cudaRowThreads), addresses, 0, stream);
  return checkCuda(*cuda, status, "launching a copy of rows");
}

} // namespace cleave::runtime
