// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group with one member in each process is NCCL's all-reduce or reduce-scatter. Where a process has several, they
// are combined on their GPU first, the processes all-reduce that, and each member takes what is its own.

#include "runtime/drivers/cuda/nccl/NcclReduction.h"

#include <algorithm>

namespace cleave::runtime {
namespace {

/// NCCL's name for the elements; it adds none of 16-bit integers.
std::optional<ncclDataType_t> typeOf(ElementType element) {
  switch (element) {
  case ElementType::I1:
  case ElementType::U8:
    return ncclUint8;
  case ElementType::I8:
    return ncclInt8;
  case ElementType::I16:
  case ElementType::U16:
    return std::nullopt;
  case ElementType::I32:
    return ncclInt32;
  case ElementType::U32:
    return ncclUint32;
  case ElementType::I64:
    return ncclInt64;
  case ElementType::U64:
    return ncclUint64;
  case ElementType::F16:
    return ncclFloat16;
  case ElementType::BF16:
    return ncclBfloat16;
  case ElementType::F32:
    return ncclFloat32;
  case ElementType::F64:
    return ncclFloat64;
  }
  return std::nullopt;
}

ncclRedOp_t operationOf(Combiner combiner) {
  switch (combiner) {
  case Combiner::Sum:
    return ncclSum;
  case Combiner::Product:
    return ncclProd;
  case Combiner::Max:
    return ncclMax;
  case Combiner::Min:
    return ncclMin;
  }
  return ncclSum;
}

uint64_t addressOf(const std::byte *pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// What the group of a reduction does in this process.
class GroupReduction {
public:
  GroupReduction(NcclLinkContext &context, const ReduceChannel &channel, std::vector<CudaEnd> ends)
      : context(context), channel(channel), gathering(context, std::move(ends)), type(*typeOf(channel.element)) {}

  Error prepare() {
    const std::vector<uint32_t> &members = channel.groups[partOf(gathering.ends.front()).group];
    NcclGroup ranks = ranksOf(members, context.rankOfSite);
    if (ranks.size() > 1)
      comm = context.world->of(ranks);
    if (Error error = gathering.prepare())
      return error;
    isDirect = gathering.ends.size() == 1 && ranks.size() == members.size();
    if (!isDirect)
      return prepareCombined();
    return channel.scatters ? prepareScatter(members) : Error::success();
  }

  Error enqueue() {
    if (Error error = gathering.join())
      return error;
    for (CudaBoxLaunch &launch : before)
      if (Error error = launch.enqueue(gathering.stream()))
        return error;
    if (shares)
      if (Error error = shares->enqueue(gathering.stream()))
        return error;
    if (comm)
      if (Error error = reduce(gathering.stream()))
        return error;
    if (own)
      if (Error error = own->enqueue(gathering.stream()))
        return error;
    for (CudaBoxLaunch &launch : after)
      if (Error error = launch.enqueue(gathering.stream()))
        return error;
    return gathering.part();
  }

private:
  const ReduceChannel::Part &partOf(const CudaEnd &end) const { return channel.parts.at(end.site); }
  unsigned width() const { return elementBytes(channel.element); }

  /// The shares of all members one behind the other, each as long as the longest.
  Error prepareScatter(const std::vector<uint32_t> &members) {
    const CudaEnd &end = gathering.ends.front();
    std::vector<uint64_t> sizes;
    for (uint32_t site : members) {
      uint64_t size = 0;
      for (const OperandBox &share : channel.parts.at(site).share)
        size += share.box.bytes();
      sizes.push_back(size);
    }
    shareBytes = *std::ranges::max_element(sizes);
    shares.emplace(NcclMessage::Side::Sent);
    for (size_t i = 0; i != members.size(); ++i) {
      for (const OperandBox &share : channel.parts.at(members[i]).share)
        shares->add(end.operands[share.operand].source, share.box);
      shares->skip(shareBytes - sizes[i]);
    }
    own.emplace(NcclMessage::Side::Received);
    for (const OperandBox &share : partOf(end).share)
      own->add(end.operands[share.operand].target, share.box);
    if (Error error = shares->prepare(context.messages, shareBytes * members.size()))
      return error;
    if (Error error = own->prepare(context.messages, shareBytes))
      return error;
    return addPadding(end);
  }

  /// The combination of the members here, of all tensors one behind the other.
  Error prepareCombined() {
    auto made = allocateCudaMemory(context.messages.cuda, context.messages.gpu, channel.allElements() * width());
    if (!made)
      return made.error();
    combined = std::move(*made);
    uint64_t begin = addressOf(static_cast<std::byte *>(combined.get()));
    for (uint32_t operand = 0; operand != channel.elements.size(); ++operand) {
      CudaBoxUse whole{0, 0, {0, 0, {}, channel.elements[operand] * width()}};
      std::vector<uint64_t> sources;
      for (const CudaEnd &end : gathering.ends)
        sources.push_back(addressOf(end.operands[operand].source));
      auto launch = CudaBoxLaunch::combine(context.messages.cuda, context.messages.kernels, context.messages.gpu,
                                           {&whole, 1}, channel.element, channel.combiner, sources, {&begin, 1});
      if (!launch)
        return launch.error();
      before.push_back(std::move(*launch));
      for (const CudaEnd &end : gathering.ends)
        if (Error error = addTaking(end, operand, begin))
          return error;
      begin += whole.copy.runBytes;
    }
    for (const CudaEnd &end : gathering.ends)
      if (Error error = addPadding(end))
        return error;
    return Error::success();
  }

  /// What a member takes of a tensor whose combination is at `begin`.
  Error addTaking(const CudaEnd &end, uint32_t operand, uint64_t begin) {
    uint64_t target = addressOf(end.operands[operand].target);
    std::vector<CudaBoxUse> boxes;
    if (!channel.scatters)
      boxes.push_back({begin, target, {0, 0, {}, channel.elements[operand] * width()}});
    else
      for (const OperandBox &share : partOf(end).share)
        if (share.operand == operand)
          boxes.push_back({begin, target, share.box});
    return add(after, CudaBoxLaunch::copy(context.messages.cuda, context.messages.kernels, end.gpu, boxes));
  }

  Error addPadding(const CudaEnd &end) {
    std::vector<CudaBoxUse> boxes;
    if (channel.scatters)
      for (const OperandBox &box : partOf(end).padding)
        boxes.push_back({0, addressOf(end.operands[box.operand].target), box.box});
    if (boxes.empty())
      return Error::success();
    const std::vector<std::byte> zero(width());
    return add(after, CudaBoxLaunch::fill(context.messages.cuda, context.messages.kernels, end.gpu, boxes, zero));
  }

  static Error add(std::vector<CudaBoxLaunch> &list, Expected<CudaBoxLaunch> made) {
    if (made)
      list.push_back(std::move(*made));
    return made.error();
  }

  Error reduce(cudaStream_t stream) {
    const Nccl &nccl = context.world->library();
    ncclRedOp_t operation = operationOf(channel.combiner);
    return context.world->communicate(stream, "reducing", [&](NcclCalls &calls) {
      if (shares)
        calls.note(
            nccl.ncclReduceScatter(shares->data(), own->data(), shareBytes / width(), type, operation, comm, stream));
      else if (combined)
        calls.note(
            nccl.ncclAllReduce(combined.get(), combined.get(), channel.allElements(), type, operation, comm, stream));
      else
        for (size_t i = 0; i != channel.elements.size(); ++i) {
          const CudaEnd::Operand &operand = gathering.ends.front().operands[i];
          calls.note(
              nccl.ncclAllReduce(operand.source, operand.target, channel.elements[i], type, operation, comm, stream));
        }
    });
  }

  NcclLinkContext &context;
  const ReduceChannel &channel;
  NcclGathering gathering;
  const ncclDataType_t type;
  ncclComm_t comm = nullptr;
  bool isDirect = false;
  uint64_t shareBytes = 0;
  std::optional<NcclMessage> shares, own;
  CudaMemory combined;
  std::vector<CudaBoxLaunch> before, after;
};

/// The groups of a reduction one after the other.
class NcclReduction : public CudaLink {
public:
  Error prepare(NcclLinkContext &context, const ReduceChannel &channel, const std::vector<CudaEnd> &ends) {
    std::map<uint32_t, std::vector<CudaEnd>> byGroup;
    for (const CudaEnd &end : ends)
      byGroup[channel.parts.at(end.site).group].push_back(end);
    for (auto &[group, members] : byGroup) {
      groups.push_back(std::make_unique<GroupReduction>(context, channel, std::move(members)));
      if (Error error = groups.back()->prepare())
        return error;
    }
    return Error::success();
  }

  Error enqueue() override {
    for (auto &group : groups)
      if (Error error = group->enqueue())
        return error;
    return Error::success();
  }

private:
  std::vector<std::unique_ptr<GroupReduction>> groups;
};

} // namespace

bool isKnownToNccl(ElementType element) { return typeOf(element).has_value(); }

NcclGroup ranksOf(const std::vector<uint32_t> &sites, const std::vector<uint32_t> &rankOfSite) {
  NcclGroup ranks;
  for (uint32_t site : sites)
    if (std::ranges::find(ranks, rankOfSite[site]) == ranks.end())
      ranks.push_back(rankOfSite[site]);
  return ranks;
}

Expected<std::unique_ptr<CudaLink>> createNcclReduction(NcclLinkContext &context, const ReduceChannel &channel,
                                                        const std::vector<CudaEnd> &ends) {
  auto link = std::make_unique<NcclReduction>();
  if (Error error = link->prepare(context, channel, ends))
    return error;
  return std::unique_ptr<CudaLink>(std::move(link));
}

} // namespace cleave::runtime
