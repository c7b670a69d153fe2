// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPI's C interface, without the C++ one that MPI 3 has removed.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPI_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPI_H

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h> // IWYU pragma: export

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPI_H
