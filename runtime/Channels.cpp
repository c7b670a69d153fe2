// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses an owner for every piece, and gathers each site's part in each channel.

#include "runtime/Channels.h"

#include <algorithm>
#include <map>

namespace cleave::runtime {

/// The device of the source's mesh that gives `block` to the target's device `member`.
static uint32_t ownerOf(const ExchangeSide &source, const Tile &tile, const Coordinates &block,
                        const ExchangeSide &target, uint32_t member) {
  Coordinates owner = block;
  std::vector<uint32_t> replicaAxes;
  uint64_t replicas = 1;
  for (uint32_t axis = 0; axis != owner.size(); ++axis)
    if (!cuts(tile, axis)) {
      replicaAxes.push_back(axis);
      replicas *= source.mesh->axes[axis].size;
    }
  if (source.firstSite == target.firstSite) {
    Coordinates own = coordinatesOf(*target.mesh, member);
    for (uint32_t axis : replicaAxes)
      owner[axis] = own[axis];
    return memberAt(*source.mesh, owner);
  }
  const std::vector<uint32_t> &devices = source.mesh->devices;
  auto own = std::ranges::find(devices, target.mesh->devices[member]);
  if (own != devices.end()) {
    auto candidate = static_cast<uint32_t>(own - devices.begin());
    Coordinates at = coordinatesOf(*source.mesh, candidate);
    bool holds = true;
    for (uint32_t axis = 0; axis != at.size(); ++axis)
      holds &= at[axis] == block[axis] || !cuts(tile, axis);
    if (holds)
      return candidate;
  }
  uint64_t replica = member * replicas / target.mesh->devices.size();
  for (size_t i = replicaAxes.size(); i-- != 0;) {
    owner[replicaAxes[i]] = static_cast<uint32_t>(replica % source.mesh->axes[replicaAxes[i]].size);
    replica /= source.mesh->axes[replicaAxes[i]].size;
  }
  return memberAt(*source.mesh, owner);
}

std::vector<Piece> piecesInto(const ExchangeSide &source, const ExchangeSide &target, uint32_t member,
                              unsigned elementBytes, uint64_t elements) {
  auto whole = [&](const Tile *other) { return other ? wholeTile(*other) : wholeTile(elements); };
  Tile sourceTile = source.tile ? *source.tile : whole(target.tile);
  Tile targetTile = target.tile ? *target.tile : whole(source.tile);
  std::vector<Piece> pieces;
  for (Fragment &fragment :
       fragmentsOf(sourceTile, *source.mesh, targetTile, coordinatesOf(*target.mesh, member), elementBytes)) {
    uint32_t owner = ownerOf(source, sourceTile, fragment.block, target, member);
    for (StridedCopy &box : fragment.boxes)
      pieces.push_back({source.firstSite + owner, target.firstSite + member, std::move(box)});
  }
  std::ranges::stable_sort(pieces, {}, &Piece::from);
  return pieces;
}

std::vector<std::vector<uint32_t>> groupsAlong(const Mesh &mesh, const std::vector<uint32_t> &axes) {
  std::map<Coordinates, std::vector<uint32_t>> groups;
  for (uint32_t member = 0; member != mesh.devices.size(); ++member) {
    Coordinates key = coordinatesOf(mesh, member);
    for (uint32_t axis : axes)
      key[axis] = 0;
    groups[key].push_back(member);
  }
  std::vector<std::vector<uint32_t>> list;
  for (auto &[key, members] : groups)
    list.push_back(std::move(members));
  return list;
}

/// Goes through the instructions of an entry and makes a channel of each communication.
class ChannelBuilder {
public:
  ChannelBuilder(const PlanContents &plan, const Entry &entry, Channels &channels,
                 const std::function<bool(uint32_t)> &isHere)
      : plan(plan), entry(entry), channels(channels), isHere(isHere) {
    for (uint32_t site = 0; site != channels.allSites.size(); ++site)
      if (channels.allSites[site].member == 0)
        firstSite[channels.allSites[site].mesh] = site;
  }

  void build() {
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const Program &program : entry.programs)
        for (const Instruction &instruction : program.instructions(phase))
          add(program, instruction, channels.channels[static_cast<unsigned>(phase)]);
  }

private:
  void add(const Program &program, const Instruction &instruction, std::unordered_map<uint32_t, Channel> &list) {
    const Action &action = instruction.action;
    auto type = [&](uint32_t buffer) -> const TensorType & { return program.buffers[buffer].type; };
    auto side = [&](uint32_t mesh, int32_t tile) {
      return ExchangeSide{&plan.meshes[mesh], entry.tile(tile), firstSite.at(mesh)};
    };
    if (const auto *exchange = std::get_if<Exchange>(&action)) {
      std::vector<ExchangedTensor> tensors;
      for (const Operand &operand : exchange->operands)
        tensors.push_back(
            {side(program.mesh, operand.sourceTile), side(program.mesh, operand.targetTile), type(operand.target)});
      list[exchange->channel] = exchangeChannel(tensors, exchange->fill);
    } else if (const auto *receive = std::get_if<Receive>(&action)) {
      ExchangedTensor tensor{side(receive->mesh, receive->sourceTile), side(program.mesh, receive->targetTile),
                             type(receive->buffer)};
      list[receive->channel] = exchangeChannel({&tensor, 1}, receive->fill);
    } else if (const auto *all = std::get_if<AllReduce>(&action)) {
      list[all->channel] = reduceChannel(program, instruction.queue, *all, /*scatters=*/false);
    } else if (const auto *scatter = std::get_if<ReduceScatter>(&action)) {
      list[scatter->channel] = reduceChannel(program, instruction.queue, *scatter, /*scatters=*/true);
    }
  }

  /// One of the tensors of an exchange: both sides are the same for all but for the tiles.
  struct ExchangedTensor {
    ExchangeSide source, target;
    const TensorType &type; ///< of the target
  };

  ExchangeChannel exchangeChannel(std::span<const ExchangedTensor> tensors, double fill) const {
    ExchangeChannel channel;
    const ExchangedTensor &first = tensors.front();
    channel.element = first.type.element;
    channel.fill.resize(elementBytes(channel.element));
    storeElement(channel.element, channel.fill.data(), fill);
    for (const ExchangeSide *side : {&first.source, &first.target})
      for (uint32_t member = 0; member != side->mesh->devices.size(); ++member)
        if (isHere(side->firstSite + member))
          channel.parts[side->firstSite + member];
    for (uint32_t member = 0; member != first.target.mesh->devices.size(); ++member)
      addPiecesInto(channel, tensors, member);
    return channel;
  }

  void addPiecesInto(ExchangeChannel &channel, std::span<const ExchangedTensor> tensors, uint32_t member) const {
    unsigned width = elementBytes(channel.element);
    uint32_t site = tensors.front().target.firstSite + member;
    std::vector<Piece> pieces;
    for (uint32_t operand = 0; operand != tensors.size(); ++operand) {
      const auto &[source, target, type] = tensors[operand];
      if (target.tile && isHere(site))
        for (StridedCopy &box : paddingOf(*target.tile, coordinatesOf(*target.mesh, member), width))
          channel.parts[site].padding.push_back({operand, std::move(box)});
      for (Piece &piece : piecesInto(source, target, member, width, *type.byteSize() / width)) {
        piece.operand = operand;
        pieces.push_back(std::move(piece));
      }
    }
    std::ranges::stable_sort(pieces, {}, &Piece::from);
    for (Piece &piece : pieces) {
      if (!isHere(piece.from) && !isHere(piece.to))
        continue;
      auto index = static_cast<uint32_t>(channel.pieces.size());
      if (isHere(piece.to))
        channel.parts[piece.to].incoming.push_back(index);
      if (isHere(piece.from))
        channel.parts[piece.from].outgoing.push_back(index);
      channel.pieces.push_back(std::move(piece));
    }
  }

  /// Of an AllReduce or a ReduceScatter.
  template <typename Reduction>
  ReduceChannel reduceChannel(const Program &program, uint32_t queue, const Reduction &reduction, bool scatters) const {
    ReduceChannel channel;
    const Mesh &mesh = plan.meshes[program.mesh];
    uint32_t first = firstSite.at(program.mesh);
    channel.queue = queue;
    channel.scatters = scatters;
    channel.combiner = reduction.combiner;
    channel.element = program.buffers[reduction.operands.front().source].type.element;
    unsigned width = elementBytes(channel.element);
    for (const Operand &operand : reduction.operands)
      channel.elements.push_back(*program.buffers[operand.source].type.byteSize() / width);
    channel.groups = groupsAlong(mesh, reduction.axes);
    for (uint32_t group = 0; group != channel.groups.size(); ++group) {
      std::vector<uint32_t> members = channel.groups[group];
      for (uint32_t &site : channel.groups[group])
        site += first;
      if (std::ranges::none_of(channel.groups[group], isHere))
        continue;
      for (uint32_t place = 0; place != members.size(); ++place) {
        ReduceChannel::Part &part = channel.parts[first + members[place]];
        part.group = group;
        part.place = place;
        if (scatters)
          addShares(part, reduction.operands, coordinatesOf(mesh, members[place]), width);
      }
    }
    return channel;
  }

  void addShares(ReduceChannel::Part &part, std::span<const Operand> operands, const Coordinates &at,
                 unsigned width) const {
    for (uint32_t operand = 0; operand != operands.size(); ++operand) {
      const Tile &tile = *entry.tile(operands[operand].targetTile);
      for (StridedCopy &box : intersect(wholeTile(tile), at, tile, at, width))
        part.share.push_back({operand, std::move(box)});
      for (StridedCopy &box : paddingOf(tile, at, width))
        part.padding.push_back({operand, std::move(box)});
    }
  }

  const PlanContents &plan;
  const Entry &entry;
  Channels &channels;
  const std::function<bool(uint32_t)> &isHere;
  std::unordered_map<uint32_t, uint32_t> firstSite;
};

Channels::Channels(const PlanContents &plan, const Entry &entry, std::vector<Site> sites,
                   const std::function<bool(uint32_t)> &isHere)
    : allSites(std::move(sites)) {
  ChannelBuilder(plan, entry, *this, isHere).build();
}

static ExchangeChannel within(const ExchangeChannel &channel, const std::function<bool(uint32_t)> &isHere) {
  ExchangeChannel inner;
  inner.element = channel.element;
  inner.fill = channel.fill;
  for (const auto &[site, part] : channel.parts)
    if (isHere(site))
      inner.parts[site].padding = part.padding;
  for (const Piece &piece : channel.pieces) {
    if (!isHere(piece.from) || !isHere(piece.to))
      continue;
    auto index = static_cast<uint32_t>(inner.pieces.size());
    inner.parts[piece.to].incoming.push_back(index);
    inner.parts[piece.from].outgoing.push_back(index);
    inner.pieces.push_back(piece);
  }
  return inner;
}

Channels Channels::within(const std::function<bool(uint32_t)> &isHere) const {
  Channels inner;
  inner.allSites = allSites;
  for (size_t phase = 0; phase != channels.size(); ++phase)
    for (const auto &[number, channel] : channels[phase])
      if (const auto *exchange = std::get_if<ExchangeChannel>(&channel))
        inner.channels[phase][number] = runtime::within(*exchange, isHere);
      else
        inner.channels[phase][number] = channel;
  return inner;
}

} // namespace cleave::runtime
