// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of kernel libraries of the cuda driver.

#include "runtime/drivers/cuda/CudaLibraryKernel.h"

namespace cleave::runtime {

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudaLibraryKernel(const Kernel &kernel, const LibraryKernel &library) {
  return makeError(Status::Unsupported, "kernel \"", kernel.name, "\" needs library \"", library.library,
                   "\", which the driver cuda of this build lacks");
}

} // namespace cleave::runtime
