// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPI's own collective operations, called the way that a program without Cleave would: the peer that ours are measured
// against.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPEER_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPEER_H

#include "runtime/communicators/mpi/Mpi.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

namespace cleave::runtime {

/// Does the operation of that name (see collectiveNames) once, on f32, among the processes of `comm`, which all call
/// it. The buffers must outlive it. Empty for an unknown name.
std::function<void()> mpiPeerOf(std::string_view collective, std::span<const std::byte> source,
                                std::span<std::byte> target, MPI_Comm comm);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPEER_H
