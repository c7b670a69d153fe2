// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes the messages and groups of each channel, all processes in the same order, and divides each call between the
// local communicator and MPI. Messages from one process to another are told apart by tags, which both count alike.

#include "runtime/communicators/mpi/MpiCommunicator.h"

#include "runtime/Communicator.h"
#include "runtime/communicators/mpi/MpiExchange.h"
#include "runtime/communicators/mpi/MpiReduction.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <map>

namespace cleave::runtime {
namespace {

class MpiCommunicator : public Communicator {
public:
  MpiCommunicator(const Channels &channels, const std::vector<uint32_t> &rankOfSite, MPI_Comm world, MpiWaiter &waiter,
                  bool expectsLosses)
      : rankOfSite(rankOfSite), world(world), waiter(waiter), expectsLosses(expectsLosses), rank(rankIn(world)),
        inner(channels.within([&](uint32_t site) { return isHere(site); })), local(createLocalCommunicator(inner)) {
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const auto &[number, channel] : channels.of(phase))
        ordered[{phase, number}] = &channel;
  }
  ~MpiCommunicator() override {
    // Freeing a communicator may wait for all its processes.
    if (Logbook::own() && Logbook::own()->firstLoss())
      return;
    for (MPI_Comm &comm : messages)
      MPI_Comm_free(&comm);
    for (auto &[key, group] : groups)
      if (group.transport.comm != MPI_COMM_NULL)
        MPI_Comm_free(&group.transport.comm);
  }

  Error create() {
    createMessages();
    createGroups();
    return checkCounts();
  }

  Error exchange(const Transfer &transfer, const Participant &participant) override {
    auto found = exchanges.find({transfer.phase, transfer.channel, participant.site});
    if (found == exchanges.end())
      return local->exchange(transfer, participant);
    found->second.start(participant);
    Error near = local->exchange(transfer, participant);
    Error far = found->second.finish(participant);
    return near ? near : far;
  }
  Error reduce(const Transfer &transfer, const Participant &participant) override {
    auto found = reductions.find({transfer.phase, transfer.channel, participant.site});
    if (found == reductions.end())
      return local->reduce(transfer, participant);
    return found->second->run(participant, static_cast<uint32_t>(transfer.step + 1));
  }

private:
  using SiteOfChannel = std::tuple<Phase, uint32_t, uint32_t>;
  /// A queue of a program, and sites of it.
  using GroupKey = std::pair<uint32_t, std::vector<uint32_t>>;

  static uint32_t rankIn(MPI_Comm comm) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    return static_cast<uint32_t>(rank);
  }
  bool isHere(uint32_t site) const { return rankOfSite[site] == rank; }

  /// Messages of each channel in the order of their ends, and a number for each among those between its two processes.
  void createMessages() {
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> numbers;
    std::vector<std::pair<MpiMessage *, uint64_t>> numbered;
    for (const auto &[key, channel] : ordered) {
      const auto *exchange = std::get_if<ExchangeChannel>(channel);
      if (!exchange)
        continue;
      std::map<std::pair<uint32_t, uint32_t>, std::vector<const Piece *>> pieces;
      for (const Piece &piece : exchange->pieces)
        if (rankOfSite[piece.from] != rankOfSite[piece.to] && piece.box.bytes() != 0)
          pieces[{piece.from, piece.to}].push_back(&piece);
      for (auto &[ends, list] : pieces)
        addMessage(key, ends, std::move(list), numbers[{rankOfSite[ends.first], rankOfSite[ends.second]}]++);
    }
    uint64_t most = 0;
    for (const auto &[processes, count] : numbers)
      most = std::max(most, count);
    createMessageComms(most);
  }

  void addMessage(const std::pair<Phase, uint32_t> &key, std::pair<uint32_t, uint32_t> ends,
                  std::vector<const Piece *> pieces, uint64_t number) {
    auto [from, to] = ends;
    uint32_t own = isHere(from) ? from : to, other = isHere(from) ? to : from;
    MpiExchange &exchange = exchanges.try_emplace({key.first, key.second, own}, waiter, rank).first->second;
    MpiMessage &message = isHere(from) ? exchange.addOutgoing() : exchange.addIncoming();
    message.from = from;
    message.to = to;
    message.process = static_cast<int>(rankOfSite[other]);
    message.number = number;
    for (const Piece *piece : pieces)
      message.bytes += piece->box.bytes();
    message.pieces = std::move(pieces);
  }

  /// As many communicators as the tags of messages between two processes need.
  void createMessageComms(uint64_t most) {
    int *bound = nullptr, found = 0;
    MPI_Comm_get_attr(world, MPI_TAG_UB, static_cast<void *>(&bound), &found);
    uint64_t tags = found ? static_cast<uint64_t>(*bound) + 1 : 32768;
    uint64_t needed = (most + tags - 1) / tags;
    MPI_Allreduce(MPI_IN_PLACE, &needed, 1, MPI_UINT64_T, MPI_MAX, world);
    messages.resize(needed);
    for (MPI_Comm &comm : messages)
      MPI_Comm_dup(world, &comm);
    for (auto &[key, exchange] : exchanges)
      exchange.forEachMessage([&](MpiMessage &message) {
        message.comm = messages[message.number / tags];
        message.tag = static_cast<int>(message.number % tags);
      });
  }

  /// Communicators of processes that reduce together. Every process goes through its groups in the order of their keys,
  /// which is the same everywhere, so that nobody waits in a circle.
  void createGroups() {
    for (const auto &[key, channel] : ordered)
      if (const auto *reduce = std::get_if<ReduceChannel>(channel))
        for (const std::vector<uint32_t> &sites : reduce->groups)
          if (std::vector<uint32_t> ranks = ranksOf(sites); ranks.size() > 1 && std::ranges::count(ranks, rank) != 0)
            groups[{reduce->queue, sites}].ranks = std::move(ranks);
    MPI_Group everybody;
    MPI_Comm_group(world, &everybody);
    for (auto &[key, group] : groups) {
      std::vector<int> ranks(group.ranks.begin(), group.ranks.end());
      MPI_Group members;
      MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &members);
      MPI_Comm_create_group(world, members, 0, &group.transport.comm);
      MPI_Group_free(&members);
      group.transport.own = static_cast<size_t>(std::ranges::find(group.ranks, rank) - group.ranks.begin());
      group.transport.count = group.ranks.size();
      group.transport.waiter = &waiter;
      group.transport.expectsLosses = expectsLosses;
    }
    MPI_Group_free(&everybody);
    for (const auto &[key, channel] : ordered)
      if (const auto *reduce = std::get_if<ReduceChannel>(channel))
        createReductions(key, *reduce);
  }

  void createReductions(const std::pair<Phase, uint32_t> &key, const ReduceChannel &channel) {
    for (uint32_t index = 0; index != channel.groups.size(); ++index) {
      auto group = groups.find({channel.queue, channel.groups[index]});
      if (group == groups.end())
        continue;
      MpiReduction &reduction = owned.emplace_back(channel, index, rankOfSite, group->second, operations);
      for (uint32_t site : channel.groups[index])
        if (isHere(site))
          reductions[{key.first, key.second, site}] = &reduction;
    }
  }

  /// The processes of these sites, each once, in the order of their first sites.
  std::vector<uint32_t> ranksOf(const std::vector<uint32_t> &sites) const {
    std::vector<uint32_t> ranks;
    for (uint32_t site : sites)
      if (std::ranges::find(ranks, rankOfSite[site]) == ranks.end())
        ranks.push_back(rankOfSite[site]);
    return ranks;
  }

  Error checkCounts() const {
    for (const auto &[key, channel] : ordered)
      if (const auto *reduce = std::get_if<ReduceChannel>(channel); reduce && reduce->scatters)
        if (reduce->allElements() > INT_MAX)
          return makeError(Status::Unsupported, "reduce_scatter over MPI expects at most ", INT_MAX, " elements, got ",
                           reduce->allElements(), "; run its devices in one process");
    return Error::success();
  }

  const std::vector<uint32_t> rankOfSite;
  const MPI_Comm world;
  MpiWaiter &waiter;
  const bool expectsLosses;
  const uint32_t rank;
  /// What stays in the process, and who moves it.
  const Channels inner;
  const std::unique_ptr<Communicator> local;

  std::map<std::pair<Phase, uint32_t>, const Channel *> ordered;
  std::vector<MPI_Comm> messages;
  MpiOperations operations;
  std::map<GroupKey, MpiGroup> groups;
  std::deque<MpiReduction> owned;
  // Filled by create(); afterwards only looked up, by several threads.
  std::map<SiteOfChannel, MpiExchange> exchanges;
  std::map<SiteOfChannel, MpiReduction *> reductions;
};

} // namespace

Expected<std::unique_ptr<Communicator>> createMpiCommunicator(const Channels &channels,
                                                              const std::vector<uint32_t> &rankOfSite, MPI_Comm world,
                                                              MpiWaiter &waiter, bool expectsLosses) {
  auto communicator = std::make_unique<MpiCommunicator>(channels, rankOfSite, world, waiter, expectsLosses);
  if (Error error = communicator->create())
    return error;
  return std::unique_ptr<Communicator>(std::move(communicator));
}

} // namespace cleave::runtime
