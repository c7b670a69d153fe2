// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL's functions.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLAPI_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLAPI_H

#include "runtime/drivers/cuda/CudaApi.h"

#include <nccl.h>

namespace cleave::runtime {

// clang-format off
#define CLEAVE_NCCL_FUNCTIONS(X)                                                                                       \
  X(ncclAllReduce)                                                                                                     \
  X(ncclCommAbort)                                                                                                     \
  X(ncclCommDestroy)                                                                                                   \
  X(ncclCommGetAsyncError)                                                                                             \
  X(ncclCommInitRank)                                                                                                  \
  X(ncclCommSplit)                                                                                                     \
  X(ncclGetErrorString)                                                                                                \
  X(ncclGetLastError)                                                                                                  \
  X(ncclGetUniqueId)                                                                                                   \
  X(ncclGetVersion)                                                                                                    \
  X(ncclGroupEnd)                                                                                                      \
  X(ncclGroupStart)                                                                                                    \
  X(ncclRecv)                                                                                                          \
  X(ncclReduceScatter)                                                                                                 \
  X(ncclSend)
// clang-format on

/// NCCL 2.18 or newer, whose communicators can be split.
CLEAVE_FUNCTIONS(Nccl, CLEAVE_NCCL_FUNCTIONS)

/// NCCL's functions; see cudaLibrary.
inline Expected<const Nccl *> nccl() { return cudaLibrary<Nccl>(); }

/// Success, or an error of the status that says what failed, and NCCL's text for `code` and for what went wrong last.
Error checkNccl(const Nccl &nccl, ncclResult_t code, const char *what, Status status = Status::Lost);

/// Calls that NCCL does together.
class NcclCalls {
public:
  explicit NcclCalls(const Nccl &nccl) : nccl(nccl), first(nccl.ncclGroupStart()) {}
  /// What a call gave; the first error counts.
  void note(ncclResult_t code) { first = first == ncclSuccess ? code : first; }
  /// Ends the group, whether or not its calls have failed.
  Error end(const char *what) {
    note(nccl.ncclGroupEnd());
    return checkNccl(nccl, first, what);
  }

private:
  const Nccl &nccl;
  ncclResult_t first;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLAPI_H
