// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An exchange is a group of sends and receives, one message for each other rank; a reduction a group of calls of NCCL's
// own, on a communicator of the ranks that reduce together.

#include "runtime/communicators/nccl/NcclLinks.h"

#include "runtime/communicators/nccl/NcclMessages.h"
#include "runtime/communicators/nccl/NcclWorld.h"
#include "runtime/drivers/cuda/CudaCopies.h"

#include <algorithm>
#include <set>

namespace cleave::runtime {
namespace {

/// What the links of a run share.
struct LinkContext {
  NcclContext messages;
  std::unique_ptr<NcclWorld> world;
  std::vector<uint32_t> rankOfSite;
  std::unique_ptr<CudaLinks> copies;
};

/// Brings all ends of a link together on the stream of the first, and apart again.
class Gathering {
public:
  Gathering(LinkContext &context, std::vector<CudaEnd> list)
      : context(context), cuda(context.messages.cuda), ends(std::move(list)) {}

  Error prepare() {
    for (size_t i = 0; i != ends.size(); ++i) {
      auto event = createCudaEvent(cuda, context.messages.gpu);
      if (!event)
        return event.error();
      events.push_back(std::move(*event));
    }
    return Error::success();
  }
  cudaStream_t stream() const { return ends.front().stream; }
  const CudaEnd *find(uint32_t site) const {
    auto found = std::ranges::find(ends, site, &CudaEnd::site);
    return found == ends.end() ? nullptr : &*found;
  }

  Error join() {
    for (size_t i = 1; i != ends.size(); ++i)
      if (Error error = order(ends[i].stream, stream(), events[i]))
        return error;
    return Error::success();
  }
  Error part() {
    for (size_t i = 1; i != ends.size(); ++i)
      if (Error error = order(stream(), ends[i].stream, events.front()))
        return error;
    return Error::success();
  }

  LinkContext &context;
  const CudaRuntime &cuda;
  std::vector<CudaEnd> ends;

private:
  Error order(cudaStream_t before, cudaStream_t after, const CudaEvent &event) const {
    if (Error error = checkCuda(cuda, cuda.cudaEventRecord(event.get(), before), "recording an event"))
      return error;
    return checkCuda(cuda, cuda.cudaStreamWaitEvent(after, event.get(), 0), "waiting for an event");
  }

  std::vector<CudaEvent> events;
};

class NcclExchange : public CudaLink {
public:
  NcclExchange(LinkContext &context, const ExchangeChannel &channel, std::vector<CudaEnd> ends)
      : channel(channel), gathering(context, std::move(ends)) {}

  /// `inside` is what moves within the process.
  Error prepare(std::unique_ptr<CudaLink> inside) {
    local = std::move(inside);
    const std::vector<uint32_t> &rankOfSite = gathering.context.rankOfSite;
    uint32_t own = gathering.context.world->rank();
    for (const Piece &piece : channel.pieces) {
      uint32_t from = rankOfSite[piece.from], to = rankOfSite[piece.to];
      if (from == to || (from != own && to != own))
        continue;
      bool isSent = from == own;
      const CudaEnd &end = *gathering.find(isSent ? piece.from : piece.to);
      const CudaEnd::Operand &operand = end.operands[piece.operand];
      auto &message =
          (isSent ? sent : received)
              .try_emplace(isSent ? to : from, isSent ? NcclMessage::Side::Sent : NcclMessage::Side::Received)
              .first->second;
      message.add(isSent ? operand.source : operand.target, piece.box);
    }
    for (auto *messages : {&sent, &received})
      for (auto &[rank, message] : *messages)
        if (Error error = message.prepare(gathering.context.messages))
          return error;
    return gathering.prepare();
  }

  Error enqueue() override {
    if (Error error = local->enqueue())
      return error;
    if (sent.empty() && received.empty())
      return Error::success();
    if (Error error = gathering.join())
      return error;
    cudaStream_t stream = gathering.stream();
    for (auto &[rank, message] : sent)
      if (Error error = message.enqueue(stream))
        return error;
    NcclWorld &world = *gathering.context.world;
    if (Error error = world.begin(stream))
      return error;
    if (Error error = transfer(stream))
      return error;
    if (Error error = world.end(stream))
      return error;
    for (auto &[rank, message] : received)
      if (Error error = message.enqueue(stream))
        return error;
    return gathering.part();
  }

private:
  Error transfer(cudaStream_t stream) {
    NcclWorld &world = *gathering.context.world;
    const Nccl &nccl = world.library();
    ncclResult_t first = nccl.ncclGroupStart();
    auto note = [&](ncclResult_t code) { first = first == ncclSuccess ? code : first; };
    for (auto &[rank, message] : sent)
      note(nccl.ncclSend(message.data(), message.bytes(), ncclInt8, static_cast<int>(rank), world.all(), stream));
    for (auto &[rank, message] : received)
      note(nccl.ncclRecv(message.data(), message.bytes(), ncclInt8, static_cast<int>(rank), world.all(), stream));
    note(nccl.ncclGroupEnd());
    return checkNccl(nccl, first, "sending and receiving");
  }

  const ExchangeChannel &channel;
  Gathering gathering;
  std::unique_ptr<CudaLink> local;
  std::map<uint32_t, NcclMessage> sent, received; ///< by the other rank
};

/// NCCL's name for the elements; it adds none of 16-bit integers.
std::optional<ncclDataType_t> typeOf(ElementType element) {
  switch (element) {
  case ElementType::I1:
  case ElementType::U8:
    return ncclUint8;
  case ElementType::I8:
    return ncclInt8;
  case ElementType::I16:
    return std::nullopt;
  case ElementType::I32:
    return ncclInt32;
  case ElementType::I64:
    return ncclInt64;
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

/// The one end of a reduction that is in this process, with the others of its group.
class NcclReduction : public CudaLink {
public:
  NcclReduction(LinkContext &context, const ReduceChannel &channel, CudaEnd own)
      : context(context), channel(channel), end(std::move(own)), received(NcclMessage::Side::Received) {}

  Error prepare() {
    type = *typeOf(channel.element);
    const ReduceChannel::Part &part = channel.parts.at(end.site);
    const std::vector<uint32_t> &members = channel.groups[part.group];
    NcclGroup ranks;
    for (uint32_t site : members)
      ranks.push_back(context.rankOfSite[site]);
    comm = context.world->of(ranks);
    return channel.scatters ? prepareScatter(members, part) : Error::success();
  }

  Error enqueue() override {
    if (Error error = checkCuda(context.messages.cuda, context.messages.cuda.cudaSetDevice(end.gpu), "using a GPU"))
      return error;
    if (shares)
      if (Error error = shares->enqueue(end.stream))
        return error;
    if (Error error = context.world->begin(end.stream))
      return error;
    if (Error error = channel.scatters ? scatter() : allReduce())
      return error;
    if (Error error = context.world->end(end.stream))
      return error;
    if (!channel.scatters)
      return Error::success();
    if (Error error = received.enqueue(end.stream))
      return error;
    return padding ? padding->enqueue(end.stream) : Error::success();
  }

private:
  /// The shares of all members one behind the other, each as long as the longest.
  Error prepareScatter(const std::vector<uint32_t> &members, const ReduceChannel::Part &part) {
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
    for (const OperandBox &share : part.share)
      received.add(end.operands[share.operand].target, share.box);
    if (Error error = shares->prepare(context.messages, shareBytes * members.size()))
      return error;
    if (Error error = received.prepare(context.messages, shareBytes))
      return error;
    return preparePadding(part);
  }

  Error preparePadding(const ReduceChannel::Part &part) {
    std::vector<CudaBoxUse> boxes;
    for (const OperandBox &box : part.padding)
      boxes.push_back({0, reinterpret_cast<uint64_t>(end.operands[box.operand].target), box.box});
    if (boxes.empty())
      return Error::success();
    const std::vector<std::byte> zero(elementBytes(channel.element));
    auto made = CudaBoxLaunch::fill(context.messages.cuda, context.messages.kernels, end.gpu, boxes, zero);
    if (made)
      padding = std::move(*made);
    return made.error();
  }

  Error allReduce() {
    const Nccl &nccl = context.world->library();
    ncclResult_t first = nccl.ncclGroupStart();
    auto note = [&](ncclResult_t code) { first = first == ncclSuccess ? code : first; };
    for (size_t i = 0; i != channel.elements.size(); ++i)
      note(nccl.ncclAllReduce(end.operands[i].source, end.operands[i].target, channel.elements[i], type,
                              operationOf(channel.combiner), comm, end.stream));
    note(nccl.ncclGroupEnd());
    return checkNccl(nccl, first, "reducing");
  }

  Error scatter() {
    const Nccl &nccl = context.world->library();
    return checkNccl(nccl,
                     nccl.ncclReduceScatter(shares->data(), received.data(), shareBytes / elementBytes(channel.element),
                                            type, operationOf(channel.combiner), comm, end.stream),
                     "reducing and scattering");
  }

  LinkContext &context;
  const ReduceChannel &channel;
  const CudaEnd end;
  ncclDataType_t type = ncclFloat32;
  ncclComm_t comm = nullptr;
  uint64_t shareBytes = 0;
  std::optional<NcclMessage> shares;
  NcclMessage received;
  std::optional<CudaBoxLaunch> padding;
};

class NcclLinks : public CudaLinks {
public:
  NcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus, DriverContext &driver, int gpu)
      : context{{cuda, CudaLinkKernels(cuda), gpu}, nullptr, {}, createCudaCopies(cuda, gpus)}, driver(driver) {
    for (const Site &site : driver.sites)
      context.rankOfSite.push_back(driver.options.rankOfDevice[site.device]);
    for (const EntryContext &entry : driver.entries)
      inside.push_back(std::make_unique<Channels>(
          entry.channels->within([&](uint32_t site) { return driver.isHere(driver.sites[site]); })));
  }

  Error connectProcesses() {
    if (Error error = check())
      return error;
    auto made = NcclWorld::create(context.messages.cuda, *driver.options.processes, context.messages.gpu, divisions());
    if (made)
      context.world = std::move(*made);
    return made.error();
  }

  void beginStep(bool isCaptured) override { context.world->beginStep(isCaptured); }

  Expected<std::unique_ptr<CudaLink>> connect(const CudaChannel &channel, std::vector<CudaEnd> ends) override {
    if (const auto *reduction = std::get_if<ReduceChannel>(channel.channel))
      return connectReduction(channel, *reduction, std::move(ends));
    CudaChannel within = channel;
    within.channel = &inside[channel.entry]->of(channel.phase).at(channel.number);
    auto local = context.copies->connect(within, ends);
    if (!local)
      return local;
    auto link = std::make_unique<NcclExchange>(context, std::get<ExchangeChannel>(*channel.channel), std::move(ends));
    if (Error error = link->prepare(std::move(*local)))
      return error;
    return std::unique_ptr<CudaLink>(std::move(link));
  }

private:
  /// Calls visit(reduction, ranks of each group) for all reductions of the run.
  template <typename Visit> Error forEachReduction(const Visit &visit) const {
    for (const EntryContext &entry : driver.entries)
      for (Phase phase : {Phase::Prepare, Phase::Body})
        for (const auto &[number, channel] : entry.channels->of(phase)) {
          const auto *reduction = std::get_if<ReduceChannel>(&channel);
          if (!reduction)
            continue;
          std::vector<NcclGroup> groups;
          for (const std::vector<uint32_t> &sites : reduction->groups) {
            NcclGroup &ranks = groups.emplace_back();
            for (uint32_t site : sites)
              ranks.push_back(context.rankOfSite[site]);
          }
          // What stays in a process is copied.
          std::erase_if(groups, [](const NcclGroup &ranks) {
            return std::ranges::all_of(ranks, [&](uint32_t rank) { return rank == ranks.front(); });
          });
          if (Error error = visit(*reduction, groups))
            return error;
        }
    return Error::success();
  }

  /// All processes come to the same answer.
  Error check() const {
    return forEachReduction([](const ReduceChannel &reduction, const std::vector<NcclGroup> &groups) {
      std::set<uint32_t> used;
      for (const NcclGroup &ranks : groups)
        for (uint32_t rank : ranks)
          if (!used.insert(rank).second)
            return makeError(Status::Unsupported,
                             "reductions over NCCL expect one device of a mesh in each process, "
                             "got several at rank ",
                             rank, "; start a process for each device, or run the plan without mpirun");
      if (!groups.empty() && !typeOf(reduction.element))
        return makeError(Status::Unsupported, "NCCL does not combine elements of type ", elementName(reduction.element),
                         "; run the plan without mpirun");
      return Error::success();
    });
  }

  /// All ways in which reductions divide ranks, in one order for all processes.
  std::vector<std::vector<NcclGroup>> divisions() const {
    std::set<std::vector<NcclGroup>> found;
    (void)forEachReduction([&](const ReduceChannel &, const std::vector<NcclGroup> &groups) {
      if (!groups.empty())
        found.insert(groups);
      return Error::success();
    });
    return {found.begin(), found.end()};
  }

  Expected<std::unique_ptr<CudaLink>> connectReduction(const CudaChannel &channel, const ReduceChannel &reduction,
                                                       std::vector<CudaEnd> ends) {
    auto isOwn = [&](uint32_t site) { return context.rankOfSite[site] == context.world->rank(); };
    bool isInside = std::ranges::all_of(ends, [&](const CudaEnd &end) {
      return std::ranges::all_of(reduction.groups[reduction.parts.at(end.site).group], isOwn);
    });
    if (isInside)
      return context.copies->connect(channel, std::move(ends));
    auto link = std::make_unique<NcclReduction>(context, reduction, std::move(ends.front()));
    if (Error error = link->prepare())
      return error;
    return std::unique_ptr<CudaLink>(std::move(link));
  }

  LinkContext context;
  DriverContext &driver;
  std::vector<std::unique_ptr<Channels>> inside; ///< by entry, what stays in the process
};

} // namespace

Expected<std::unique_ptr<CudaLinks>> createNcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus,
                                                     DriverContext &context, int gpu) {
  auto links = std::make_unique<NcclLinks>(cuda, gpus, context, gpu);
  if (Error error = links->connectProcesses())
    return error;
  return std::unique_ptr<CudaLinks>(std::move(links));
}

} // namespace cleave::runtime
