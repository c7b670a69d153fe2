// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference meaning of tiles, and random tiles.

#include "TileReference.h"

#include <algorithm>

namespace cleave::runtime::test {

/// The element that position `i` of the dimension stands for.
static std::optional<int64_t> elementAt(const TileDim &dim, const Coordinates &at, int64_t i) {
  int64_t block = dim.cuts.empty() ? dim.size : dim.cuts.back().block, start = 0;
  bool window = dim.step != 1 || dim.before != 0 || dim.length != block, inBlocks = true;
  auto coordinateOf = [&](const Cut &cut) {
    uint32_t coordinate = at[cut.axis] + cut.shift;
    while (cut.shift != 0 && coordinate >= cut.ways)
      coordinate -= cut.ways;
    return coordinate;
  };
  for (const Cut &cut : dim.cuts)
    start += coordinateOf(cut) * cut.block;
  int64_t element = dim.step * start - dim.before + i, outer = 0;
  for (const Cut &cut : dim.cuts) {
    outer += coordinateOf(cut) * cut.block;
    inBlocks = inBlocks && element < outer + cut.block;
  }
  if (element < 0 || element >= dim.size || (!window && !inBlocks))
    return std::nullopt;
  return element;
}

std::vector<std::optional<int64_t>> elementsHeld(const Tile &tile, const Coordinates &at) {
  std::vector<std::optional<int64_t>> held = {0};
  for (const TileDim &dim : tile.dims) {
    std::vector<std::optional<int64_t>> finer;
    for (const auto &outer : held)
      for (int64_t i = 0; i != dim.length; ++i) {
        auto inner = elementAt(dim, at, i);
        finer.push_back(outer && inner ? std::optional(*outer * dim.size + *inner) : std::nullopt);
      }
    held = std::move(finer);
  }
  return held;
}

Mesh meshOf(const std::vector<uint32_t> &axes, uint32_t firstDevice) {
  Mesh mesh{"m", {}, {firstDevice}};
  for (size_t i = 0; i != axes.size(); ++i) {
    mesh.axes.push_back({"axis" + std::to_string(i), axes[i]});
    mesh.devices.resize(mesh.devices.size() * axes[i]);
  }
  for (uint32_t i = 0; i != mesh.devices.size(); ++i)
    mesh.devices[i] = firstDevice + i;
  return mesh;
}

TileDim blocks(int64_t size, const std::vector<uint32_t> &axes, const Mesh &mesh) {
  TileDim dim{size, {}, size};
  for (uint32_t axis : axes) {
    dim.length = (dim.length + mesh.axes[axis].size - 1) / mesh.axes[axis].size;
    dim.cuts.push_back({axis, dim.length});
  }
  return dim;
}

Tile randomTile(const std::vector<int64_t> &factors, const Mesh &mesh, bool windows, std::mt19937 &random) {
  auto chance = [&](uint32_t of) { return random() % of == 0; };
  std::vector<int64_t> sizes;
  for (int64_t factor : factors) {
    if (sizes.empty() || chance(2))
      sizes.push_back(factor);
    else
      sizes.back() *= factor;
  }
  std::vector<std::vector<uint32_t>> axesOf(sizes.size());
  std::vector<uint32_t> order(mesh.axes.size());
  for (uint32_t axis = 0; axis != order.size(); ++axis)
    order[axis] = axis;
  std::ranges::shuffle(order, random);
  for (uint32_t axis : order)
    if (!chance(4))
      axesOf[random() % sizes.size()].push_back(axis);
  Tile tile;
  for (size_t d = 0; d != sizes.size(); ++d) {
    TileDim dim = blocks(sizes[d], axesOf[d], mesh);
    for (Cut &cut : dim.cuts)
      if (uint32_t ways = mesh.axes[cut.axis].size; ways > 1 && chance(3)) {
        cut.shift = 1 + random() % (ways - 1);
        cut.ways = ways;
      }
    // Blocks may be larger than they need be, down to the innermost.
    if (!dim.cuts.empty() && chance(4))
      dim.length = dim.cuts.back().block += random() % 3;
    if (windows && chance(3)) {
      dim.step = 1 + random() % 3;
      dim.before = static_cast<int64_t>(random() % 5) - 2;
      dim.length = random() % 6;
    }
    tile.dims.push_back(std::move(dim));
  }
  return tile;
}

} // namespace cleave::runtime::test
