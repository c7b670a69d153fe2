// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links between devices of one process: copies on a GPU and between GPUs, and kernels that combine buffers where they
// are.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDACOPIES_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDACOPIES_H

#include "runtime/drivers/cuda/CudaGpus.h"
#include "runtime/drivers/cuda/CudaLinks.h"

namespace cleave::runtime {

/// Links whose ends are all in this process; `gpus` outlives them. A box that is a run, or one within a GPU, moves at
/// once; others between GPUs that cannot reach each other's memory move row by row. Reductions need GPUs that can:
/// Status::Unsupported.
std::unique_ptr<CudaLinks> createCudaCopies(const CudaRuntime &cuda, const CudaGpus &gpus);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDACOPIES_H
