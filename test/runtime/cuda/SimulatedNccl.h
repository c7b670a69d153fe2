// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL without GPUs, for tests: what it would do on streams is done by MPI, in the host's memory. As with NCCL, a call
// whose peers are missing never ends, and so do calls that ranks put on their streams in different orders. What NCCL
// forbids is noted as misuse of CUDA: groups that are captured in part, communicators that are destroyed before their
// graphs, communications of two communicators at the same time, buffers that are not on their GPU.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H

#include "runtime/drivers/cuda/nccl/NcclApi.h"

namespace cleave::simulated {

/// Stands in for NCCL as long as it lives, on the simulated CUDA. Where there are several ranks MPI has been started.
class NcclLibrary {
public:
  explicit NcclLibrary(int version = 22800);
  ~NcclLibrary();
  NcclLibrary(const NcclLibrary &) = delete;

  /// When so many groups of calls have run, counted from now, this rank's network is lost: no communication ends, and
  /// communicators have an error.
  void loseNetwork(uint64_t after);
  /// How many communicators there are.
  size_t communicators() const;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H
