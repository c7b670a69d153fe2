// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the links over NCCL share, and how the ends of a link that are in one process take part as one.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLGATHERING_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLGATHERING_H

#include "runtime/drivers/cuda/CudaLinks.h"
#include "runtime/drivers/cuda/nccl/NcclMessages.h"
#include "runtime/drivers/cuda/nccl/NcclWorld.h"

namespace cleave::runtime {

/// Of the links of a run.
struct NcclLinkContext {
  NcclContext messages;
  std::unique_ptr<NcclWorld> world;
  std::vector<uint32_t> rankOfSite;
};

/// The ends of a link that are in this process, all on one GPU. What they do together is on the stream of the first.
class NcclGathering {
public:
  NcclGathering(NcclLinkContext &context, std::vector<CudaEnd> list) : ends(std::move(list)), context(context) {}

  /// Makes what the others need. Before the next ones.
  Error prepare();
  cudaStream_t stream() const { return ends.front().stream; }
  /// Null for a site of another process.
  const CudaEnd *find(uint32_t site) const;
  /// What the stream does next comes after what the streams of all ends have done, and the GPU is the current one.
  Error join();
  /// What the streams of all ends do next comes after what the stream has done.
  Error part();

  const std::vector<CudaEnd> ends;

private:
  Error order(cudaStream_t before, cudaStream_t after, const CudaEvent &event) const;

  NcclLinkContext &context;
  std::vector<CudaEvent> events; ///< by end
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLGATHERING_H
