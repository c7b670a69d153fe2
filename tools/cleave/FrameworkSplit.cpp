// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares a plan's parts with those that other frameworks make.

#include "tools/cleave/FrameworkSplit.h"

#include "runtime/Tile.h"

#include "llvm/ADT/STLExtras.h"

namespace cleave::tool {

using namespace runtime;

static const char *const noBoxes = "its parts are no boxes of its dimensions, or overlap";

/// "dimension 0, of 101 elements,", the subject of a reason.
static std::string dimensionText(size_t number, const TileDim &dim) {
  return "dimension " + std::to_string(number) + ", of " + std::to_string(dim.size) + " elements,";
}

std::string whyNotPartitionSpec(const Placement &placement, const Mesh &mesh) {
  if (!placement.dims)
    return noBoxes;
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

std::string whyNotShard(const Placement &placement, const Mesh &mesh) {
  if (!placement.dims)
    return noBoxes;
  for (auto [number, dim] : llvm::enumerate(*placement.dims)) {
    for (size_t i = 1; i < dim.cuts.size(); ++i)
      if (dim.cuts[i - 1].axis > dim.cuts[i].axis)
        return dimensionText(number, dim) + " is cut by axis \"" + mesh.axes[dim.cuts[i - 1].axis].name +
               "\" before \"" + mesh.axes[dim.cuts[i].axis].name + "\", and DTensor cuts in the mesh's order";
    if (!areChunks(dim, mesh))
      return dimensionText(number, dim) + " is in parts that are not those of torch.chunk";
  }
  return "";
}

} // namespace cleave::tool
