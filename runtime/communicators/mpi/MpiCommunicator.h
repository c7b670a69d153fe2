// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The communicator between devices of several processes: inside a process over shared memory, between processes over
// MPI.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPICOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPICOMMUNICATOR_H

#include "runtime/Communicator.h"
#include "runtime/communicators/mpi/MpiWaiter.h"

#include <memory>

namespace cleave::runtime {

/// A communicator for the sites of `channels` that this process of `world` runs; called by all processes together, with
/// the same plan. `channels`, made for these sites, and `waiter` must outlive it. `expectsLosses`: nothing waits but by
/// the waiter, which may give up (Processes::expectLosses). Status::Unsupported when a channel has more elements for a
/// process than MPI can count.
Expected<std::unique_ptr<Communicator>> createMpiCommunicator(const Channels &channels,
                                                              const std::vector<uint32_t> &rankOfSite, MPI_Comm world,
                                                              MpiWaiter &waiter, bool expectsLosses);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPICOMMUNICATOR_H
