// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links between GPUs of several processes over NCCL. What stays within a process is copied as ever.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLLINKS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLLINKS_H

#include "runtime/Processes.h"
#include "runtime/drivers/cuda/CudaGpus.h"
#include "runtime/drivers/cuda/CudaLinks.h"

namespace cleave::runtime {

/// Links for the channels of entries, by their numbers (CudaChannel::entry), which have been made for the sites of this
/// process and outlive the links. Called by all processes together; each has its sites on one GPU, the GPU `gpu`. NCCL
/// combines 16-bit floats in their own type. Status::Unsupported where NCCL refuses the GPUs, or a reduction's
/// elements.
Expected<std::unique_ptr<CudaLinks>> createNcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus, int gpu,
                                                     Processes &processes, std::vector<const Channels *> entries,
                                                     std::vector<uint32_t> rankOfSite);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLLINKS_H
