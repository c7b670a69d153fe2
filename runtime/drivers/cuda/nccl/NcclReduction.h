// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over GPUs of several processes, by NCCL's own collectives.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLREDUCTION_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLREDUCTION_H

#include "runtime/drivers/cuda/nccl/NcclGathering.h"

namespace cleave::runtime {

/// Whether NCCL combines such elements.
bool isKnownToNccl(ElementType element);

/// The ranks of a group's members, each once, in the order in which they come.
NcclGroup ranksOf(const std::vector<uint32_t> &sites, const std::vector<uint32_t> &rankOfSite);

/// A link of the ends that are in this process with those in others. The context and the channel outlive it. NCCL knows
/// the elements, and the world has a communicator for each group of several ranks. Status::Infeasible when the GPU has
/// no memory for what is on its way.
Expected<std::unique_ptr<CudaLink>> createNcclReduction(NcclLinkContext &context, const ReduceChannel &channel,
                                                        const std::vector<CudaEnd> &ends);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLREDUCTION_H
