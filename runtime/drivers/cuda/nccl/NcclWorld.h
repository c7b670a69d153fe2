// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL's communicators of a run: one of all ranks, and one for each set of ranks that reduce together. All are made
// before the first step, by all processes together.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLWORLD_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLWORLD_H

#include "runtime/Processes.h"
#include "runtime/drivers/cuda/CudaObjects.h"
#include "runtime/drivers/cuda/nccl/NcclApi.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace cleave::runtime {

/// Ranks in the order of a group's members.
using NcclGroup = std::vector<uint32_t>;

class NcclWorld {
public:
  /// Called by all processes together; each has the GPU `gpu` of its host, on which it is the only one: else
  /// Status::Unsupported, unless NCCL is 2.30 or newer and NCCL_MULTI_RANK_GPU_ENABLE is 1. Every list of `divisions`
  /// has groups that share no rank, and is the same in all processes.
  static Expected<std::unique_ptr<NcclWorld>> create(const CudaRuntime &cuda, Processes &processes, int gpu,
                                                     const std::vector<std::vector<NcclGroup>> &divisions);
  ~NcclWorld();
  NcclWorld(const NcclWorld &) = delete;
  NcclWorld &operator=(const NcclWorld &) = delete;

  const Nccl &library() const { return nccl; }
  uint32_t rank() const { return ownRank; }
  ncclComm_t all() const { return world; }
  /// The communicator of a group of the divisions that has this rank; the ranks there are the places in the group.
  ncclComm_t of(const NcclGroup &group) const { return comms.at(group); }

  /// Has `put` put calls on `stream`, as one group, behind the communication before: ranks do theirs one after the
  /// other, all in one order, and so none waits for another in a circle. `what` says in errors what it is.
  Error communicate(cudaStream_t stream, const char *what, const std::function<void(NcclCalls &calls)> &put);
  /// What follows is recorded in a graph, or is not. Before each step.
  void beginStep(bool isCaptured);

  /// CudaLinks::check.
  Error check();
  /// CudaLinks::abort.
  void abort(const Error &why);

private:
  NcclWorld(const CudaRuntime &cuda, const Nccl &nccl, int gpu, uint32_t rank)
      : cuda(cuda), nccl(nccl), gpu(gpu), ownRank(rank) {}
  Error checkGpus(Processes &processes, int gpu) const;
  Error connect(Processes &processes);
  Error divide(const std::vector<NcclGroup> &groups, uint32_t count);
  Error lose(const Error &why, bool aborts);
  void abortAll();
  /// Threads that abort communicators, and may outlive this.
  struct Aborting;

  const CudaRuntime &cuda;
  const Nccl &nccl;
  const int gpu;
  const uint32_t ownRank;
  ncclComm_t world = nullptr;
  std::map<NcclGroup, ncclComm_t> comms;
  CudaEvent last;
  bool hasLast = false, wasCaptured = false;
  std::timed_mutex calling; ///< while NCCL's functions use communicators
  std::mutex mutex;         ///< of what follows
  Error lost;               ///< why nothing is communicated any more
  std::shared_ptr<Aborting> aborting;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLWORLD_H
