// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where two tiles of one tensor meet. The dimensions of both are put into groups of equal sizes; a device's part of a
// group is a sorted list of runs of the group's elements, those at regular distances being one entry of it however many
// they are. The runs that two devices share, group by group, are the boxes. Groups are nearly always single dimensions,
// with one run.

#include "runtime/Tile.h"

#include <algorithm>

namespace cleave::runtime {
namespace {

/// Dimensions [begin, end) of a tile.
struct DimRange {
  size_t begin = 0, end = 0;
};
/// Dimensions of two tiles that make up the same elements.
struct Group {
  DimRange source, target;
};

/// The finest grouping; both tiles have the same number of elements, at least one.
std::vector<Group> groupsOf(const Tile &source, const Tile &target) {
  std::vector<Group> groups;
  size_t s = 0, t = 0;
  while (s != source.dims.size() || t != target.dims.size()) {
    Group group{{s, s}, {t, t}};
    int64_t left = 1, right = 1;
    do {
      bool takeSource = s != source.dims.size() && (left <= right || t == target.dims.size());
      if (takeSource)
        left *= source.dims[s++].size;
      else
        right *= target.dims[t++].size;
    } while (left != right);
    group.source.end = s;
    group.target.end = t;
    groups.push_back(group);
  }
  return groups;
}

/// `count` elements from element `global` of a group, which lie at `local` of the device's part of the group; and that
/// `times` times, `globalStride` and `localStride` elements apart.
struct Run {
  int64_t global = 0, local = 0, count = 0;
  int64_t times = 1, globalStride = 0, localStride = 0;

  int64_t end() const { return global + (times - 1) * globalStride + count; }
  /// One of the `times`.
  Run at(int64_t index) const { return {global + index * globalStride, local + index * localStride, count}; }
};

/// Which of a run's `times` meet [begin, end): those from `first` up to `last`, which are none if it comes before.
struct Meeting {
  int64_t first = 0, last = 0;
};
Meeting meetingOf(const Run &run, int64_t begin, int64_t end) {
  if (run.times == 1)
    return {0, run.global < end && begin < run.end() ? 0 : -1};
  int64_t behind = begin - run.count - run.global, before = end - 1 - run.global;
  return {behind < 0 ? 0 : behind / run.globalStride + 1,
          before < 0 ? -1 : std::min(run.times - 1, before / run.globalStride)};
}

int64_t sizeOf(const Tile &tile, DimRange range, int64_t TileDim::*member) {
  int64_t product = 1;
  for (size_t d = range.begin; d != range.end; ++d)
    product *= tile.dims[d].*member;
  return product;
}

/// A device's part of a group, sorted.
std::vector<Run> runsOf(const Tile &tile, DimRange range, const Coordinates &at) {
  std::vector<Run> runs = {{0, 0, 1}};
  for (size_t d = range.begin; d != range.end; ++d) {
    const TileDim &dim = tile.dims[d];
    Span span = spanOf(dim, at);
    std::vector<Run> finer;
    auto add = [&](const Run &run) {
      if (run.count == 0)
        return;
      if (!finer.empty() && finer.back().times == 1 && run.times == 1 && finer.back().end() == run.global &&
          finer.back().local + finer.back().count == run.local)
        finer.back().count += run.count;
      else
        finer.push_back(run);
    };
    bool whole = span.extent == dim.size && span.local == 0 && dim.length == dim.size;
    // Of each element before, what the device has of the dimension.
    auto addParts = [&](const Run &elements) {
      add({elements.global * dim.size + span.global, elements.local * dim.length + span.local, span.extent,
           elements.times, elements.globalStride * dim.size, elements.localStride * dim.length});
    };
    for (const Run &run : runs)
      if (whole)
        add({run.global * dim.size, run.local * dim.length, run.count * dim.size, run.times,
             run.globalStride * dim.size, run.localStride * dim.length});
      else if (run.count == 1)
        addParts(run);
      else
        for (int64_t i = 0; i != run.times; ++i)
          addParts({run.at(i).global, run.at(i).local, 1, run.count, 1, 1});
    runs = std::move(finer);
  }
  return runs;
}

/// `count` runs at regular distances that two devices share of a group; offsets and strides in elements.
struct SharedRuns {
  int64_t source = 0, target = 0, run = 0;
  int64_t count = 1, sourceStride = 0, targetStride = 0;
};

/// Collects shared runs in the order of the group's elements.
class SharedRunCollector {
public:
  std::vector<SharedRuns> shared;

  /// What two runs share, one of which comes but once.
  void addShared(const Run &source, const Run &target) {
    bool sourceRepeats = source.times != 1;
    const Run &many = sourceRepeats ? source : target, &one = sourceRepeats ? target : source;
    auto [first, last] = meetingOf(many, one.global, one.end());
    if (first > last)
      return;
    // Only the first and the last can stand out of the one.
    addPart(source, target, first);
    if (last - first > 1) {
      Run inner = many.at(first + 1);
      int64_t within = one.local + inner.global - one.global;
      if (sourceRepeats)
        addRegular(inner.local, within, many.count, last - first - 1, many.localStride, many.globalStride);
      else
        addRegular(within, inner.local, many.count, last - first - 1, many.globalStride, many.localStride);
    }
    if (last != first)
      addPart(source, target, last);
  }

private:
  void add(int64_t from, int64_t to, int64_t run) {
    if (!shared.empty() && shared.back().run == run) {
      SharedRuns &last = shared.back();
      if (last.count == 1) {
        last.sourceStride = from - last.source;
        last.targetStride = to - last.target;
      }
      if (from == last.source + last.count * last.sourceStride && to == last.target + last.count * last.targetStride) {
        ++last.count;
        return;
      }
    }
    shared.push_back({from, to, run});
  }

  void addRegular(int64_t from, int64_t to, int64_t run, int64_t times, int64_t fromStride, int64_t toStride) {
    // The first may go on with what is there, at another distance; from the third on all are of one kind.
    int64_t apart = std::min<int64_t>(times, 3);
    for (int64_t i = 0; i != apart; ++i)
      add(from + i * fromStride, to + i * toStride, run);
    shared.back().count += times - apart;
  }

  /// What the `index`-th of the run that repeats, if any does, shares with the other.
  void addPart(const Run &source, const Run &target, int64_t index) {
    Run from = source.at(source.times == 1 ? 0 : index), to = target.at(target.times == 1 ? 0 : index);
    int64_t begin = std::max(from.global, to.global), end = std::min(from.end(), to.end());
    add(from.local + begin - from.global, to.local + begin - to.global, end - begin);
  }
};

std::vector<SharedRuns> sharedRuns(const std::vector<Run> &source, const std::vector<Run> &target) {
  SharedRunCollector collector;
  for (size_t s = 0, t = 0; s != source.size() && t != target.size();) {
    const Run &from = source[s], &to = target[t];
    if (from.times == 1 || to.times == 1) {
      collector.addShared(from, to);
    } else if (from.times < to.times) {
      auto [first, last] = meetingOf(from, to.global, to.end());
      for (int64_t i = first; i <= last; ++i)
        collector.addShared(from.at(i), to);
    } else {
      auto [first, last] = meetingOf(to, from.global, from.end());
      for (int64_t i = first; i <= last; ++i)
        collector.addShared(from, to.at(i));
    }
    if (from.end() < to.end())
      ++s;
    else
      ++t;
  }
  return std::move(collector.shared);
}

/// Multiplies out what two devices share of each group: a box for every choice of one element of each list.
std::vector<StridedCopy> multiplyOut(const Tile &source, const Tile &target, const std::vector<Group> &groups,
                                     const std::vector<const std::vector<SharedRuns> *> &shared,
                                     unsigned elementBytes) {
  std::vector<StridedCopy> boxes = {StridedCopy{0, 0, {}, elementBytes}};
  for (size_t g = 0; g != groups.size(); ++g) {
    std::vector<StridedCopy> finer;
    int64_t sourceScale = elementBytes * sizeOf(source, {groups[g].source.end, source.dims.size()}, &TileDim::length);
    int64_t targetScale = elementBytes * sizeOf(target, {groups[g].target.end, target.dims.size()}, &TileDim::length);
    for (const StridedCopy &box : boxes)
      for (const SharedRuns &runs : *shared[g]) {
        StridedCopy &to = finer.emplace_back(box);
        auto bytes = [](int64_t elements, int64_t scale) { return static_cast<uint64_t>(elements * scale); };
        to.sourceOffset += bytes(runs.source, sourceScale);
        to.targetOffset += bytes(runs.target, targetScale);
        to.dims.push_back({static_cast<uint64_t>(runs.count), bytes(runs.sourceStride, sourceScale),
                           bytes(runs.targetStride, targetScale)});
        to.dims.push_back({static_cast<uint64_t>(runs.run), bytes(1, sourceScale), bytes(1, targetScale)});
      }
    boxes = std::move(finer);
  }
  for (StridedCopy &box : boxes)
    box.simplify();
  return boxes;
}

/// The coordinates of all blocks of a group of source dimensions; other axes are at 0.
std::vector<Coordinates> blocksOf(const Tile &tile, DimRange range, const Mesh &mesh) {
  std::vector<Coordinates> blocks = {Coordinates(mesh.axes.size())};
  for (size_t d = range.begin; d != range.end; ++d)
    for (const Cut &cut : tile.dims[d].cuts) {
      std::vector<Coordinates> finer;
      for (const Coordinates &block : blocks)
        for (uint32_t i = 0; i != mesh.axes[cut.axis].size; ++i) {
          finer.push_back(block);
          finer.back()[cut.axis] = i;
        }
      blocks = std::move(finer);
    }
  return blocks;
}

/// A block of a group of source dimensions, and what the target shares with it.
struct GroupFragment {
  Coordinates block;
  std::vector<SharedRuns> shared;
};

} // namespace

std::vector<Fragment> fragmentsOf(const Tile &source, const Mesh &sourceMesh, const Tile &target,
                                  const Coordinates &targetAt, unsigned elementBytes) {
  if (tensorElements(source).value_or(0) == 0)
    return {};
  std::vector<Group> groups = groupsOf(source, target);
  std::vector<std::vector<GroupFragment>> parts;
  for (const Group &group : groups) {
    std::vector<Run> wanted = runsOf(target, group.target, targetAt);
    auto &found = parts.emplace_back();
    for (Coordinates &block : blocksOf(source, group.source, sourceMesh)) {
      auto shared = sharedRuns(runsOf(source, group.source, block), wanted);
      if (!shared.empty())
        found.push_back({std::move(block), std::move(shared)});
    }
    if (found.empty())
      return {};
  }
  // Every choice of a block in each group, the last group varying fastest.
  std::vector<Fragment> fragments;
  std::vector<size_t> choice(groups.size());
  for (;;) {
    Fragment &fragment = fragments.emplace_back();
    fragment.block.resize(sourceMesh.axes.size());
    std::vector<const std::vector<SharedRuns> *> shared;
    for (size_t g = 0; g != groups.size(); ++g) {
      const GroupFragment &part = parts[g][choice[g]];
      for (size_t axis = 0; axis != fragment.block.size(); ++axis)
        fragment.block[axis] += part.block[axis];
      shared.push_back(&part.shared);
    }
    fragment.boxes = multiplyOut(source, target, groups, shared, elementBytes);
    size_t g = groups.size();
    while (g != 0 && ++choice[g - 1] == parts[g - 1].size())
      choice[--g] = 0;
    if (g == 0)
      return fragments;
  }
}

std::vector<StridedCopy> intersect(const Tile &source, const Coordinates &sourceAt, const Tile &target,
                                   const Coordinates &targetAt, unsigned elementBytes) {
  if (tensorElements(source).value_or(0) == 0)
    return {};
  std::vector<Group> groups = groupsOf(source, target);
  std::vector<std::vector<SharedRuns>> lists;
  std::vector<const std::vector<SharedRuns> *> shared;
  for (const Group &group : groups)
    lists.push_back(sharedRuns(runsOf(source, group.source, sourceAt), runsOf(target, group.target, targetAt)));
  for (const auto &list : lists)
    shared.push_back(&list);
  return multiplyOut(source, target, groups, shared, elementBytes);
}

/// The complement of a box is, for each dimension, what lies before and behind the valid part of it, within the valid
/// parts of the dimensions outside and all of those inside.
std::vector<StridedCopy> paddingOf(const Tile &tile, const Coordinates &at, unsigned elementBytes) {
  std::vector<StridedCopy> boxes;
  StridedCopy outer{0, 0, {}, 0};
  for (size_t d = 0; d != tile.dims.size(); ++d) {
    const TileDim &dim = tile.dims[d];
    Span span = spanOf(dim, at);
    auto stride = static_cast<uint64_t>(elementBytes * sizeOf(tile, {d + 1, tile.dims.size()}, &TileDim::length));
    auto add = [&](int64_t begin, int64_t end) {
      if (begin == end || stride == 0)
        return;
      StridedCopy &box = boxes.emplace_back(outer);
      box.targetOffset += static_cast<uint64_t>(begin) * stride;
      box.runBytes = static_cast<uint64_t>(end - begin) * stride;
    };
    add(0, span.local);
    add(span.local + span.extent, dim.length);
    outer.targetOffset += static_cast<uint64_t>(span.local) * stride;
    outer.dims.push_back({static_cast<uint64_t>(span.extent), 0, stride});
    if (span.extent == 0)
      break;
  }
  return boxes;
}

} // namespace cleave::runtime
