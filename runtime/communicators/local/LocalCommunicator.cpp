// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every site of a channel has a place where it shows the addresses of its buffers, or its error. In an exchange whoever
// needs a piece waits for its giver to show them and copies; the giver leaves when all have taken theirs. In an
// all-reduce the members take parts of the elements in turns, combine a part from all sources, and write the result to
// all targets at once: every source is read and every target written exactly once. Waiting is sleeping: the cores may
// be needed for computing.

#include "runtime/communicators/local/LocalCommunicator.h"

#include "runtime/Reduction.h"
#include "runtime/Timeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>

namespace cleave::runtime {
namespace {

/// What a site shows to the others, and how often it has.
struct Place {
  std::span<const std::byte> source;
  std::span<std::byte> target;
  Error poison;
  Timeline shown, taken;

  void show(const Participant &participant, uint32_t turn) {
    source = participant.source;
    target = participant.target;
    poison = participant.poison;
    shown.signal(turn);
  }
};

/// The state of an exchange.
class LocalExchange {
public:
  explicit LocalExchange(const ExchangeChannel &channel) : channel(channel) {
    for (const auto &[site, part] : channel.parts)
      places[site];
    for (const auto &[site, part] : channel.parts) {
      givers[site] = others(part.incoming, &Piece::from, site);
      takers[site] = static_cast<uint32_t>(others(part.outgoing, &Piece::to, site).size());
    }
  }

  Error run(const Participant &participant, uint32_t turn) {
    uint32_t site = participant.site;
    Place &own = places.at(site);
    if (takers.at(site) != 0)
      own.show(participant, turn);
    Error error = participant.poison;
    const ExchangeChannel::Part &part = channel.parts.at(site);
    if (!error) {
      for (const StridedCopy &box : part.padding)
        fillBox(box, channel.fill, participant.target.data());
      copyFrom(site, participant.source, participant, part);
    }
    for (uint32_t giver : givers.at(site)) {
      Place &place = places.at(giver);
      place.shown.wait(turn);
      if (!error)
        error = place.poison;
      if (!error)
        copyFrom(giver, place.source, participant, part);
      place.taken.increment();
    }
    if (takers.at(site) != 0)
      own.taken.wait(turn * takers.at(site));
    return error;
  }

private:
  /// The other sites of these pieces, each once, from the next higher number on and around: takers of the same givers
  /// then do not all begin with the same one.
  std::vector<uint32_t> others(const std::vector<uint32_t> &pieces, uint32_t Piece::*end, uint32_t site) const {
    std::vector<uint32_t> list;
    for (uint32_t piece : pieces)
      if (uint32_t other = channel.pieces[piece].*end; other != site)
        list.push_back(other);
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    std::ranges::rotate(list, std::ranges::upper_bound(list, site));
    return list;
  }

  void copyFrom(uint32_t giver, std::span<const std::byte> source, const Participant &participant,
                const ExchangeChannel::Part &part) const {
    auto pieces =
        std::ranges::equal_range(part.incoming, giver, {}, [&](uint32_t piece) { return channel.pieces[piece].from; });
    for (uint32_t piece : pieces)
      copyBox(channel.pieces[piece].box, source.data(), participant.target.data());
  }

  const ExchangeChannel &channel;
  std::unordered_map<uint32_t, Place> places;
  std::unordered_map<uint32_t, std::vector<uint32_t>> givers;
  std::unordered_map<uint32_t, uint32_t> takers;
};

/// The state of a reduction.
class LocalReduction {
public:
  explicit LocalReduction(const ReduceChannel &channel) : channel(channel) {
    for (const auto &members : channel.groups)
      groups.emplace_back(members.size());
  }

  Error run(const Participant &participant, uint32_t turn) {
    const ReduceChannel::Part &part = channel.parts.at(participant.site);
    Group &group = groups[part.group];
    auto size = static_cast<uint32_t>(group.places.size());
    group.places[part.place].show(participant, turn);
    // After everyone has left the step before, and before anyone can pass the wait below.
    if (part.place == 0)
      group.nextPart = 0;
    group.arrived.increment();
    group.arrived.wait(turn * size);
    Error error = participant.poison;
    for (const Place &place : group.places)
      if (!error)
        error = place.poison;
    if (!error)
      channel.scatters ? scatter(group, part, participant) : combineParts(group);
    group.done.increment();
    group.done.wait(turn * size);
    return error;
  }

private:
  struct Group {
    explicit Group(size_t members) : places(members) {}
    std::deque<Place> places;
    Timeline arrived, done;
    std::atomic<uint64_t> nextPart{0}; ///< the first part of the elements that nobody has taken
  };

  /// Takes parts, in whole cache lines, until none is left.
  void combineParts(Group &group) const {
    unsigned width = elementBytes(channel.element);
    uint64_t line = 64 / width, lines = (channel.elements + line - 1) / line, size = group.places.size();
    uint64_t parts = partsEach * size;
    bool streams = exceedsOwnCaches(channel.elements * width * size);
    std::vector<const std::byte *> sources(size);
    std::vector<std::byte *> targets(size);
    for (uint64_t part = group.nextPart++; part < parts; part = group.nextPart++) {
      uint64_t begin = lines * part / parts * line;
      uint64_t end = std::min(channel.elements, lines * (part + 1) / parts * line);
      if (begin >= end)
        continue;
      for (size_t i = 0; i != size; ++i) {
        sources[i] = group.places[i].source.data() + begin * width;
        targets[i] = group.places[i].target.data() + begin * width;
      }
      combine(channel.element, channel.combiner, sources, targets, end - begin, streams);
    }
  }

  void scatter(Group &group, const ReduceChannel::Part &part, const Participant &participant) const {
    unsigned width = elementBytes(channel.element);
    std::vector<const std::byte *> sources(group.places.size());
    std::byte *target = nullptr;
    for (const StridedCopy &box : part.share)
      forEachRun(box, [&](uint64_t from, uint64_t to) {
        for (size_t i = 0; i != sources.size(); ++i)
          sources[i] = group.places[i].source.data() + from;
        target = participant.target.data() + to;
        combine(channel.element, channel.combiner, sources, std::span(&target, 1), box.runBytes / width,
                exceedsOwnCaches(channel.elements * width));
      });
    std::vector<std::byte> zero(width);
    for (const StridedCopy &box : part.padding)
      fillBox(box, zero, participant.target.data());
  }

  /// Parts for each member: one whose core is busy elsewhere leaves some of its own to the others.
  static constexpr uint64_t partsEach = 8;

  const ReduceChannel &channel;
  std::deque<Group> groups;
};

class LocalCommunicator : public Communicator {
public:
  explicit LocalCommunicator(const Channels &channels) {
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const auto &[number, channel] : channels.of(phase)) {
        if (const auto *exchange = std::get_if<ExchangeChannel>(&channel))
          exchanges[static_cast<unsigned>(phase)].try_emplace(number, *exchange);
        else
          reductions[static_cast<unsigned>(phase)].try_emplace(number, std::get<ReduceChannel>(channel));
      }
  }
  Error exchange(const Transfer &transfer, const Participant &participant) override {
    return exchanges[static_cast<unsigned>(transfer.phase)].at(transfer.channel).run(participant, turnOf(transfer));
  }
  Error reduce(const Transfer &transfer, const Participant &participant) override {
    return reductions[static_cast<unsigned>(transfer.phase)].at(transfer.channel).run(participant, turnOf(transfer));
  }

private:
  static uint32_t turnOf(const Transfer &transfer) { return static_cast<uint32_t>(transfer.step + 1); }

  // Filled by the constructor; afterwards only looked up, by several threads. By phase.
  std::array<std::unordered_map<uint32_t, LocalExchange>, 2> exchanges;
  std::array<std::unordered_map<uint32_t, LocalReduction>, 2> reductions;
};

} // namespace

std::unique_ptr<Communicator> createLocalCommunicator(const Channels &channels) {
  return std::make_unique<LocalCommunicator>(channels);
}

} // namespace cleave::runtime
