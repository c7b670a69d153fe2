// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Spans of single dimensions, counts, and what makes a tile fit a mesh. Where two tiles meet: TileIntersection.cpp.

#include "runtime/Tile.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace cleave::runtime {

/// No size, block or start reaches this, and no step the other: their products fit in 64 bits.
static constexpr int64_t sizeLimit = int64_t(1) << 40;
static constexpr int64_t stepLimit = 1 << 16;

/// The innermost block, or the whole dimension.
static int64_t lastBlock(const TileDim &dim) { return dim.cuts.empty() ? dim.size : dim.cuts.back().block; }

bool isWindow(const TileDim &dim) { return dim.step != 1 || dim.before != 0 || dim.length != lastBlock(dim); }

static Error checkRanges(const TileDim &dim) {
  if (dim.size < 0 || dim.size >= sizeLimit || dim.length < 0 || dim.length >= sizeLimit)
    return reject("expects a size and a length from 0 to less than 2^40, got ", dim.size, " and ", dim.length);
  if (dim.step < 1 || dim.step >= stepLimit || dim.before <= -sizeLimit || dim.before >= sizeLimit)
    return reject("expects a step from 1 to less than 2^16 and less than 2^40 elements before, got ", dim.step, " and ",
                  dim.before);
  return Error::success();
}

static Error checkCuts(const TileDim &dim, const Mesh &mesh, std::set<uint32_t> &seen) {
  int64_t outer = dim.size, lastStart = 0;
  for (const Cut &cut : dim.cuts) {
    if (cut.axis >= mesh.axes.size())
      return reject("is cut along axis ", cut.axis, ", but mesh \"", mesh.name, "\" has ", mesh.axes.size());
    const Axis &axis = mesh.axes[cut.axis];
    if (!seen.insert(cut.axis).second)
      return reject("is cut along axis \"", axis.name, "\", which cuts another dimension or this one already");
    if (cut.shift != 0 && (cut.ways != axis.size || cut.shift >= cut.ways))
      return reject("expects a shift along axis \"", axis.name, "\" of less than its ", axis.size, " devices, got ",
                    cut.shift, " of ", cut.ways);
    int64_t covered = 0;
    if (cut.block < 1 || __builtin_mul_overflow(cut.block, axis.size, &covered) || (lastStart += covered) >= sizeLimit)
      return reject("expects blocks of at least 1 that begin below 2^40, got ", cut.block, " on ", axis.size);
    bool covers = covered >= outer;
    if (!isWindow(dim) && !covers)
      return reject("expects ", axis.size, " blocks along axis \"", axis.name, "\" that cover ", outer,
                    " elements, got blocks of ", cut.block);
    outer = cut.block;
  }
  return Error::success();
}

Error checkTile(const Tile &tile, const Mesh &mesh, bool windows) {
  std::set<uint32_t> seen;
  for (size_t d = 0; d != tile.dims.size(); ++d) {
    const TileDim &dim = tile.dims[d];
    Error error = checkRanges(dim);
    if (!error)
      error = checkCuts(dim, mesh, seen);
    if (!error && !windows && isWindow(dim))
      error = reject("expects length ", lastBlock(dim), ", step 1 and nothing before, got ", dim.length, ", ", dim.step,
                     " and ", dim.before, "; only targets have windows");
    if (error)
      return reject("dimension ", d, " ", error.message());
  }
  return Error::success();
}

template <typename Member> static std::optional<uint64_t> product(const Tile &tile, Member member) {
  int64_t total = 1;
  bool empty = false, overflows = false;
  for (const TileDim &dim : tile.dims) {
    if (dim.*member < 0)
      return std::nullopt;
    empty |= dim.*member == 0;
    overflows |= __builtin_mul_overflow(total, dim.*member, &total);
  }
  if (empty)
    return 0;
  return overflows ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(total));
}

std::optional<uint64_t> tensorElements(const Tile &tile) { return product(tile, &TileDim::size); }
std::optional<uint64_t> bufferElements(const Tile &tile) { return product(tile, &TileDim::length); }

Tile wholeTile(const Tile &like) {
  Tile whole;
  for (const TileDim &dim : like.dims)
    whole.dims.push_back({dim.size, {}, dim.size});
  return whole;
}

Tile wholeTile(uint64_t elements) {
  auto size = static_cast<int64_t>(elements);
  return {{{size, {}, size}}};
}

/// Which block of a cut a device has.
static int64_t blockOf(const Cut &cut, const Coordinates &at) {
  return cut.shift == 0 ? at[cut.axis] : (int64_t(at[cut.axis]) + cut.shift) % cut.ways;
}

static int64_t blockStart(const TileDim &dim, const Coordinates &at) {
  int64_t start = 0;
  for (const Cut &cut : dim.cuts)
    start += blockOf(cut, at) * cut.block;
  return start;
}

int64_t startOf(const TileDim &dim, const Coordinates &at) { return dim.step * blockStart(dim, at) - dim.before; }

Span spanOf(const TileDim &dim, const Coordinates &at) {
  if (isWindow(dim)) {
    int64_t first = startOf(dim, at);
    int64_t begin = std::clamp<int64_t>(first, 0, dim.size);
    int64_t end = std::clamp<int64_t>(first + dim.length, begin, std::max(begin, dim.size));
    return {begin, end > begin ? begin - first : 0, end - begin};
  }
  int64_t start = 0, end = dim.size;
  for (const Cut &cut : dim.cuts) {
    start += blockOf(cut, at) * cut.block;
    end = std::min(end, start + cut.block);
  }
  return {start, 0, std::max<int64_t>(0, end - start)};
}

bool cuts(const Tile &tile, uint32_t axis) {
  return std::ranges::any_of(tile.dims, [&](const TileDim &dim) {
    return std::ranges::any_of(dim.cuts, [&](const Cut &cut) { return cut.axis == axis; });
  });
}

bool isFirstReplica(const Tile *tile, const Coordinates &at) {
  for (uint32_t axis = 0; axis != at.size(); ++axis)
    if (at[axis] != 0 && !(tile && cuts(*tile, axis)))
      return false;
  return true;
}

} // namespace cleave::runtime
