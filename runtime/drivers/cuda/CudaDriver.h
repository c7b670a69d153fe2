// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver whose devices are NVIDIA GPUs, or shares of them: several devices of a plan may be on one GPU, each with
// its own memory and streams.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDADRIVER_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDADRIVER_H

#include "runtime/Driver.h"

namespace cleave::runtime {

/// The driver "cuda". Status::Unsupported without the CUDA runtime or with several processes, Status::Infeasible
/// without a GPU.
Expected<std::unique_ptr<Driver>> createCudaDriver(DriverContext &context);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDADRIVER_H
