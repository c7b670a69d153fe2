// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times the kernels of a plan by themselves on a GPU, each repeated in a graph, as steps replay them. What the cache of
// a GPU cannot have kept since a step has touched it last is taken from several copies in turn.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAKERNELTIMER_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAKERNELTIMER_H

#include "runtime/Plan.h"
#include "runtime/profile/Profile.h"

#include <functional>

namespace cleave::runtime {

/// Measures all uses of kernels that the profile lacks in the entry's programs for GPUs, on the GPU of the plan's first
/// device; a launch is part of a time. In the profile they are those of one device of one core. `progress` is told how
/// many uses are done, of how many. Status::Usage where no program is for a GPU, Status::Unsupported without CUDA;
/// errors name the kernel.
Error profileCudaKernels(const Plan &plan, const Entry &entry, Profile &profile,
                         const std::function<void(size_t, size_t)> &progress = {});

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAKERNELTIMER_H
