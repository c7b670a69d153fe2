// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages between processes over MPI.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIMESSAGES_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIMESSAGES_H

#include "runtime/Messages.h"
#include "runtime/communicators/mpi/Mpi.h"

#include <memory>

namespace cleave::runtime {

/// Messages on a communicator of their own; called by all processes of `world` together.
std::unique_ptr<Messages> createMpiMessages(MPI_Comm world);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIMESSAGES_H
