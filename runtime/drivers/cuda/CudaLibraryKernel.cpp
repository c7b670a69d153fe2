// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of kernel libraries of the cuda driver.

#include "runtime/drivers/cuda/CudaLibraryKernel.h"

#include "runtime/drivers/cuda/CublasLtKernel.h"
#include "runtime/drivers/cuda/CudnnKernel.h"

namespace cleave::runtime {

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudaLibraryKernel(const Kernel &kernel, const LibraryKernel &library) {
  LibraryKernelDesc desc = describeLibraryKernel(kernel, library);
  for (const std::vector<TensorType> *types : {&desc.inputs, &desc.outputs})
    for (const TensorType &type : *types)
      if (Error error = type.check())
        return error;
  if (library.library == "cublaslt")
    return loadCublasLtKernel(desc);
  if (library.library == "cudnn")
    return loadCudnnKernel(desc);
  return makeError(Status::Unsupported, "kernel \"", kernel.name, "\" needs library \"", library.library,
                   "\", which the driver cuda lacks; compile the model for a device of this driver");
}

} // namespace cleave::runtime
