// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of the probe of GPUs, as PTX that every chip of ours runs: what a launch, elementwise work and sums take,
// written as well as the compiler writes them.

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBEKERNELS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBEKERNELS_H

namespace cleave {

/// The text, with a final zero, and its entries:
///
///   probe_nothing()
///   probe_scale(source, target, n)   target[i] = 2 source[i] for i < n of four floats each; any grid
///   probe_sum(source, target, n)     target[block] = the sum of n groups of four floats from source[block * n] on;
///                                    blocks of 256 threads
///
/// Addresses are aligned to 16 bytes; n has 32 bits.
extern const char *const gpuProbePtx;

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBEKERNELS_H
