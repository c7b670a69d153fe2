// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From channels to links.

#include "runtime/simulator/Traffic.h"

#include "runtime/simulator/GroupTraffic.h"

#include <algorithm>
#include <numeric>

namespace cleave::runtime {

Traffic::Traffic(const PlanContents &plan, const Entry &entry, std::span<const Site> sites, const MachineModel &model)
    : plan(plan), entry(entry), sites(sites), model(model) {
  for (uint32_t site = 0; site != sites.size(); ++site)
    if (sites[site].member == 0)
      firstSite[sites[site].program->mesh] = site;
  for (const Program &program : entry.programs)
    for (const Instruction &instruction : program.body)
      add(program, instruction);
}

template <typename Make> void Traffic::remember(uint32_t channel, Key key, Make make) {
  auto [entry, isNew] = listOf.try_emplace(std::move(key), static_cast<uint32_t>(lists.size()));
  if (isNew)
    lists.push_back(make());
  listOfChannel[channel] = entry->second;
}

void Traffic::add(const Program &program, const Instruction &instruction) {
  const Action &action = instruction.action;
  auto bytesOf = [&](uint32_t buffer) { return *program.buffers[buffer].type.byteSize(); };
  auto side = [&](uint32_t mesh, int32_t tile) {
    return ExchangeSide{&plan.meshes[mesh], entry.tile(tile), firstSite.at(mesh)};
  };
  if (const auto *all = std::get_if<AllReduce>(&action)) {
    uint64_t bytes = bytesOf(all->source);
    remember(all->channel, {action.index(), program.mesh, 0, -1, -1, bytes, all->axes},
             [&] { return group(program.mesh, all->axes, GroupWork::Kind::AllReduce, static_cast<double>(bytes)); });
  } else if (const auto *scatter = std::get_if<ReduceScatter>(&action)) {
    uint64_t bytes = bytesOf(scatter->source);
    remember(scatter->channel, {action.index(), program.mesh, 0, -1, -1, bytes, scatter->axes}, [&] {
      return group(program.mesh, scatter->axes, GroupWork::Kind::ReduceScatter, static_cast<double>(bytes));
    });
  } else if (const auto *exchanged = std::get_if<Exchange>(&action)) {
    uint64_t bytes = bytesOf(exchanged->target);
    ExchangeSide source = side(program.mesh, exchanged->sourceTile);
    ExchangeSide target = side(program.mesh, exchanged->targetTile);
    std::vector<uint32_t> cutAxes;
    for (uint32_t axis = 0; axis != source.mesh->axes.size(); ++axis)
      if (source.tile && cuts(*source.tile, axis) && !(target.tile && cuts(*target.tile, axis)))
        cutAxes.push_back(axis);
    remember(exchanged->channel,
             {action.index(),
              program.mesh,
              static_cast<uint32_t>(exchanged->kind),
              exchanged->sourceTile,
              exchanged->targetTile,
              bytes,
              {}},
             [&] {
               const TensorType &type = program.buffers[exchanged->target].type;
               return exchanged->kind == ExchangeKind::AllGather
                          ? group(program.mesh, cutAxes, GroupWork::Kind::AllGather, static_cast<double>(bytes))
                          : exchange(source, target, type);
             });
  } else if (const auto *receive = std::get_if<Receive>(&action)) {
    uint64_t bytes = bytesOf(receive->buffer);
    remember(receive->channel,
             {action.index(), receive->mesh, program.mesh, receive->sourceTile, receive->targetTile, bytes, {}}, [&] {
               return exchange(side(receive->mesh, receive->sourceTile), side(program.mesh, receive->targetTile),
                               program.buffers[receive->buffer].type);
             });
  }
}

std::vector<Meeting> Traffic::group(uint32_t mesh, const std::vector<uint32_t> &axes, GroupWork::Kind kind,
                                    double bytes) const {
  std::vector<std::vector<uint32_t>> groups = groupsAlong(plan.meshes[mesh], axes), devices;
  for (const std::vector<uint32_t> &members : groups) {
    std::vector<uint32_t> &list = devices.emplace_back();
    for (uint32_t member : members)
      list.push_back(plan.meshes[mesh].devices[member]);
  }
  std::vector<std::vector<TrafficPhase>> phases = groupPhases(model, kind, bytes, devices);
  std::vector<Meeting> meetings;
  for (size_t i = 0; i != groups.size(); ++i) {
    Meeting &meeting = meetings.emplace_back();
    for (uint32_t member : groups[i])
      meeting.sites.push_back(firstSite.at(mesh) + member);
    meeting.phases = std::move(phases[i]);
  }
  return meetings;
}

/// Pieces beyond this number are not looked at one by one: where everyone gives to everyone, a ring takes as long.
static constexpr double mostPieces = 1 << 22;

std::vector<Meeting> Traffic::exchange(const ExchangeSide &source, const ExchangeSide &target,
                                       const TensorType &type) const {
  std::vector<uint32_t> cutAxes;
  double givers = 1;
  for (uint32_t axis = 0; axis != source.mesh->axes.size(); ++axis)
    if (source.tile && cuts(*source.tile, axis)) {
      cutAxes.push_back(axis);
      givers *= source.mesh->axes[axis].size;
    }
  bool within = source.firstSite == target.firstSite;
  if (within && givers * static_cast<double>(target.mesh->devices.size()) > mostPieces)
    return group(sites[source.firstSite].program->mesh, cutAxes, GroupWork::Kind::AllGather,
                 static_cast<double>(*type.byteSize()));
  return direct(source, target, type);
}

namespace {

/// Sets of sites that are joined pair by pair.
class Components {
public:
  uint32_t find(uint32_t site) {
    uint32_t root = parents.try_emplace(site, site).first->second;
    return root == site ? site : parents[site] = find(root);
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    parents[std::max(a, b)] = std::min(a, b);
  }

private:
  std::unordered_map<uint32_t, uint32_t> parents;
};

} // namespace

/// A taker takes from one giver after the other, so their latencies add up.
std::vector<Meeting> Traffic::direct(const ExchangeSide &source, const ExchangeSide &target,
                                     const TensorType &type) const {
  Components components;
  for (const ExchangeSide *side : {&source, &target})
    for (uint32_t member = 0; member != side->mesh->devices.size(); ++member)
      components.find(side->firstSite + member);
  uint64_t width = elementBytes(type.element);
  std::vector<std::tuple<uint32_t, uint32_t, double>> ways; // taker, giver, bytes
  for (uint32_t member = 0; member != target.mesh->devices.size(); ++member)
    for (const Piece &piece :
         piecesInto(source, target, member, static_cast<unsigned>(width), *type.byteSize() / width)) {
      components.join(piece.from, piece.to);
      auto bytes = static_cast<double>(piece.box.bytes());
      if (!ways.empty() && std::get<0>(ways.back()) == piece.to && std::get<1>(ways.back()) == piece.from)
        std::get<2>(ways.back()) += bytes;
      else
        ways.emplace_back(piece.to, piece.from, bytes);
    }
  std::map<uint32_t, Meeting> meetings;
  std::map<uint32_t, LoadSum> sums;
  for (const ExchangeSide *side : {&source, &target})
    for (uint32_t member = 0; member != side->mesh->devices.size(); ++member)
      if (uint32_t site = side->firstSite + member; side == &source || source.firstSite != target.firstSite)
        meetings[components.find(site)].sites.push_back(site);
  std::map<uint32_t, double> latencies;
  double latency = 0;
  for (size_t i = 0; i != ways.size(); ++i) {
    auto [taker, giver, bytes] = ways[i];
    uint32_t root = components.find(taker);
    double way = sums.try_emplace(root, model).first->second.add(deviceOf(giver), deviceOf(taker), bytes);
    latency = i != 0 && std::get<0>(ways[i - 1]) == taker ? latency + way : way;
    latencies[root] = std::max(latencies[root], latency);
  }
  std::vector<Meeting> list;
  for (auto &[root, meeting] : meetings) {
    if (auto sum = sums.find(root); sum != sums.end())
      meeting.phases.push_back(sum->second.take(latencies[root]));
    std::ranges::sort(meeting.sites);
    list.push_back(std::move(meeting));
  }
  return list;
}

} // namespace cleave::runtime
