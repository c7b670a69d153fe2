// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas of collectives, over one link or a hierarchy of them.

#include "passes/cost/CollectiveCost.h"

#include <algorithm>
#include <bit>
#include <limits>

using namespace llvm;

namespace cleave {

static double numDevices(ArrayRef<LinkLevel> levels) {
  double count = 1;
  for (const LinkLevel &level : levels)
    count *= static_cast<double>(level.ways);
  return count;
}

LinkSpec ringLink(ArrayRef<LinkLevel> levels) {
  LinkSpec ring{std::numeric_limits<double>::infinity(), 0};
  double inside = 1;
  for (const LinkLevel &level : levels) {
    if (level.ways <= 1)
      continue;
    ring.bandwidth = std::min(ring.bandwidth, level.link.bandwidth * inside);
    ring.latency = std::max(ring.latency, level.link.latency);
    inside *= static_cast<double>(level.ways);
  }
  return ring;
}

/// All-gather and reduce-scatter in a ring.
static double passAround(double bytes, double count, const LinkSpec &link) {
  return (count - 1) * link.latency + (count - 1) / count * bytes / link.bandwidth;
}

/// All-gather or reduce-scatter level by level: those outside have the part that one inside has.
static double gatherByLevels(double bytes, ArrayRef<LinkLevel> levels) {
  double seconds = 0;
  for (const LinkLevel &level : levels) {
    seconds += passAround(bytes, static_cast<double>(level.ways), level.link);
    bytes /= static_cast<double>(level.ways);
  }
  return seconds;
}

double allGatherSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  return std::min(passAround(bytes, numDevices(levels), ringLink(levels)), gatherByLevels(bytes, levels));
}

double reduceScatterSeconds(double bytes, ArrayRef<LinkLevel> levels) { return allGatherSeconds(bytes, levels); }

static double treeAllReduce(double bytes, double count, const LinkSpec &link) {
  double height = std::bit_width(static_cast<uint64_t>(count) - 1);
  return 2 * height * link.latency + 2 * bytes / link.bandwidth;
}

double allReduceSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  double count = numDevices(levels);
  if (count <= 1)
    return 0;
  LinkSpec ring = ringLink(levels);
  double flat = std::min(2 * passAround(bytes, count, ring), treeAllReduce(bytes, count, ring));
  if (levels.size() < 2)
    return flat;
  double inside = static_cast<double>(levels.front().ways);
  return std::min(flat, 2 * passAround(bytes, inside, levels.front().link) +
                            allReduceSeconds(bytes / inside, levels.drop_front()));
}

double allToAllSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  double count = numDevices(levels), held = bytes / count, inside = 1;
  double direct = 0, byLevels = 0;
  for (const LinkLevel &level : levels) {
    double ways = static_cast<double>(level.ways), partners = inside * (ways - 1);
    direct += partners * level.link.latency + held / count * partners / level.link.bandwidth;
    byLevels += (ways - 1) * level.link.latency + held * (ways - 1) / ways / level.link.bandwidth;
    inside *= ways;
  }
  return std::min(direct, byLevels);
}

double sendSeconds(double bytes, const LinkSpec &link) { return link.latency + bytes / link.bandwidth; }

} // namespace cleave
