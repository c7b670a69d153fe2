// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where two tiles of one tensor meet. The dimensions of both are put into groups of equal sizes; a device's part of a
// group is a sorted list of runs of the group's elements. The runs that two devices share, group by group, are the
// boxes. Groups are nearly always single dimensions, with one run.

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

/// `count` elements from element `global` of a group, which lie at `local` of the device's part of the group.
struct Run {
  int64_t global = 0, local = 0, count = 0;
};

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
    auto add = [&](Run run) {
      if (run.count == 0)
        return;
      if (!finer.empty() && finer.back().global + finer.back().count == run.global &&
          finer.back().local + finer.back().count == run.local)
        finer.back().count += run.count;
      else
        finer.push_back(run);
    };
    bool whole = span.extent == dim.size && span.local == 0 && dim.length == dim.size;
    for (const Run &run : runs) {
      if (whole) {
        add({run.global * dim.size, run.local * dim.length, run.count * dim.size});
        continue;
      }
      for (int64_t i = 0; i != run.count; ++i)
        add({(run.global + i) * dim.size + span.global, (run.local + i) * dim.length + span.local, span.extent});
    }
    runs = std::move(finer);
  }
  return runs;
}

/// `count` runs at regular distances that two devices share of a group; offsets and strides in elements.
struct SharedRuns {
  int64_t source = 0, target = 0, run = 0;
  int64_t count = 1, sourceStride = 0, targetStride = 0;
};

std::vector<SharedRuns> sharedRuns(const std::vector<Run> &source, const std::vector<Run> &target) {
  std::vector<SharedRuns> shared;
  auto add = [&](int64_t from, int64_t to, int64_t run) {
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
  };
  for (size_t s = 0, t = 0; s != source.size() && t != target.size();) {
    int64_t begin = std::max(source[s].global, target[t].global);
    int64_t end = std::min(source[s].global + source[s].count, target[t].global + target[t].count);
    if (begin < end)
      add(source[s].local + begin - source[s].global, target[t].local + begin - target[t].global, end - begin);
    if (source[s].global + source[s].count < target[t].global + target[t].count)
      ++s;
    else
      ++t;
  }
  return shared;
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
