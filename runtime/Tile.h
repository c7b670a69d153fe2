// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of tiles: which elements of a tensor a device's buffer holds, and which boxes of bytes turn one
// device's part into another's. plan.fbs defines tiles. Everything here expects a tile that checkTile accepts for the
// mesh; nothing overflows then.

#ifndef CLEAVE_RUNTIME_TILE_H
#define CLEAVE_RUNTIME_TILE_H

#include "runtime/Site.h"
#include "runtime/StridedCopy.h"

#include <optional>

namespace cleave::runtime {

/// Why the tile does not fit the mesh: axes that are missing or cut twice, blocks that do not cover their dimension,
/// lengths that are not the last block's, numbers beyond reason. A window is an error where `windows` does not allow
/// it.
Error checkTile(const Tile &tile, const Mesh &mesh, bool windows);

/// Elements of the whole tensor, and of a device's buffer; nothing when a factor is negative or the product exceeds
/// 2^63-1.
std::optional<uint64_t> tensorElements(const Tile &tile);
std::optional<uint64_t> bufferElements(const Tile &tile);

/// A tile of the same dimensions that every device holds whole.
Tile wholeTile(const Tile &like);
/// A tensor of that many elements as a tile of one dimension that every device holds whole.
Tile wholeTile(uint64_t elements);

/// Whether the dimension is a window: positions of the buffer are not just those of the device's block.
bool isWindow(const TileDim &dim);

/// Where a device begins in the dimension: for a window, the element at position 0 of its buffer (perhaps negative).
int64_t startOf(const TileDim &dim, const Coordinates &at);

/// A device's valid elements in one dimension: [global, global + extent) of the tensor, from position `local` of the
/// buffer on.
struct Span {
  int64_t global = 0, local = 0, extent = 0;
};
Span spanOf(const TileDim &dim, const Coordinates &at);

/// Whether a tile cuts along the axis.
bool cuts(const Tile &tile, uint32_t axis);
/// Whether the device is the first of the replicas of its part: all coordinates on axes without cuts are 0.
bool isFirstReplica(const Tile *tile, const Coordinates &at);

/// The elements that two tiles at given coordinates share, as boxes from the one's buffer to the other's; both describe
/// the same tensor, perhaps in different dimensions. Elements have `elementBytes` bytes.
std::vector<StridedCopy> intersect(const Tile &source, const Coordinates &sourceAt, const Tile &target,
                                   const Coordinates &targetAt, unsigned elementBytes);

/// The target-side boxes of the buffer's positions that stand for no element of the tensor.
std::vector<StridedCopy> paddingOf(const Tile &tile, const Coordinates &at, unsigned elementBytes);

/// One device's part of a target, found dimension by dimension: every source block that holds a part of it, with the
/// coordinates of the block on the axes that `source` cuts (others are left at 0).
struct Fragment {
  Coordinates block;
  std::vector<StridedCopy> boxes;
};
std::vector<Fragment> fragmentsOf(const Tile &source, const Mesh &sourceMesh, const Tile &target,
                                  const Coordinates &targetAt, unsigned elementBytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TILE_H
