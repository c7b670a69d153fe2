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
  auto sourceBytes = [&](const std::vector<Operand> &operands) {
    uint64_t bytes = 0;
    for (const Operand &operand : operands)
      bytes += bytesOf(operand.source);
    return bytes;
  };
  auto side = [&](uint32_t mesh, int32_t tile) {
    return ExchangeSide{&plan.meshes[mesh], entry.tile(tile), firstSite.at(mesh)};
  };
  if (const auto *all = std::get_if<AllReduce>(&action)) {
    uint64_t bytes = sourceBytes(all->operands);
    remember(all->channel, {action.index(), program.mesh, 0, {}, bytes, all->axes},
             [&] { return group(program.mesh, all->axes, GroupWork::Kind::AllReduce, static_cast<double>(bytes)); });
  } else if (const auto *scatter = std::get_if<ReduceScatter>(&action)) {
    uint64_t bytes = sourceBytes(scatter->operands);
    remember(scatter->channel, {action.index(), program.mesh, 0, {}, bytes, scatter->axes}, [&] {
      return group(program.mesh, scatter->axes, GroupWork::Kind::ReduceScatter, static_cast<double>(bytes));
    });
  } else if (const auto *exchanged = std::get_if<Exchange>(&action)) {
    Geometry geometry;
    std::vector<ExchangedTensor> tensors;
    uint64_t all = 0;
    for (const Operand &operand : exchanged->operands) {
      uint64_t bytes = bytesOf(operand.target);
      geometry.emplace_back(operand.sourceTile, operand.targetTile, bytes);
      tensors.push_back({side(program.mesh, operand.sourceTile), side(program.mesh, operand.targetTile),
                         program.buffers[operand.target].type});
      all += bytes;
    }
    auto joined = joinedAxes(tensors);
    bool gathers = exchanged->kind == ExchangeKind::AllGather && joined;
    remember(exchanged->channel,
             {action.index(), program.mesh, static_cast<uint32_t>(exchanged->kind), std::move(geometry), all, {}}, [&] {
               return gathers ? group(program.mesh, *joined, GroupWork::Kind::AllGather, static_cast<double>(all))
                              : exchange(tensors);
             });
  } else if (const auto *receive = std::get_if<Receive>(&action)) {
    uint64_t bytes = bytesOf(receive->buffer);
    remember(
        receive->channel,
        {action.index(), receive->mesh, program.mesh, {{receive->sourceTile, receive->targetTile, bytes}}, bytes, {}},
        [&] {
          ExchangedTensor tensor{side(receive->mesh, receive->sourceTile), side(program.mesh, receive->targetTile),
                                 program.buffers[receive->buffer].type};
          return exchange({&tensor, 1});
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

/// The axes along which the targets of all tensors join what their sources cut; nothing where they differ.
std::optional<std::vector<uint32_t>> Traffic::joinedAxes(std::span<const ExchangedTensor> tensors) {
  std::optional<std::vector<uint32_t>> common;
  for (const auto &[source, target, type] : tensors) {
    std::vector<uint32_t> axes;
    for (uint32_t axis = 0; axis != source.mesh->axes.size(); ++axis)
      if (source.tile && cuts(*source.tile, axis) && !(target.tile && cuts(*target.tile, axis)))
        axes.push_back(axis);
    if (common && *common != axes)
      return std::nullopt;
    common = std::move(axes);
  }
  return common;
}

std::vector<Meeting> Traffic::exchange(std::span<const ExchangedTensor> tensors) const {
  const ExchangeSide &source = tensors.front().source, &target = tensors.front().target;
  std::vector<uint32_t> cutAxes;
  double givers = 1, bytes = 0;
  for (uint32_t axis = 0; axis != source.mesh->axes.size(); ++axis)
    if (std::ranges::any_of(tensors, [&](const ExchangedTensor &tensor) {
          return tensor.source.tile && cuts(*tensor.source.tile, axis);
        })) {
      cutAxes.push_back(axis);
      givers *= source.mesh->axes[axis].size;
    }
  for (const ExchangedTensor &tensor : tensors)
    bytes += static_cast<double>(*tensor.type.byteSize());
  bool within = source.firstSite == target.firstSite;
  if (within && givers * static_cast<double>(target.mesh->devices.size()) > mostPieces)
    return group(sites[source.firstSite].program->mesh, cutAxes, GroupWork::Kind::AllGather, bytes);
  return direct(tensors);
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
std::vector<Meeting> Traffic::direct(std::span<const ExchangedTensor> tensors) const {
  const ExchangeSide &source = tensors.front().source, &target = tensors.front().target;
  Components components;
  for (const ExchangeSide *side : {&source, &target})
    for (uint32_t member = 0; member != side->mesh->devices.size(); ++member)
      components.find(side->firstSite + member);
  std::vector<std::tuple<uint32_t, uint32_t, double>> ways; // taker, giver, bytes
  for (uint32_t member = 0; member != target.mesh->devices.size(); ++member) {
    std::map<uint32_t, double> bytesOf; // by giver
    for (const auto &[from, to, type] : tensors) {
      unsigned width = elementBytes(type.element);
      for (const Piece &piece : piecesInto(from, to, member, width, *type.byteSize() / width))
        bytesOf[piece.from] += static_cast<double>(piece.box.bytes());
    }
    for (auto [giver, bytes] : bytesOf) {
      components.join(giver, target.firstSite + member);
      ways.emplace_back(target.firstSite + member, giver, bytes);
    }
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
