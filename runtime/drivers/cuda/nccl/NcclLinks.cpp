// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Says beforehand which ranks will reduce together, and then makes links.

#include "runtime/drivers/cuda/nccl/NcclLinks.h"

#include "runtime/drivers/cuda/CudaCopies.h"
#include "runtime/drivers/cuda/nccl/NcclExchange.h"
#include "runtime/drivers/cuda/nccl/NcclReduction.h"

#include <algorithm>
#include <set>

namespace cleave::runtime {
namespace {

class NcclLinks : public CudaLinks {
public:
  NcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus, int gpu, uint32_t rank, std::vector<const Channels *> list,
            std::vector<uint32_t> rankOfSite)
      : context{{cuda, CudaLinkKernels(cuda), gpu}, nullptr, std::move(rankOfSite)}, entries(std::move(list)),
        copies(createCudaCopies(cuda, gpus)) {
    for (const Channels *channels : entries)
      inside.push_back(std::make_unique<Channels>(
          channels->within([&](uint32_t site) { return context.rankOfSite[site] == rank; })));
  }

  Error connectProcesses(Processes &processes) {
    if (Error error = checkElements())
      return error;
    auto made = NcclWorld::create(context.messages.cuda, processes, context.messages.gpu, divisions());
    if (made)
      context.world = std::move(*made);
    return made.error();
  }

  void beginStep(bool isCaptured) override { context.world->beginStep(isCaptured); }
  bool canFail() const override { return true; }
  Error check() override { return context.world->check(); }
  void abort(const Error &why) override { context.world->abort(why); }

  Expected<std::unique_ptr<CudaLink>> connect(const CudaChannel &channel, std::vector<CudaEnd> ends) override {
    if (const auto *reduction = std::get_if<ReduceChannel>(channel.channel))
      return createNcclReduction(context, *reduction, ends);
    CudaChannel within = channel;
    within.channel = &inside[channel.entry]->of(channel.phase).at(channel.number);
    auto local = copies->connect(within, ends);
    if (!local)
      return local;
    return createNcclExchange(context, std::get<ExchangeChannel>(*channel.channel), std::move(ends), std::move(*local));
  }

private:
  /// Calls visit(reduction, ranks of each group that has several).
  template <typename Visit> Error forEachReduction(const Visit &visit) const {
    for (const Channels *channels : entries)
      for (Phase phase : {Phase::Prepare, Phase::Body})
        for (const auto &[number, channel] : channels->of(phase))
          if (const auto *reduction = std::get_if<ReduceChannel>(&channel)) {
            std::vector<NcclGroup> groups;
            for (const std::vector<uint32_t> &sites : reduction->groups)
              if (NcclGroup ranks = ranksOf(sites, context.rankOfSite); ranks.size() > 1)
                groups.push_back(std::move(ranks));
            if (Error error = visit(*reduction, groups))
              return error;
          }
    return Error::success();
  }

  /// All processes come to the same answer.
  Error checkElements() const {
    return forEachReduction([](const ReduceChannel &reduction, const std::vector<NcclGroup> &groups) {
      if (groups.empty() || isKnownToNccl(reduction.element))
        return Error::success();
      return makeError(Status::Unsupported, "NCCL does not combine elements of type ", elementName(reduction.element),
                       "; run the plan without mpirun");
    });
  }

  /// All sets of ranks that reduce together, in lists of such that share no rank and in one order for all processes.
  std::vector<std::vector<NcclGroup>> divisions() const {
    std::set<NcclGroup> all;
    (void)forEachReduction([&](const ReduceChannel &, const std::vector<NcclGroup> &groups) {
      all.insert(groups.begin(), groups.end());
      return Error::success();
    });
    std::vector<std::vector<NcclGroup>> lists;
    std::vector<std::set<uint32_t>> used;
    for (const NcclGroup &group : all) {
      size_t list = 0;
      auto isFree = [&](uint32_t rank) { return !used[list].count(rank); };
      while (list != lists.size() && !std::ranges::all_of(group, isFree))
        ++list;
      if (list == lists.size()) {
        lists.emplace_back();
        used.emplace_back();
      }
      lists[list].push_back(group);
      used[list].insert(group.begin(), group.end());
    }
    return lists;
  }

  NcclLinkContext context;
  std::vector<const Channels *> entries;
  std::unique_ptr<CudaLinks> copies;
  std::vector<std::unique_ptr<Channels>> inside; ///< by entry, what stays in the process
};

} // namespace

Expected<std::unique_ptr<CudaLinks>> createNcclLinks(const CudaRuntime &cuda, const CudaGpus &gpus, int gpu,
                                                     Processes &processes, std::vector<const Channels *> entries,
                                                     std::vector<uint32_t> rankOfSite) {
  auto links =
      std::make_unique<NcclLinks>(cuda, gpus, gpu, processes.rank(), std::move(entries), std::move(rankOfSite));
  if (Error error = links->connectProcesses(processes))
    return error;
  return std::unique_ptr<CudaLinks>(std::move(links));
}

} // namespace cleave::runtime
