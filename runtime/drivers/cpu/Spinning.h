// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long the threads of a device wait awake for each other at the end of a parallel loop.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_SPINNING_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_SPINNING_H

namespace cleave::runtime {

/// Has OpenMP's threads wait awake for a short time only: libgomp's default, milliseconds, keeps a core from the very
/// thread that is waited for as soon as another process computes on the machine, and steps then take up to forty times
/// as long. libgomp reads its setting (GOMP_SPINCOUNT) before main, so the program starts itself again with it; call
/// this first in main. Without effect where the environment has GOMP_SPINCOUNT or OMP_WAIT_POLICY: what users say
/// stands.
void limitSpinning(char **argv);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_SPINNING_H
