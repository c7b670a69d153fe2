// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every site of a channel has a place where it shows the addresses of its buffers, or its error. In an exchange whoever
// needs a piece waits for its giver to show them and copies; the giver leaves when all have taken theirs. In an
// all-reduce the members take parts of the elements in turns, combine a part from all sources, and write the result to
// all targets at once: every source is read and every target written exactly once. Several tensors are one
// communication: everyone shows the buffers of all of them. Waiting is sleeping: the cores may be needed for computing.

#include "runtime/Communicator.h"

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
  Participant participant;
  Timeline shown, taken;

  void show(const Participant &shownOne, uint32_t turn) {
    participant = shownOne;
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
      for (const OperandBox &padding : part.padding)
        fillBox(padding.box, channel.fill, participant.targetOf(padding.operand).data());
      copyFrom(participant, participant, part);
    }
    for (uint32_t giver : givers.at(site)) {
      Place &place = places.at(giver);
      place.shown.wait(turn);
      if (!error)
        error = place.participant.poison;
      if (!error)
        copyFrom(place.participant, participant, part);
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

  void copyFrom(const Participant &giver, const Participant &taker, const ExchangeChannel::Part &part) const {
    auto pieces = std::ranges::equal_range(part.incoming, giver.site, {},
                                           [&](uint32_t piece) { return channel.pieces[piece].from; });
    for (uint32_t index : pieces) {
      const Piece &piece = channel.pieces[index];
      copyBox(piece.box, giver.sourceOf(piece.operand).data(), taker.targetOf(piece.operand).data());
    }
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
    for (uint64_t elements : channel.elements)
      lines.push_back(lines.back() + (elements + line() - 1) / line());
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
        error = place.participant.poison;
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

  /// Elements of a cache line.
  uint64_t line() const { return 64 / elementBytes(channel.element); }

  /// Takes parts, in whole cache lines of the tensors one after the other, until none is left.
  void combineParts(Group &group) const {
    uint64_t parts = partsEach * group.places.size();
    for (uint64_t part = group.nextPart++; part < parts; part = group.nextPart++)
      combineLines(group, lines.back() * part / parts, lines.back() * (part + 1) / parts);
  }

  void combineLines(Group &group, uint64_t first, uint64_t last) const {
    unsigned width = elementBytes(channel.element);
    size_t size = group.places.size();
    bool streams = exceedsOwnCaches(channel.allElements() * width * size);
    std::vector<const std::byte *> sources(size);
    std::vector<std::byte *> targets(size);
    auto operand = static_cast<uint32_t>(std::ranges::upper_bound(lines, first) - lines.begin() - 1);
    for (; first < last; first = lines[++operand]) {
      uint64_t begin = (first - lines[operand]) * line();
      uint64_t end =
          std::min(channel.elements[operand], (std::min(last, lines[operand + 1]) - lines[operand]) * line());
      if (begin >= end)
        continue;
      for (size_t i = 0; i != size; ++i) {
        const Participant &member = group.places[i].participant;
        sources[i] = member.sourceOf(operand).data() + begin * width;
        targets[i] = member.targetOf(operand).data() + begin * width;
      }
      combine(channel.element, channel.combiner, sources, targets, end - begin, streams);
    }
  }

  void scatter(Group &group, const ReduceChannel::Part &part, const Participant &participant) const {
    unsigned width = elementBytes(channel.element);
    std::vector<const std::byte *> sources(group.places.size());
    std::byte *target = nullptr;
    bool streams = exceedsOwnCaches(channel.allElements() * width);
    for (const auto &[operand, box] : part.share)
      forEachRun(box, [&, operand = operand, runBytes = box.runBytes](uint64_t from, uint64_t to) {
        for (size_t i = 0; i != sources.size(); ++i)
          sources[i] = group.places[i].participant.sourceOf(operand).data() + from;
        target = participant.targetOf(operand).data() + to;
        combine(channel.element, channel.combiner, sources, std::span(&target, 1), runBytes / width, streams);
      });
    std::vector<std::byte> zero(width);
    for (const auto &[operand, box] : part.padding)
      fillBox(box, zero, participant.targetOf(operand).data());
  }

  /// Parts for each member: one whose core is busy elsewhere leaves some of its own to the others.
  static constexpr uint64_t partsEach = 8;

  const ReduceChannel &channel;
  /// Where each tensor's cache lines begin among those of all, and where the last one's end.
  std::vector<uint64_t> lines = {0};
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
