// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The members in a process combine their sources, each a share of the elements. The first one then agrees with the
// other processes that nobody brings an error, which also makes sure that all are there: the collective operation of
// MPI, which waits on a core, runs at once. 16-bit floats travel in 32 bits and are rounded once; several tensors are
// put one after the other and travel as one.

#include "runtime/communicators/mpi/MpiReduction.h"

#include "runtime/Processes.h"
#include "runtime/Reduction.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>

namespace cleave::runtime {

static MPI_Datatype mpiType(ElementType element) {
  switch (element) {
  case ElementType::I1:
  case ElementType::U8:
    return MPI_UINT8_T;
  case ElementType::I8:
    return MPI_INT8_T;
  case ElementType::I16:
    return MPI_INT16_T;
  case ElementType::U16:
    return MPI_UINT16_T;
  case ElementType::I32:
    return MPI_INT32_T;
  case ElementType::U32:
    return MPI_UINT32_T;
  case ElementType::I64:
    return MPI_INT64_T;
  case ElementType::U64:
    return MPI_UINT64_T;
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::F32:
    return MPI_FLOAT;
  case ElementType::F64:
    return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

/// An operation of MPI by the runtime's own arithmetic.
template <Combiner combiner> static void combineFloats(void *in, void *inOut, int *length, MPI_Datatype *type) {
  ElementType element = *type == MPI_FLOAT ? ElementType::F32 : ElementType::F64;
  const std::byte *sources[] = {static_cast<std::byte *>(in), static_cast<std::byte *>(inOut)};
  std::byte *target = static_cast<std::byte *>(inOut);
  combine(element, combiner, sources, std::span(&target, 1), static_cast<uint64_t>(*length), false);
}

MpiOperations::MpiOperations() {
  MPI_Op_create(combineFloats<Combiner::Max>, 1, &largest);
  MPI_Op_create(combineFloats<Combiner::Min>, 1, &smallest);
}

MpiOperations::~MpiOperations() {
  MPI_Op_free(&largest);
  MPI_Op_free(&smallest);
}

MPI_Op MpiOperations::of(Combiner combiner, ElementType element) const {
  switch (combiner) {
  case Combiner::Sum:
    return MPI_SUM;
  case Combiner::Product:
    return MPI_PROD;
  case Combiner::Max:
    return isFloatingPoint(element) ? largest : MPI_MAX;
  case Combiner::Min:
    return isFloatingPoint(element) ? smallest : MPI_MIN;
  }
  return MPI_OP_NULL;
}

static ElementType wireType(ElementType element) {
  return element == ElementType::F16 || element == ElementType::BF16 ? ElementType::F32 : element;
}

MpiReduction::MpiReduction(const ReduceChannel &channel, uint32_t group, const std::vector<uint32_t> &rankOfSite,
                           MpiGroup &processes, const MpiOperations &operations)
    : channel(channel), processes(processes), wire(channel.element),
      operation(operations.of(channel.combiner, channel.element)) {
  listShares(group, rankOfSite);
  if (!channel.scatters)
    parts = MpiParts::equal(channel.allElements(), width(), processes.ranks.size());
  inParts = arePartsLarge(parts, width());
  // What the members of a process have combined is not rounded yet.
  bool oneEach = channel.groups[group].size() == processes.ranks.size();
  if (!inParts || !oneEach)
    wire = wireType(channel.element);
  type = mpiType(wire);
  members.resize(sites.size());
  inOrder &= channel.scatters && takesFromSource();
  uint64_t scratch = (channel.scatters ? inOrder : gathersInTarget()) ? 0 : parts.elements();
  processes.scratch.resize(std::max<size_t>(processes.scratch.size(), scratch * wireWidth()));
}

/// The members here, and for a reduce-scatter what each process's members get.
void MpiReduction::listShares(uint32_t group, const std::vector<uint32_t> &rankOfSite) {
  uint64_t elements = 0;
  for (uint32_t rank : processes.ranks) {
    for (uint32_t site : channel.groups[group]) {
      if (rankOfSite[site] != rank)
        continue;
      if (rank == processes.ranks[processes.transport.own])
        sites.push_back(site);
      for (const OperandBox &share : channel.parts.at(site).share) {
        inOrder &= share.box.dims.empty() && share.box.sourceOffset == elements * width();
        shares.push_back({&share, elements});
        elements += share.box.bytes() / width();
      }
    }
    parts.add(elements - parts.elements());
  }
}

Error MpiReduction::run(const Participant &participant, uint32_t turn) {
  auto index = static_cast<size_t>(std::ranges::find(sites, participant.site) - sites.begin());
  uint32_t all = turn * static_cast<uint32_t>(members.size());
  members[index] = participant;
  arrived.increment();
  arrived.wait(all);
  Error error = participant.poison;
  for (const Participant &member : members)
    error = error ? error : member.poison;
  if (!error)
    channel.scatters ? packShares(index) : combineShare(index);
  combined.increment();
  if (index == 0) {
    combined.wait(all);
    outcome = agree(error);
    if (!outcome)
      acrossProcesses();
    finished.signal(turn);
  } else {
    finished.wait(turn);
  }
  Error result = participant.poison ? participant.poison : outcome;
  if (!result)
    channel.scatters ? takeShare(index, channel.parts.at(participant.site)) : takeAll(index);
  left.increment();
  left.wait(all);
  return result;
}

/// The error of the first process of the group that has one.
Error MpiReduction::agree(const Error &error) {
  auto count = static_cast<int>(processes.ranks.size());
  failed = error ? count - processes.own() : 0;
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, processes.transport.comm, &request);
  if (!processes.transport.waiter->wait(std::span(&request, 1)))
    return Logbook::own()->firstLoss();
  if (failed == 0)
    return Error::success();
  int first = count - failed;
  std::vector<std::byte> packed;
  if (first == processes.own())
    packed = packError(atRank(error, processes.ranks[static_cast<size_t>(first)]));
  auto size = static_cast<int>(packed.size());
  MPI_Bcast(&size, 1, MPI_INT, first, processes.transport.comm);
  packed.resize(static_cast<size_t>(size));
  MPI_Bcast(packed.data(), size, MPI_BYTE, first, processes.transport.comm);
  return unpackError(packed);
}

std::vector<const std::byte *> MpiReduction::sources(uint32_t operand, uint64_t offset) const {
  std::vector<const std::byte *> list;
  for (const Participant &member : members)
    list.push_back(member.sourceOf(operand).data() + offset);
  return list;
}

std::byte *MpiReduction::gathering() const {
  return gathersInTarget() ? members.front().target.data() : processes.scratch.data();
}

/// One of as many shares of an all-reduce's elements as there are members here.
void MpiReduction::combineShare(size_t member) {
  if (takesFromSource())
    return;
  uint64_t all = channel.allElements(), line = 64 / width(), lines = (all + line - 1) / line;
  uint64_t first = lines * member / members.size() * line;
  uint64_t last = std::min(all, lines * (member + 1) / members.size() * line);
  uint64_t before = 0; // elements of earlier tensors
  for (uint32_t operand = 0; operand != channel.elements.size(); before += channel.elements[operand++]) {
    uint64_t begin = std::max(first, before), end = std::min(last, before + channel.elements[operand]);
    if (begin < end)
      combineInto(gathering() + begin * wireWidth(), sources(operand, (begin - before) * width()), end - begin);
  }
}

/// Combines in the type in which elements travel.
void MpiReduction::combineInto(std::byte *target, const std::vector<const std::byte *> &values,
                               uint64_t elements) const {
  if (wire == channel.element)
    combine(channel.element, channel.combiner, values, std::span(&target, 1), elements, false);
  else
    combineWide(channel.element, channel.combiner, values, reinterpret_cast<float *>(target), elements);
}

/// Of a reduce-scatter's shares, those whose turn it is when members take turns.
void MpiReduction::packShares(size_t member) {
  if (inOrder)
    return; // MPI takes them from the source
  for (size_t i = member; i < shares.size(); i += members.size()) {
    std::byte *target = processes.scratch.data() + shares[i].offset * wireWidth();
    const OperandBox &share = *shares[i].share;
    uint64_t elements = share.box.runBytes / width();
    forEachRun(share.box, [&](uint64_t from, uint64_t) {
      combineInto(target, sources(share.operand, from), elements);
      target += elements * wireWidth();
    });
  }
}

void MpiReduction::acrossProcesses() {
  if (channel.scatters)
    reduceScatter();
  else
    allReduce();
}

void MpiReduction::allReduce() {
  std::byte *values = gathering();
  const std::byte *source = takesFromSource() ? members.front().source.data() : values;
  if (inParts)
    combineParts(processes.transport, parts, wire, channel.combiner, source,
                 values + parts.begin(processes.transport.own) * wireWidth(), values);
  else
    allReduceByMpi(source, values);
}

void MpiReduction::allReduceByMpi(const std::byte *source, std::byte *values) {
  constexpr uint64_t most = 1 << 30;
  const MpiPartsTransport &transport = processes.transport;
  for (uint64_t begin = 0; begin < parts.elements(); begin += most) {
    uint64_t offset = begin * wireWidth();
    const void *from = source == values ? MPI_IN_PLACE : source + offset;
    auto count = static_cast<int>(std::min(most, parts.elements() - begin));
    if (!transport.expectsLosses) {
      MPI_Allreduce(from, values + offset, count, type, operation, transport.comm);
      continue;
    }
    MPI_Request request;
    MPI_Iallreduce(from, values + offset, count, type, operation, transport.comm, &request);
    transport.waiter->wait(std::span(&request, 1));
  }
}

/// Into the target, or to where this process's part of the scratch begins.
void MpiReduction::reduceScatter() {
  const ReduceChannel::Part &part = channel.parts.at(sites.front());
  std::byte *scratch = processes.scratch.data();
  const std::byte *source = inOrder ? members.front().source.data() : scratch;
  std::byte *target =
      inOrder ? members.front().target.data() + (part.share.empty() ? 0 : part.share.front().box.targetOffset)
              : scratch + parts.begin(processes.transport.own) * wireWidth();
  if (inParts) {
    combineParts(processes.transport, parts, wire, channel.combiner, source, target, nullptr);
    return;
  }
  const MpiPartsTransport &transport = processes.transport;
  counts.clear();
  for (size_t process = 0; process != processes.ranks.size(); ++process)
    counts.push_back(static_cast<int>(parts.size(process)));
  // Between different places of one buffer MPI must not move anything.
  result.resize(inOrder ? 0 : parts.size(transport.own) * wireWidth());
  std::byte *to = inOrder ? target : result.data();
  if (transport.expectsLosses) {
    MPI_Request request;
    MPI_Ireduce_scatter(source, to, counts.data(), type, operation, transport.comm, &request);
    transport.waiter->wait(std::span(&request, 1));
  } else {
    MPI_Reduce_scatter(source, to, counts.data(), type, operation, transport.comm);
  }
  std::ranges::copy(result, target);
}

void MpiReduction::takeAll(size_t member) {
  if (member == 0 && gathersInTarget())
    return;
  bool streams = exceedsOwnCaches(parts.elements() * width());
  const std::byte *values = gathering();
  for (uint32_t operand = 0; operand != channel.elements.size(); ++operand) {
    uint64_t elements = channel.elements[operand];
    std::byte *target = members[member].targetOf(operand).data();
    if (wire != channel.element)
      narrow(channel.element, reinterpret_cast<const float *>(values), target, elements);
    else
      copyBytes(values, target, elements * width(), streams);
    values += elements * wireWidth();
  }
}

void MpiReduction::takeShare(size_t member, const ReduceChannel::Part &part) {
  const Participant &own = members[member];
  const std::vector<std::byte> zero(width());
  for (const OperandBox &padding : part.padding)
    fillBox(padding.box, zero, own.targetOf(padding.operand).data());
  if (inOrder)
    return; // MPI has put it there
  for (const Share &packed : shares) {
    if (packed.share < part.share.data() || packed.share >= part.share.data() + part.share.size())
      continue;
    const std::byte *values = processes.scratch.data() + packed.offset * wireWidth();
    const StridedCopy &box = packed.share->box;
    std::byte *target = own.targetOf(packed.share->operand).data();
    if (wire == channel.element) {
      unpackBox(box, values, target);
      continue;
    }
    uint64_t elements = box.runBytes / width();
    forEachRun(box, [&](uint64_t, uint64_t to) {
      narrow(channel.element, reinterpret_cast<const float *>(values), target + to, elements);
      values += elements * wireWidth();
    });
  }
}

} // namespace cleave::runtime
