// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares a plan's parts with those that other frameworks make.

#include "tools/cleave/FrameworkSplit.h"

#include "runtime/Tile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace cleave::tool {

using namespace runtime;

/// Why a placement has no dimensions.
static std::string whyNoBoxes(const Placement &placement) {
  return placement.within ? "it has a part that is not as large as those on other meshes"
                          : "its parts are no boxes of its dimensions, or overlap";
}

/// "dimension 0, of 101 elements,", the subject of a reason.
static std::string dimensionText(size_t number, const TileDim &dim) {
  return "dimension " + std::to_string(number) + ", of " + std::to_string(dim.size) + " elements,";
}

std::string whyNotPartitionSpec(const Placement &placement, const Mesh &mesh) {
  if (!placement.dims)
    return whyNoBoxes(placement);
  for (auto [number, dim] : llvm::enumerate(*placement.dims)) {
    int64_t block = dim.size;
    for (const Cut &cut : dim.cuts) {
      if (block % mesh.axes[cut.axis].size != 0 || cut.block != block / mesh.axes[cut.axis].size)
        return dimensionText(number, dim) + " is in uneven parts, and a PartitionSpec makes equal ones";
      block = cut.block;
    }
  }
  return "";
}

/// Whether torch.chunk along one axis after the other gives each device its part.
static bool areChunks(const TileDim &dim, const Mesh &mesh) {
  bool same = true;
  forEachPart(mesh, dim.cuts, [&](const Coordinates &at) {
    int64_t begin = 0, length = dim.size;
    for (const Cut &cut : dim.cuts) {
      int64_t ways = mesh.axes[cut.axis].size, chunk = (length + ways - 1) / ways;
      int64_t offset = std::min(length, chunk * static_cast<int64_t>(at[cut.axis]));
      begin += offset;
      length = std::min(chunk, length - offset);
    }
    Span span = spanOf(dim, at);
    same = same && length == std::max<int64_t>(0, span.extent) && (length == 0 || begin == span.global);
  });
  return same;
}

int64_t splitFactor(const TileDim &dim, size_t place, const Mesh &mesh) {
  int64_t factor = 1;
  for (const Cut &before : llvm::ArrayRef(dim.cuts).take_front(place))
    if (before.axis > dim.cuts[place].axis)
      factor *= mesh.axes[before.axis].size;
  return factor;
}

/// Whether DTensor's placements with split factors give each device its part, all of which are equal. Axis by axis, in
/// the mesh's order, what a device has is cut into as many runs as the axis has ways times its factor; the device with
/// coordinate c has every run whose number is c modulo the ways, one behind the other.
static bool areStrides(const TileDim &dim, const Mesh &mesh) {
  std::vector<size_t> places(dim.cuts.size());
  std::iota(places.begin(), places.end(), size_t(0));
  llvm::sort(places, [&](size_t a, size_t b) { return dim.cuts[a].axis > dim.cuts[b].axis; });
  int64_t parts = 1;
  for (const Cut &cut : dim.cuts)
    parts *= mesh.axes[cut.axis].size;
  if (dim.size % parts != 0)
    return false;
  int64_t length = dim.size / parts;
  bool same = true;
  forEachPart(mesh, dim.cuts, [&](const Coordinates &at) {
    // From the last axis back: where the device's part is in what it had before the axis.
    int64_t number = 0, had = 1;
    for (size_t place : places) {
      uint32_t axis = dim.cuts[place].axis;
      int64_t ways = mesh.axes[axis].size, run = had / splitFactor(dim, place, mesh);
      number = (number / run * ways + at[axis]) * run + number % run;
      had *= ways;
    }
    Span span = spanOf(dim, at);
    same = same && number * length == span.global && span.extent == length;
  });
  return same;
}

std::string whyNotShard(const Placement &placement, const Mesh &mesh) {
  if (!placement.dims)
    return whyNoBoxes(placement);
  for (auto [number, dim] : llvm::enumerate(*placement.dims)) {
    bool inOrder = llvm::is_sorted(dim.cuts, [](const Cut &a, const Cut &b) { return a.axis < b.axis; });
    if (inOrder && !areChunks(dim, mesh))
      return dimensionText(number, dim) + " is in parts that are not those of torch.chunk";
    if (!inOrder && !areStrides(dim, mesh))
      return dimensionText(number, dim) +
             " is in uneven parts, cut by axes in another order than the mesh's, in which DTensor cuts";
  }
  return "";
}

} // namespace cleave::tool
