// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Greedy placement and its improvement.

#include "passes/schedule/ArenaPlanner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

namespace cleave::schedule {

namespace {

/// Placed ranges by offset. Every range that is placed is compared with most of those before, so positions lie by
/// themselves, in blocks that are short enough to insert into.
class PlacedRanges {
public:
  void insert(const LiveRange &range, uint64_t offset) {
    auto block = std::upper_bound(blocks.begin(), blocks.end(), offset,
                                  [](uint64_t at, const Block &other) { return at < other.begins.front(); });
    if (block != blocks.begin())
      --block;
    if (block == blocks.end())
      block = blocks.emplace(block);
    auto at = std::upper_bound(block->begins.begin(), block->begins.end(), offset) - block->begins.begin();
    block->first.insert(block->first.begin() + at, range.first);
    block->last.insert(block->last.begin() + at, range.last);
    block->ends.insert(block->ends.begin() + at, offset + alignedSize(range.bytes));
    block->begins.insert(block->begins.begin() + at, offset);
    if (block->begins.size() == maxBlockSize)
      blocks.insert(block + 1, block->takeUpperHalf());
  }

  /// The lowest of the smallest gaps of at least `size` bytes between ranges that meet this one; behind them all where
  /// there is none.
  uint64_t findGap(const LiveRange &range, uint64_t size) const {
    uint64_t end = 0, best = 0, bestGap = std::numeric_limits<uint64_t>::max();
    std::array<unsigned, maxBlockSize> meeting;
    for (const Block &block : blocks) {
      unsigned numMeeting = 0;
      for (unsigned at = 0; at != block.begins.size(); ++at) {
        meeting[numMeeting] = at;
        numMeeting +=
            static_cast<unsigned>(block.first[at] <= range.last) & static_cast<unsigned>(range.first <= block.last[at]);
      }
      for (unsigned i = 0; i != numMeeting; ++i) {
        uint64_t begin = block.begins[meeting[i]];
        if (begin > end && begin - end >= size && begin - end < bestGap) {
          best = end;
          bestGap = begin - end;
        }
        end = std::max(end, block.ends[meeting[i]]);
      }
    }
    return bestGap == std::numeric_limits<uint64_t>::max() ? end : best;
  }

private:
  static constexpr size_t maxBlockSize = 512;

  /// Positions and bytes of ranges; never empty.
  struct Block {
    std::vector<unsigned> first, last;
    std::vector<uint64_t> begins, ends;

    Block takeUpperHalf() {
      Block upper;
      auto take = [](auto &from, auto &to) {
        auto middle = from.begin() + from.size() / 2;
        to.assign(middle, from.end());
        from.erase(middle, from.end());
      };
      take(first, upper.first);
      take(last, upper.last);
      take(begins, upper.begins);
      take(ends, upper.ends);
      return upper;
    }
  };

  std::vector<Block> blocks;
};

} // namespace

ArenaPlan placeInOrder(const std::vector<LiveRange> &ranges, const std::vector<unsigned> &order) {
  ArenaPlan plan;
  plan.offsets.resize(ranges.size());
  PlacedRanges placed;
  for (unsigned index : order) {
    uint64_t size = alignedSize(ranges[index].bytes);
    if (size == 0)
      continue;
    plan.offsets[index] = placed.findGap(ranges[index], size);
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + size);
    placed.insert(ranges[index], plan.offsets[index]);
  }
  return plan;
}

namespace {

/// Builds the arena from the bottom up, as in Burke, Kendall and Whitwell 2004, "A new placement heuristic for the
/// orthogonal stock-cutting problem", which Sekiyama et al. take over: the lowest stretch of the skyline gets the
/// longest-lived range that fits between its ends.
class Skyline {
public:
  explicit Skyline(const std::vector<LiveRange> &ranges) : ranges(ranges) {
    unsigned end = 0;
    for (unsigned index = 0; index != ranges.size(); ++index) {
      end = std::max(end, ranges[index].last + 1);
      left.push_back(index);
    }
    std::sort(left.begin(), left.end(), [&](unsigned a, unsigned b) { return rank(a) < rank(b); });
    stretches.push_back({0, end, 0});
  }

  /// The ranges in the order in which they were placed.
  std::vector<unsigned> run() {
    std::vector<unsigned> order;
    while (!left.empty()) {
      auto lowest = std::min_element(stretches.begin(), stretches.end(),
                                     [](const Stretch &a, const Stretch &b) { return a.height < b.height; });
      auto fitting = std::find_if(left.begin(), left.end(), [&](unsigned index) {
        return ranges[index].first >= lowest->begin && ranges[index].last < lowest->end;
      });
      if (fitting == left.end()) {
        raise(static_cast<size_t>(lowest - stretches.begin()));
        continue;
      }
      order.push_back(*fitting);
      place(static_cast<size_t>(lowest - stretches.begin()), ranges[*fitting]);
      left.erase(fitting);
    }
    return order;
  }

private:
  /// Positions from `begin` to before `end` at one height.
  struct Stretch {
    unsigned begin, end;
    uint64_t height;
  };

  std::tuple<int64_t, int64_t, unsigned> rank(unsigned index) const {
    const LiveRange &range = ranges[index];
    return {-static_cast<int64_t>(range.last - range.first), -static_cast<int64_t>(range.bytes), index};
  }

  void place(size_t at, const LiveRange &range) {
    Stretch old = stretches[at];
    std::vector<Stretch> parts;
    if (old.begin < range.first)
      parts.push_back({old.begin, range.first, old.height});
    parts.push_back({range.first, range.last + 1, old.height + alignedSize(range.bytes)});
    if (range.last + 1 < old.end)
      parts.push_back({range.last + 1, old.end, old.height});
    stretches.erase(stretches.begin() + at);
    stretches.insert(stretches.begin() + at, parts.begin(), parts.end());
    join();
  }

  /// Nothing fits: the stretch goes up to its lower neighbour.
  void raise(size_t at) {
    uint64_t height = std::numeric_limits<uint64_t>::max();
    if (at > 0)
      height = std::min(height, stretches[at - 1].height);
    if (at + 1 < stretches.size())
      height = std::min(height, stretches[at + 1].height);
    stretches[at].height = height;
    join();
  }

  void join() {
    std::vector<Stretch> joined;
    for (const Stretch &stretch : stretches)
      if (!joined.empty() && joined.back().height == stretch.height)
        joined.back().end = stretch.end;
      else
        joined.push_back(stretch);
    stretches = std::move(joined);
  }

  const std::vector<LiveRange> &ranges;
  std::vector<unsigned> left;
  std::vector<Stretch> stretches;
};

class Search {
public:
  explicit Search(const std::vector<LiveRange> &ranges) : ranges(ranges), bound(largestLiveSet(ranges)) {
    best.bytes = std::numeric_limits<uint64_t>::max();
  }

  ArenaPlan run() {
    auto size = [](const LiveRange &range) { return static_cast<double>(alignedSize(range.bytes)); };
    auto lifetime = [](const LiveRange &range) { return static_cast<double>(range.last - range.first + 1); };
    consider(Skyline(ranges).run());
    tryOrder([&](const LiveRange &range) { return size(range); });
    tryOrder([&](const LiveRange &range) { return size(range) * lifetime(range); });
    tryOrder([&](const LiveRange &range) { return -static_cast<double>(range.first); });
    tryOrder([&](const LiveRange &range) { return lifetime(range); });
    improve();
    return best;
  }

private:
  /// Places by descending key, equal ones by descending size and then by beginning.
  template <typename Key> void tryOrder(Key key) {
    if (best.bytes == bound)
      return;
    std::vector<unsigned> order(ranges.size());
    std::iota(order.begin(), order.end(), 0u);
    auto rank = [&](unsigned index) {
      const LiveRange &range = ranges[index];
      return std::tuple(-key(range), -static_cast<double>(range.bytes), range.first, index);
    };
    std::sort(order.begin(), order.end(), [&](unsigned left, unsigned right) { return rank(left) < rank(right); });
    consider(std::move(order));
  }

  /// Takes the order if it is not worse than the best one.
  void consider(std::vector<unsigned> order) {
    ArenaPlan plan = placeInOrder(ranges, order);
    if (plan.bytes > best.bytes)
      return;
    best = std::move(plan);
    bestOrder = std::move(order);
  }

  /// Rounds of moving a range that ends where the arena ends to an earlier place in the order. More of them while the
  /// arena is far from the bound, fewer where a round takes seconds. Effort is counted in pairs of ranges.
  void improve() {
    static constexpr uint64_t effort = 40'000'000, mostEffort = 2'000'000'000, minRounds = 16, maxRounds = 2000;
    uint64_t cost = std::max<uint64_t>(1, ranges.size() * ranges.size());
    uint64_t rounds = std::clamp(effort / cost, minRounds, maxRounds);
    uint64_t mostRounds = std::min(rounds * 4, mostEffort / cost);
    // Always the same seed: equal models have equal plans.
    std::mt19937_64 random(0x636c6561); // NOLINT(bugprone-random-generator-seed)
    for (uint64_t round = 0; round != mostRounds && best.bytes > bound; ++round) {
      bool isClose = best.bytes - bound <= bound / 50;
      if (round >= rounds && isClose)
        return;
      std::vector<unsigned> tops;
      for (unsigned place = 0; place != bestOrder.size(); ++place) {
        unsigned index = bestOrder[place];
        if (place > 0 && best.offsets[index] + alignedSize(ranges[index].bytes) == best.bytes)
          tops.push_back(place);
      }
      if (tops.empty())
        return;
      std::vector<unsigned> order = bestOrder;
      auto from = order.begin() + tops[random() % tops.size()];
      std::rotate(order.begin() + random() % (from - order.begin()), from, from + 1);
      consider(std::move(order));
    }
  }

  const std::vector<LiveRange> &ranges;
  uint64_t bound;
  ArenaPlan best;
  std::vector<unsigned> bestOrder;
};

} // namespace

ArenaPlan planArena(const std::vector<LiveRange> &ranges) {
  if (ranges.empty())
    return {};
  return Search(ranges).run();
}

} // namespace cleave::schedule
