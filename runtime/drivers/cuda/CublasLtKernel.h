// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of matrices by cuBLASLt.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTKERNEL_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTKERNEL_H

#include "runtime/LibraryKernelDesc.h"
#include "runtime/drivers/cuda/CudaLibraryKernel.h"

namespace cleave::runtime {

/// loadCudaLibraryKernel for "cublaslt".
Expected<std::unique_ptr<CudaLibraryKernel>> loadCublasLtKernel(const LibraryKernelDesc &desc);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTKERNEL_H
