// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times the kernels of a program by themselves, on operands as warm as in a step: those that a step has touched a short
// while ago are written right before; the others are taken from so many copies in turn that as many bytes lie between
// two uses of a copy as in a step.

#ifndef CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H
#define CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H

#include "runtime/profile/KernelUse.h"
#include "runtime/profile/Profile.h"

#include <functional>

namespace cleave::runtime {

/// Measures all uses of the cpu plan's entry that the profile lacks. `devices` devices of `cores` cores are measured at
/// once for the busy times. `progress` is told how many uses are done, of how many.
Error profileKernels(const Plan &plan, const Entry &entry, size_t devices, unsigned cores, Profile &profile,
                     const std::function<void(size_t, size_t)> &progress = {});

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H
