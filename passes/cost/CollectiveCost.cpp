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

/// Of rates of which 0 does not count.
static double slowerRate(double a, double b) { return a && b ? std::min(a, b) : std::max(a, b); }

LinkSpec slowerOf(const LinkSpec &a, const LinkSpec &b) {
  return {std::min(a.bandwidth, b.bandwidth), std::max(a.latency, b.latency), slowerRate(a.combine, b.combine),
          std::max(a.start, b.start)};
}

LinkSpec ringLink(ArrayRef<LinkLevel> levels) {
  LinkSpec ring{std::numeric_limits<double>::infinity(), 0};
  double inside = 1;
  for (const LinkLevel &level : levels) {
    if (level.ways <= 1)
      continue;
    ring = slowerOf(ring, {level.link.bandwidth * inside, level.link.latency, level.link.combine, level.link.start});
    inside *= static_cast<double>(level.ways);
  }
  if (!levels.empty() && levels.front().ring > 0)
    ring.bandwidth = levels.front().ring;
  return ring;
}

/// All-gather in a ring.
static double ringGather(double bytes, double count, const LinkSpec &link) {
  return (count - 1) * link.latency + (count - 1) / count * bytes / link.bandwidth;
}

/// The time for combining `bytes`.
static double combineSeconds(double bytes, const LinkSpec &link) { return link.combine ? bytes / link.combine : 0; }

static double ringReduceScatter(double bytes, double count, const LinkSpec &link) {
  return ringGather(bytes, count, link) + combineSeconds((count - 1) / count * bytes, link);
}

/// The cheaper of a ring over all and a ring a level: those outside have the part that one inside has.
static double cheapestRings(double bytes, ArrayRef<LinkLevel> levels,
                            double (*ring)(double bytes, double count, const LinkSpec &link)) {
  double flat = ring(bytes, numDevices(levels), ringLink(levels)) + ringLink(levels).start, byLevels = 0;
  for (const LinkLevel &level : levels) {
    byLevels += ring(bytes, static_cast<double>(level.ways), level.link) + level.link.start;
    bytes /= static_cast<double>(level.ways);
  }
  return std::min(flat, byLevels);
}

double allGatherSeconds(double bytes, ArrayRef<LinkLevel> levels) { return cheapestRings(bytes, levels, ringGather); }

double reduceScatterSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  return cheapestRings(bytes, levels, ringReduceScatter);
}

static double treeAllReduce(double bytes, double count, const LinkSpec &link) {
  double height = std::bit_width(static_cast<uint64_t>(count) - 1);
  return 2 * height * link.latency + 2 * bytes / link.bandwidth + combineSeconds(bytes, link);
}

static double ringAllReduce(double bytes, double count, const LinkSpec &link) {
  return ringReduceScatter(bytes, count, link) + ringGather(bytes, count, link);
}

double allReduceSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  double count = numDevices(levels);
  if (count <= 1)
    return 0;
  LinkSpec link = ringLink(levels);
  double flat = std::min(ringAllReduce(bytes, count, link), treeAllReduce(bytes, count, link)) + link.start;
  if (levels.size() < 2)
    return flat;
  const LinkLevel &first = levels.front();
  double inside = static_cast<double>(first.ways);
  return std::min(flat, ringAllReduce(bytes, inside, first.link) + 2 * first.link.start +
                            allReduceSeconds(bytes / inside, levels.drop_front()));
}

double allToAllSeconds(double bytes, ArrayRef<LinkLevel> levels) {
  double count = numDevices(levels), held = bytes / count, inside = 1;
  double direct = ringLink(levels).start, byLevels = 0;
  for (const LinkLevel &level : levels) {
    double ways = static_cast<double>(level.ways), partners = inside * (ways - 1);
    direct += partners * level.link.latency + held / count * partners / level.link.bandwidth;
    byLevels += level.link.start + (ways - 1) * level.link.latency + held * (ways - 1) / ways / level.link.bandwidth;
    inside *= ways;
  }
  return std::min(direct, byLevels);
}

double exchangeSeconds(double bytes, double peers, ArrayRef<LinkLevel> levels) {
  if (levels.empty() || peers <= 0)
    return 0;
  LinkSpec link = levels.front().link;
  for (const LinkLevel &level : levels.drop_front())
    link = slowerOf(link, level.link);
  return link.start + peers * link.latency + bytes / link.bandwidth;
}

double sendSeconds(double bytes, const LinkSpec &link) { return link.latency + bytes / link.bandwidth; }

} // namespace cleave
