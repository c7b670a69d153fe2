// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rings, trees and rings of several levels, and the choice among them.

#include "runtime/simulator/GroupTraffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace cleave::runtime {

double LoadSum::add(uint32_t from, uint32_t to, double bytes, double ways) {
  way = Way();
  model.findWay(from, to, bytes, way);
  if (bytes > 0) {
    sum.seconds = std::max(sum.seconds, bytes / (ways * way.bandwidth));
    for (uint32_t link : way.links)
      sum.loads.push_back({link, bytes});
  }
  return way.latency;
}

TrafficPhase LoadSum::take(double latency) {
  std::vector<LinkLoad> loads = std::move(sum.loads);
  std::ranges::sort(loads, {}, &LinkLoad::link);
  TrafficPhase phase{latency, sum.seconds, {}};
  for (const LinkLoad &load : loads)
    if (!phase.loads.empty() && phase.loads.back().link == load.link)
      phase.loads.back().bytes += load.bytes;
    else
      phase.loads.push_back(load);
  sum = {};
  return phase;
}

namespace {

using Group = std::vector<uint32_t>;

/// One group's way, phase by phase.
using Phases = std::vector<TrafficPhase>;

class GroupRouter {
public:
  GroupRouter(const MachineModel &model, GroupWork::Kind kind, double bytes) : model(model), kind(kind), bytes(bytes) {}

  std::optional<Phases> ring(const Group &group) const { return Phases{ringPhase({group}, rounds(), bytes)}; }

  /// Two trees, each of half the bytes, so that every link carries about all of them once in each direction.
  std::optional<Phases> tree(const Group &group) const {
    if (kind != GroupWork::Kind::AllReduce)
      return std::nullopt;
    LoadSum sum(model);
    double latency = 0;
    for (size_t i = 0; i != group.size(); ++i)
      latency = std::max(latency, sum.add(group[i], group[(i + 1) % group.size()], 2 * bytes));
    auto depth = static_cast<double>(std::bit_width(group.size() - 1));
    return Phases{sum.take(2 * depth * latency)};
  }

  std::optional<Phases> byHosts(const Group &group) const { return nested({group}, bytes, {&MachineModel::hostOf}); }
  std::optional<Phases> byZones(const Group &group) const { return nested({group}, bytes, {&MachineModel::zoneOf}); }
  std::optional<Phases> byHostsAndZones(const Group &group) const {
    return nested({group}, bytes, {&MachineModel::hostOf, &MachineModel::zoneOf});
  }

private:
  /// How often everything goes round a ring: an all-reduce scatters and gathers.
  double rounds() const { return kind == GroupWork::Kind::AllReduce ? 2 : 1; }

  /// All rings at once, each device passing on (n-1)/n of `ringBytes` a round. Between hosts all devices of the ring
  /// may pass on a part.
  TrafficPhase ringPhase(const std::vector<Group> &rings, double rounds, double ringBytes) const {
    LoadSum sum(model);
    double latency = 0;
    for (const Group &ring : rings) {
      std::map<uint32_t, double> onHost;
      for (uint32_t device : ring)
        ++onHost[model.hostOf(device)];
      auto n = static_cast<double>(ring.size());
      for (size_t i = 0; i != ring.size(); ++i) {
        uint32_t from = ring[i], to = ring[(i + 1) % ring.size()], host = model.hostOf(from), next = model.hostOf(to);
        double ways = host == next ? 1 : std::min(onHost[host], onHost[next]);
        double way = sum.add(from, to, rounds * (n - 1) / n * ringBytes, ways);
        latency = std::max(latency, rounds * (n - 1) * way);
      }
    }
    return sum.take(latency);
  }

  /// A device's place on a level.
  using PlaceOf = uint32_t (MachineModel::*)(uint32_t) const;

  /// Inside the places of the first level, then between them on what each device has then, where the other levels
  /// follow, then inside again. Nothing unless each ring has several places of several devices, equally many.
  std::optional<Phases> nested(const std::vector<Group> &rings, double ringBytes,
                               const std::vector<PlaceOf> &levels) const {
    if (levels.empty())
      return Phases{ringPhase(rings, rounds(), ringBytes)};
    std::vector<Group> inside, across;
    size_t size = 0;
    for (const Group &ring : rings) {
      std::vector<Group> places = byPlace(ring, levels.front());
      if (size == 0)
        size = places.front().size();
      if (places.size() < 2 || size < 2 || std::ranges::any_of(places, [&](auto &at) { return at.size() != size; }))
        return std::nullopt;
      for (size_t i = 0; i != size; ++i) {
        Group &counterparts = across.emplace_back();
        for (const Group &place : places)
          counterparts.push_back(place[i]);
      }
      inside.insert(inside.end(), places.begin(), places.end());
    }
    TrafficPhase inner = ringPhase(inside, 1, ringBytes);
    auto phases = nested(across, ringBytes / static_cast<double>(size), {levels.begin() + 1, levels.end()});
    if (!phases)
      return std::nullopt;
    if (kind != GroupWork::Kind::AllGather)
      phases->insert(phases->begin(), inner);
    if (kind != GroupWork::Kind::ReduceScatter)
      phases->push_back(inner);
    return phases;
  }

  std::vector<Group> byPlace(const Group &group, PlaceOf placeOf) const {
    std::map<uint32_t, Group> places;
    for (uint32_t device : group)
      places[(model.*placeOf)(device)].push_back(device);
    std::vector<Group> list;
    for (auto &[place, devices] : places)
      list.push_back(std::move(devices));
    return list;
  }

  const MachineModel &model;
  const GroupWork::Kind kind;
  const double bytes;
};

/// Seconds until the last group is through, if all begin together.
double secondsOf(const MachineModel &model, const std::vector<Phases> &groups) {
  double seconds = 0;
  for (size_t phase = 0; phase != groups.front().size(); ++phase) {
    std::vector<LinkLoad> loads;
    double latency = 0, transfer = 0; // of the slowest group
    for (const Phases &phases : groups) {
      latency = std::max(latency, phases[phase].latency);
      transfer = std::max(transfer, phases[phase].seconds);
      loads.insert(loads.end(), phases[phase].loads.begin(), phases[phase].loads.end());
    }
    std::ranges::sort(loads, {}, &LinkLoad::link);
    double onLink = 0;
    for (size_t i = 0; i != loads.size(); ++i) {
      onLink = i != 0 && loads[i - 1].link == loads[i].link ? onLink + loads[i].bytes : loads[i].bytes;
      transfer = std::max(transfer, onLink / model.bandwidths()[loads[i].link]);
    }
    seconds += latency + transfer;
  }
  return seconds;
}

} // namespace

std::vector<std::vector<TrafficPhase>> groupPhases(const MachineModel &model, GroupWork::Kind kind, double bytes,
                                                   const std::vector<std::vector<uint32_t>> &groups) {
  if (groups.empty())
    return {};
  if (groups.front().size() < 2)
    return std::vector<Phases>(groups.size(), Phases(1));
  if (auto known = model.groupSeconds({kind, bytes, groups.front()})) {
    std::vector<Phases> list;
    for (const Group &group : groups)
      list.push_back({{0, model.groupSeconds({kind, bytes, group}).value_or(*known), {}}});
    return list;
  }
  GroupRouter router(model, kind, bytes);
  std::vector<Phases> best;
  double least = std::numeric_limits<double>::infinity();
  for (auto route : {&GroupRouter::ring, &GroupRouter::byHosts, &GroupRouter::byZones, &GroupRouter::byHostsAndZones,
                     &GroupRouter::tree}) {
    std::vector<Phases> list;
    for (const Group &group : groups) {
      auto phases = (router.*route)(group);
      if (!phases || (!list.empty() && phases->size() != list.front().size()))
        break;
      list.push_back(std::move(*phases));
    }
    if (list.size() != groups.size())
      continue;
    double seconds = secondsOf(model, list);
    if (best.empty() || seconds < least) {
      least = seconds;
      best = std::move(list);
    }
  }
  return best;
}

} // namespace cleave::runtime
