// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rendezvous by events. Whoever takes waits until its givers are at the communication, and copies on its own stream;
// givers go on when all have taken theirs. In a reduction each GPU combines a share of the elements from all sources
// and writes it to all targets; of a reduce-scatter each member combines its part. Elements are combined in the order
// of the members, so all get the same bits, those that the cpu driver gets.

#include "runtime/drivers/cuda/CudaCopies.h"

#include "runtime/drivers/cuda/CudaBoxes.h"

#include <algorithm>
#include <optional>
#include <set>

namespace cleave::runtime {
namespace {

/// What copies share.
struct CopyContext {
  const CudaRuntime &cuda;
  const CudaGpus &gpus;
  CudaLinkKernels kernels;
};

uint64_t addressOf(const std::byte *pointer) { return reinterpret_cast<uint64_t>(pointer); }

Error notLinked(int from, int to) {
  return makeError(Status::Unsupported, "a reduction over GPUs ", from, " and ", to,
                   " expects them to reach each other's memory, and they cannot; choose others with CLEAVE_GPUS");
}

/// The members of a link, and streams that wait for each other's turns.
class Meeting {
public:
  Meeting(CopyContext &context, std::vector<CudaEnd> list)
      : context(context), cuda(context.cuda), ends(std::move(list)) {}

  /// Makes an event for each end, for its arrival and for the end of its work.
  Error prepare() {
    for (const CudaEnd &end : ends)
      for (std::vector<CudaEvent> *events : {&arrived, &done}) {
        auto made = createCudaEvent(cuda, end.gpu);
        if (!made)
          return made.error();
        events->push_back(std::move(*made));
      }
    return Error::success();
  }
  Error record(const std::vector<CudaEvent> &events, size_t end) const {
    return checkCuda(cuda, cuda.cudaEventRecord(events[end].get(), ends[end].stream), "recording an event");
  }
  /// Nothing to do for an end's own event: its stream keeps its order.
  Error wait(size_t end, const std::vector<CudaEvent> &events, size_t other) const {
    if (end == other)
      return Error::success();
    return checkCuda(cuda, cuda.cudaStreamWaitEvent(ends[end].stream, events[other].get(), 0), "waiting for an event");
  }
  Error use(size_t end) const { return checkCuda(cuda, cuda.cudaSetDevice(ends[end].gpu), "using a GPU"); }
  std::optional<size_t> find(uint32_t site) const {
    auto found = std::ranges::find(ends, site, &CudaEnd::site);
    return found == ends.end() ? std::nullopt : std::optional(static_cast<size_t>(found - ends.begin()));
  }

  CopyContext &context;
  const CudaRuntime &cuda;
  std::vector<CudaEnd> ends;
  std::vector<CudaEvent> arrived, done;
};

/// What one end takes from another, or from itself.
struct Taking {
  size_t taker = 0, giver = 0;
  std::vector<CudaBoxUse> rows; ///< that move one by one
  std::optional<CudaBoxLaunch> launch;
};

class CopyingExchange : public CudaLink {
public:
  CopyingExchange(CopyContext &context, const ExchangeChannel &channel, std::vector<CudaEnd> ends)
      : channel(channel), meeting(context, std::move(ends)) {}

  Error prepare() {
    if (Error error = meeting.prepare())
      return error;
    takers.resize(meeting.ends.size());
    fills.resize(meeting.ends.size());
    for (size_t taker = 0; taker != meeting.ends.size(); ++taker) {
      const ExchangeChannel::Part &part = channel.parts.at(meeting.ends[taker].site);
      if (Error error = prepareFill(taker, part))
        return error;
      std::set<uint32_t> givers;
      for (uint32_t piece : part.incoming)
        givers.insert(channel.pieces[piece].from);
      for (uint32_t giver : givers)
        if (Error error = prepareTaking(taker, giver, part))
          return error;
    }
    return Error::success();
  }

  Error enqueue() override {
    for (size_t giver = 0; giver != meeting.ends.size(); ++giver)
      if (!takers[giver].empty())
        if (Error error = meeting.record(meeting.arrived, giver))
          return error;
    for (size_t taker = 0; taker != meeting.ends.size(); ++taker)
      if (fills[taker]) {
        if (Error error = meeting.use(taker))
          return error;
        if (Error error = fills[taker]->enqueue(meeting.ends[taker].stream))
          return error;
      }
    for (Taking &taking : takings)
      if (Error error = take(taking))
        return error;
    for (size_t giver = 0; giver != meeting.ends.size(); ++giver)
      for (size_t taker : takers[giver])
        if (Error error = meeting.wait(giver, meeting.done, taker))
          return error;
    return Error::success();
  }

private:
  Error prepareFill(size_t taker, const ExchangeChannel::Part &part) {
    const CudaEnd &end = meeting.ends[taker];
    std::vector<CudaBoxUse> boxes;
    for (const OperandBox &padding : part.padding)
      boxes.push_back({0, addressOf(end.operands[padding.operand].target), padding.box});
    if (boxes.empty())
      return Error::success();
    auto made = CudaBoxLaunch::fill(meeting.cuda, meeting.context.kernels, end.gpu, boxes, channel.fill);
    if (made)
      fills[taker] = std::move(*made);
    return made.error();
  }

  Error prepareTaking(size_t taker, uint32_t site, const ExchangeChannel::Part &part) {
    auto giver = meeting.find(site);
    if (!giver)
      return makeError(Status::Unsupported, "copies between GPUs expect all devices in one process");
    const CudaEnd &from = meeting.ends[*giver], &to = meeting.ends[taker];
    if (taker != *giver)
      takers[*giver].push_back(taker);
    auto reaches = meeting.context.gpus.connect(to.gpu, from.gpu);
    if (!reaches)
      return reaches.error();
    Taking taking;
    taking.taker = taker;
    taking.giver = *giver;
    std::vector<CudaBoxUse> boxes;
    for (uint32_t index : part.incoming)
      if (const Piece &piece = channel.pieces[index]; piece.from == site) {
        CudaBoxUse use{addressOf(from.operands[piece.operand].source), addressOf(to.operands[piece.operand].target),
                       piece.box};
        use.copy.simplify();
        bool isRow = use.copy.dims.empty();
        (isRow || !*reaches ? taking.rows : boxes).push_back(std::move(use));
      }
    if (!boxes.empty()) {
      auto made = CudaBoxLaunch::copy(meeting.cuda, meeting.context.kernels, to.gpu, boxes);
      if (!made)
        return made.error();
      taking.launch = std::move(*made);
    }
    takings.push_back(std::move(taking));
    return Error::success();
  }

  /// The last of a taker's takings is followed by its event.
  Error take(Taking &taking) {
    if (Error error = meeting.wait(taking.taker, meeting.arrived, taking.giver))
      return error;
    if (Error error = meeting.use(taking.taker))
      return error;
    cudaStream_t stream = meeting.ends[taking.taker].stream;
    if (taking.launch)
      if (Error error = taking.launch->enqueue(stream))
        return error;
    for (const CudaBoxUse &use : taking.rows)
      if (Error error = copyRows(use, stream, meeting.ends[taking.taker].gpu))
        return error;
    return taking.taker == taking.giver ? Error::success() : meeting.record(meeting.done, taking.taker);
  }

  /// By the innermost dimension and the run, for each index of the others; run by run where rows are too far apart.
  Error copyRows(const CudaBoxUse &use, cudaStream_t stream, int gpu) const {
    if (use.copy.bytes() == 0)
      return Error::success();
    StridedCopy outer = use.copy;
    StridedCopy::Dim rows{1, outer.runBytes, outer.runBytes};
    int most = 0;
    if (Error error = checkCuda(meeting.cuda, meeting.cuda.cudaDeviceGetAttribute(&most, cudaDevAttrMaxPitch, gpu),
                                "asking a GPU"))
      return error;
    auto fits = [&](uint64_t stride) { return stride <= static_cast<uint64_t>(most); };
    if (!outer.dims.empty() && fits(outer.dims.back().sourceStride) && fits(outer.dims.back().targetStride)) {
      rows = outer.dims.back();
      outer.dims.pop_back();
    }
    Error error;
    forEachRun(outer, [&](uint64_t from, uint64_t to) {
      if (error)
        return;
      auto *source = reinterpret_cast<const std::byte *>(use.source + from);
      auto *target = reinterpret_cast<std::byte *>(use.target + to);
      const CudaRuntime &cuda = meeting.cuda;
      bool isRun = rows.count == 1;
      cudaError_t code = isRun ? cuda.cudaMemcpyAsync(target, source, outer.runBytes, cudaMemcpyDefault, stream)
                               : cuda.cudaMemcpy2DAsync(target, rows.targetStride, source, rows.sourceStride,
                                                        outer.runBytes, rows.count, cudaMemcpyDefault, stream);
      error = checkCuda(cuda, code, "copying between devices");
    });
    return error;
  }

  const ExchangeChannel &channel;
  Meeting meeting;
  std::vector<Taking> takings;                     ///< by takers
  std::vector<std::vector<size_t>> takers;         ///< by giver, others only
  std::vector<std::optional<CudaBoxLaunch>> fills; ///< by taker
};

class CopyingReduction : public CudaLink {
public:
  CopyingReduction(CopyContext &context, const ReduceChannel &channel, std::vector<CudaEnd> ends)
      : channel(channel), meeting(context, std::move(ends)) {}

  Error prepare() {
    if (Error error = meeting.prepare())
      return error;
    for (const std::vector<uint32_t> &sites : channel.groups) {
      Group group;
      for (uint32_t site : sites)
        if (auto member = meeting.find(site))
          group.members.push_back(*member);
      if (group.members.size() != sites.size())
        return makeError(Status::Unsupported, "copies between GPUs expect all devices in one process");
      if (Error error = checkReach(group))
        return error;
      if (Error error = channel.scatters ? prepareScatter(group) : prepareShares(group))
        return error;
      groups.push_back(std::move(group));
    }
    return Error::success();
  }

  Error enqueue() override {
    for (size_t end = 0; end != meeting.ends.size(); ++end)
      if (Error error = meeting.record(meeting.arrived, end))
        return error;
    for (Group &group : groups)
      if (Error error = run(group))
        return error;
    return Error::success();
  }

private:
  /// What one member does for the group.
  struct Work {
    size_t worker = 0;
    std::vector<CudaBoxLaunch> launches;
  };
  struct Group {
    std::vector<size_t> members;
    std::vector<Work> works;
  };

  Error checkReach(const Group &group) const {
    for (size_t a : group.members)
      for (size_t b : group.members) {
        int from = meeting.ends[a].gpu, to = meeting.ends[b].gpu;
        auto reaches = meeting.context.gpus.connect(from, to);
        if (!reaches)
          return reaches.error();
        if (!*reaches)
          return notLinked(from, to);
      }
    return Error::success();
  }

  std::vector<uint64_t> addresses(const Group &group, uint32_t operand, std::byte *CudaEnd::Operand::*side) const {
    std::vector<uint64_t> list;
    for (size_t member : group.members)
      list.push_back(addressOf(meeting.ends[member].operands[operand].*side));
    return list;
  }

  /// The first member on each GPU does the GPU's share of every tensor.
  Error prepareShares(Group &group) {
    std::vector<size_t> workers;
    for (size_t member : group.members)
      if (std::ranges::none_of(workers,
                               [&](size_t other) { return meeting.ends[other].gpu == meeting.ends[member].gpu; }))
        workers.push_back(member);
    unsigned width = elementBytes(channel.element);
    for (size_t i = 0; i != workers.size(); ++i) {
      Work work{workers[i], {}};
      for (uint32_t operand = 0; operand != channel.elements.size(); ++operand) {
        uint64_t begin = channel.elements[operand] * i / workers.size();
        uint64_t end = channel.elements[operand] * (i + 1) / workers.size();
        CudaBoxUse share{0, 0, {begin * width, begin * width, {}, (end - begin) * width}};
        if (Error error = addCombination(work, {&share, 1}, addresses(group, operand, &CudaEnd::Operand::source),
                                         addresses(group, operand, &CudaEnd::Operand::target)))
          return error;
      }
      group.works.push_back(std::move(work));
    }
    return Error::success();
  }

  /// Each member combines what is its own, and fills its padding.
  Error prepareScatter(Group &group) {
    for (size_t member : group.members) {
      Work work{member, {}};
      const CudaEnd &end = meeting.ends[member];
      const ReduceChannel::Part &part = channel.parts.at(end.site);
      for (uint32_t operand = 0; operand != channel.elements.size(); ++operand) {
        uint64_t target = addressOf(end.operands[operand].target);
        std::vector<CudaBoxUse> share, padding;
        for (const OperandBox &box : part.share)
          if (box.operand == operand)
            share.push_back({0, 0, box.box});
        for (const OperandBox &box : part.padding)
          if (box.operand == operand)
            padding.push_back({0, target, box.box});
        if (Error error =
                addCombination(work, share, addresses(group, operand, &CudaEnd::Operand::source), {&target, 1}))
          return error;
        const std::vector<std::byte> zero(elementBytes(channel.element));
        auto fill = CudaBoxLaunch::fill(meeting.cuda, meeting.context.kernels, end.gpu, padding, zero);
        if (!fill)
          return fill.error();
        work.launches.push_back(std::move(*fill));
      }
      group.works.push_back(std::move(work));
    }
    return Error::success();
  }

  Error addCombination(Work &work, std::span<const CudaBoxUse> boxes, const std::vector<uint64_t> &sources,
                       std::span<const uint64_t> targets) {
    auto made = CudaBoxLaunch::combine(meeting.cuda, meeting.context.kernels, meeting.ends[work.worker].gpu, boxes,
                                       channel.element, channel.combiner, sources, targets);
    if (made)
      work.launches.push_back(std::move(*made));
    return made.error();
  }

  Error run(Group &group) {
    for (Work &work : group.works) {
      for (size_t member : group.members)
        if (Error error = meeting.wait(work.worker, meeting.arrived, member))
          return error;
      if (Error error = meeting.use(work.worker))
        return error;
      for (CudaBoxLaunch &launch : work.launches)
        if (Error error = launch.enqueue(meeting.ends[work.worker].stream))
          return error;
      if (Error error = meeting.record(meeting.done, work.worker))
        return error;
    }
    for (size_t member : group.members)
      for (const Work &work : group.works)
        if (Error error = meeting.wait(member, meeting.done, work.worker))
          return error;
    return Error::success();
  }

  const ReduceChannel &channel;
  Meeting meeting;
  std::vector<Group> groups;
};

class CudaCopies : public CudaLinks {
public:
  CudaCopies(const CudaRuntime &cuda, const CudaGpus &gpus) : context{cuda, gpus, CudaLinkKernels(cuda)} {}

  Expected<std::unique_ptr<CudaLink>> connect(const CudaChannel &channel, std::vector<CudaEnd> ends) override {
    if (const auto *exchange = std::get_if<ExchangeChannel>(channel.channel))
      return prepared<CopyingExchange>(*exchange, std::move(ends));
    return prepared<CopyingReduction>(std::get<ReduceChannel>(*channel.channel), std::move(ends));
  }

private:
  template <typename Link, typename ChannelType>
  Expected<std::unique_ptr<CudaLink>> prepared(const ChannelType &channel, std::vector<CudaEnd> ends) {
    auto link = std::make_unique<Link>(context, channel, std::move(ends));
    if (Error error = link->prepare())
      return error;
    return std::unique_ptr<CudaLink>(std::move(link));
  }

  CopyContext context;
};

} // namespace

std::unique_ptr<CudaLinks> createCudaCopies(const CudaRuntime &cuda, const CudaGpus &gpus) {
  return std::make_unique<CudaCopies>(cuda, gpus);
}

} // namespace cleave::runtime
