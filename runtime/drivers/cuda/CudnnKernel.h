// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions and poolings by cuDNN, through its routines with a descriptor each: what plans have is what these have.
// Some convolutions are faster in other ways (ConvolutionWays.h). Attention is a graph of its backend.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNKERNEL_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNKERNEL_H

#include "runtime/LibraryKernelDesc.h"
#include "runtime/drivers/cuda/CudaLibraryKernel.h"
#include "runtime/drivers/cuda/CudnnApi.h"

namespace cleave::runtime {

/// loadCudaLibraryKernel for "cudnn".
Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnKernel(const LibraryKernelDesc &desc);

// CudnnConvolutionKernel.cpp
Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnConvolution(const CudaRuntime &cuda, const Cudnn &library,
                                                                  const LibraryKernelDesc &desc);
// CudnnPoolingKernel.cpp
Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnPooling(const CudaRuntime &cuda, const Cudnn &library,
                                                              const LibraryKernelDesc &desc);

// CudnnAttentionKernel.cpp
Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnAttention(const CudaRuntime &cuda, const Cudnn &library,
                                                                const LibraryKernelDesc &desc);

/// Says on standard error that a kernel's sums may be added in another order each time.
void noteOrder(const std::string &kernel);

/// The error with the kernel in front; success as it is.
Error inCudnnKernel(const LibraryKernelDesc &desc, const Error &error);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNKERNEL_H
