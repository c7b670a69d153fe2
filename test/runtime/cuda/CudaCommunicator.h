// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The links of the cuda driver as a communicator between threads with buffers in the host's memory, so that the tests
// of communicators can be run on them.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_CUDACOMMUNICATOR_H
#define CLEAVE_TEST_RUNTIME_CUDA_CUDACOMMUNICATOR_H

#include "SimulatedCuda.h"

#include "runtime/Communicator.h"

#include <optional>

namespace cleave::runtime::test {

/// A communicator for all sites of `channels`, on a simulated CUDA or, without `options`, on what the machine has.
/// Misuse of CUDA fails the test. It carries no errors between sites: in the driver a step with one ends as a whole.
std::unique_ptr<Communicator> createCudaCommunicator(const Channels &channels,
                                                     const std::optional<simulated::Options> &options);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_CUDA_CUDACOMMUNICATOR_H
