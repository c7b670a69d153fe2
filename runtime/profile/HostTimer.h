// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times what a step does besides kernels: copies, communication between devices, and waking threads.

#ifndef CLEAVE_RUNTIME_PROFILE_HOSTTIMER_H
#define CLEAVE_RUNTIME_PROFILE_HOSTTIMER_H

#include "runtime/profile/Profile.h"

namespace cleave::runtime {

/// Adds to the profile, where it lacks them, for `devices` devices of `cores` cores:
///
///   curve copy                     one thread copies
///   curve OPERATION:DEVICES        all_reduce, reduce_scatter, all_gather, send; bytes of the whole tensor
///   number wake:DEVICESxCORES      until a thread that slept goes on
Error profileHost(size_t devices, unsigned cores, Profile &profile);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_HOSTTIMER_H
