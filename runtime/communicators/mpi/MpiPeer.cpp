// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of MPI for each collective that is measured.

#include "runtime/communicators/mpi/MpiPeer.h"

namespace cleave::runtime {

std::function<void()> mpiPeerOf(std::string_view collective, std::span<const std::byte> source,
                                std::span<std::byte> target, MPI_Comm comm) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const void *from = source.data();
  void *to = target.data();
  auto given = static_cast<int>(source.size() / sizeof(float)), got = static_cast<int>(target.size() / sizeof(float));
  if (collective == "all_reduce")
    return [=] { MPI_Allreduce(from, to, given, MPI_FLOAT, MPI_SUM, comm); };
  if (collective == "all_gather")
    return [=] { MPI_Allgather(from, given, MPI_FLOAT, to, given, MPI_FLOAT, comm); };
  if (collective == "reduce_scatter")
    return [=] { MPI_Reduce_scatter_block(from, to, got, MPI_FLOAT, MPI_SUM, comm); };
  if (collective == "all_to_all")
    return [=] { MPI_Alltoall(from, given / size, MPI_FLOAT, to, given / size, MPI_FLOAT, comm); };
  if (collective == "broadcast")
    return [=] { MPI_Bcast(to, got, MPI_FLOAT, 0, comm); };
  if (collective == "permute") {
    int next = rank + 1 == size ? MPI_PROC_NULL : rank + 1, previous = rank == 0 ? MPI_PROC_NULL : rank - 1;
    return [=] {
      MPI_Sendrecv(from, given, MPI_FLOAT, next, 0, to, got, MPI_FLOAT, previous, 0, comm, MPI_STATUS_IGNORE);
    };
  }
  if (collective == "send")
    return [=] {
      if (rank == 0)
        MPI_Ssend(from, given, MPI_FLOAT, 1, 0, comm);
      else if (rank == 1)
        MPI_Recv(to, got, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE);
    };
  return {};
}

} // namespace cleave::runtime
