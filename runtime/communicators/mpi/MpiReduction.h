// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions of a group of sites in several processes: within each process first, then once among the processes.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIREDUCTION_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIREDUCTION_H

#include "runtime/Communicator.h"
#include "runtime/Timeline.h"
#include "runtime/communicators/mpi/MpiParts.h"

namespace cleave::runtime {

/// The processes of a group of sites, in the order of each one's first site. Reductions that use one do so one after
/// the other, in the same order in each of its processes.
struct MpiGroup {
  MpiPartsTransport transport;
  std::vector<uint32_t> ranks; ///< of the run, by their number in the transport
  std::vector<std::byte> scratch;

  int own() const { return static_cast<int>(transport.own); }
};

/// The four operations as MPI knows them. Maxima and minima of floats are our own, in which NaN wins.
class MpiOperations {
public:
  MpiOperations();
  ~MpiOperations();
  MpiOperations(const MpiOperations &) = delete;
  MpiOperations &operator=(const MpiOperations &) = delete;
  MPI_Op of(Combiner combiner, ElementType element) const;

private:
  MPI_Op largest = MPI_OP_NULL, smallest = MPI_OP_NULL;
};

/// A channel's reduction in one group, as the members in this process see it.
class MpiReduction {
public:
  MpiReduction(const ReduceChannel &channel, uint32_t group, const std::vector<uint32_t> &rankOfSite,
               MpiGroup &processes, const MpiOperations &operations);

  /// What a member of the group in this process does in its `turn`-th use of the channel, counted from 1.
  Error run(const Participant &participant, uint32_t turn);

private:
  Error agree(const Error &error);
  void combineShare(size_t member);
  void combineInto(std::byte *target, const std::vector<const std::byte *> &values, uint64_t elements) const;
  void packShares(size_t member);
  void acrossProcesses();
  void allReduce();
  void allReduceByMpi(const std::byte *source, std::byte *values);
  void reduceScatter();
  void takeAll(size_t member);
  void takeShare(size_t member, const ReduceChannel::Part &part);

  void listShares(uint32_t group, const std::vector<uint32_t> &rankOfSite);
  /// The members' sources of a tensor.
  std::vector<const std::byte *> sources(uint32_t operand, uint64_t offset) const;
  /// Whether the members' combination is put together in the first one's target; else it is in the scratch, in which
  /// the tensors stand one after the other.
  bool gathersInTarget() const { return wire == channel.element && channel.elements.size() == 1; }
  std::byte *gathering() const;
  /// Whether MPI takes the only member's values from its source.
  bool takesFromSource() const { return members.size() == 1 && gathersInTarget(); }
  unsigned width() const { return elementBytes(channel.element); }
  unsigned wireWidth() const { return elementBytes(wire); }

  const ReduceChannel &channel;
  MpiGroup &processes;
  MpiParts parts;
  /// Whether each process combines its part (MpiParts.h), or MPI does it all.
  bool inParts = false;
  /// The type in which elements travel: f32 for the 16-bit floats, unless all sources are combined at once.
  ElementType wire;
  const MPI_Op operation;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  /// For a reduce-scatter: the boxes of each process's members one after the other, and each one's place in that order.
  struct Share {
    const OperandBox *share = nullptr;
    uint64_t offset = 0; ///< elements
  };
  std::vector<Share> shares;
  bool inOrder = true; ///< the shares follow each other in the source already, each in one run

  std::vector<uint32_t> sites; ///< the members here
  std::vector<Participant> members;
  Timeline arrived, combined, finished, left;
  Error outcome;
  // What MPI may know of longer than a wait that is given up.
  int failed = 0;
  std::vector<int> counts;
  std::vector<std::byte> result;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIREDUCTION_H
