// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links between GPUs of several processes over NCCL. What stays within a process is copied as ever.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_NCCL_NCCLLINKS_H
#define CLEAVE_RUNTIME_COMMUNICATORS_NCCL_NCCLLINKS_H

#include "runtime/Driver.h"
#include "runtime/drivers/cuda/CudaGpus.h"
#include "runtime/drivers/cuda/CudaLinks.h"

namespace cleave::runtime {

/// Links for the context's entries, whose channels have been made. Called by all its processes together; each has its
/// devices on one GPU, the GPU `gpu`. NCCL combines 16-bit floats in their own type. Status::Unsupported where NCCL
/// refuses the GPUs, and for reductions of several devices of one process or of elements that NCCL does not know.
Expected<std::unique_ptr<CudaLinks>> createNcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus,
                                                     DriverContext &context, int gpu);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_NCCL_NCCLLINKS_H
