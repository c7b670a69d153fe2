// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges between GPUs of several processes: a group of sends and receives, one message for each other rank.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLEXCHANGE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLEXCHANGE_H

#include "runtime/drivers/cuda/nccl/NcclGathering.h"

namespace cleave::runtime {

/// A link of the ends that are in this process with those in others; `inside` is what moves within it. The context and
/// the channel outlive it. Status::Infeasible when the GPU has no memory for messages.
Expected<std::unique_ptr<CudaLink>> createNcclExchange(NcclLinkContext &context, const ExchangeChannel &channel,
                                                       std::vector<CudaEnd> ends, std::unique_ptr<CudaLink> inside);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLEXCHANGE_H
