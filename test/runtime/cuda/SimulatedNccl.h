// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL without GPUs, for tests: what it would do on streams is done by MPI, in the host's memory. As with NCCL, a call
// whose peers are missing never ends, and so do calls that ranks put on their streams in different orders.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H

#include "runtime/communicators/nccl/NcclApi.h"

namespace cleave::simulated {

/// Stands in for NCCL as long as it lives, on the simulated CUDA. MPI has been started.
class NcclLibrary {
public:
  explicit NcclLibrary(int version = 22800);
  ~NcclLibrary();
  NcclLibrary(const NcclLibrary &) = delete;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDNCCL_H
