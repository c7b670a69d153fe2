// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions of large buffers among processes: every process combines a part of the elements, from all processes, and,
// for an all-reduce, gives the result to all.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPARTS_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPARTS_H

#include "runtime/Plan.h"
#include "runtime/communicators/mpi/MpiWaiter.h"

namespace cleave::runtime {

/// The part of each process, by its number in the group: elements that follow each other.
class MpiParts {
public:
  /// Of one process after the other.
  void add(uint64_t elements);
  /// Of `processes` processes, as equal as whole cache lines allow.
  static MpiParts equal(uint64_t elements, unsigned width, size_t processes);

  uint64_t begin(size_t process) const { return begins[process]; }
  uint64_t size(size_t process) const { return begins[process + 1] - begins[process]; }
  uint64_t elements() const { return begins.back(); }
  uint64_t largest() const;

private:
  std::vector<uint64_t> begins = {0};
};

/// The processes of `comm`, this one's number in it, and memory for what is on its way.
struct MpiPartsTransport {
  MPI_Comm comm = MPI_COMM_NULL;
  size_t own = 0, count = 0;
  MpiWaiter *waiter = nullptr;
  bool expectsLosses = false; ///< nothing waits but by the waiter
  std::vector<std::byte> slots;
};

/// Whether the parts are so large that the time of their messages counts and not the number of these.
bool arePartsLarge(const MpiParts &parts, unsigned width);

/// Combines this process's part of all processes' `values`, in the order of the processes, into `own`. `all`, unless
/// null, is where the results of all parts come together; `own` lies in it, and it may be `values`. Called by all
/// processes of the group.
void combineParts(MpiPartsTransport &transport, const MpiParts &parts, ElementType element, Combiner combiner,
                  const std::byte *values, std::byte *own, std::byte *all);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIPARTS_H
