// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processes that mpirun, or another launcher of MPI, has started together.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPROCESSES_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPROCESSES_H

#include "runtime/Processes.h"

namespace cleave::runtime {

/// Starts MPI, which ends with the object. Once in a process. Status::Unsupported when MPI does not let several threads
/// call it at the same time.
Expected<std::unique_ptr<Processes>> startMpi();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPROCESSES_H
