// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts become dimensions, axes cuts.

#include "dialects/plan/Tile.h"

using namespace mlir;

namespace cleave::plan {

SmallVector<int64_t> axisIndices(ArrayRef<StringAttr> axes, const dist::MeshShape &mesh) {
  SmallVector<int64_t> indices;
  for (StringAttr axis : axes)
    indices.push_back(llvm::find(mesh.getAxes(), axis) - mesh.getAxes().begin());
  return indices;
}

TileAttr toTile(const dist::Layout &layout, const dist::MeshShape &mesh, MLIRContext *context) {
  SmallVector<TileDimAttr> dims;
  for (StringAttr axis : layout.partial)
    dims.push_back(TileDimAttr::get(context, mesh.ways(axis), axisIndices(axis, mesh), int64_t(1), 1, 1, 0));
  for (const dist::DimParts &parts : layout.dims)
    for (const dist::Part &part : parts) {
      dist::Reach reach = part.reach.value_or(dist::Reach());
      SmallVector<int64_t> ways;
      if (!part.shifts.empty())
        for (StringAttr axis : part.axes)
          ways.push_back(mesh.ways(axis));
      dims.push_back(TileDimAttr::get(context, part.size, axisIndices(part.axes, mesh), part.blocks(mesh),
                                      part.localSize(mesh), reach.step, reach.before, part.shifts, ways));
    }
  return TileAttr::get(context, dims);
}

TileAttr toTileUnlessWhole(const dist::Layout &layout, const dist::MeshShape &mesh, MLIRContext *context) {
  return layout.isWhole() ? TileAttr() : toTile(layout, mesh, context);
}

TileAttr toTile(dist::WithinAttr within, ArrayRef<int64_t> partShape) {
  SmallVector<TileDimAttr> dims;
  for (auto [dim, length] : llvm::enumerate(partShape)) {
    bool isCut = static_cast<int64_t>(dim) == within.getDim();
    dims.push_back(TileDimAttr::get(within.getContext(), length, ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                    isCut ? within.getSize() : length, 1, isCut ? within.getBegin() : 0));
  }
  return TileAttr::get(within.getContext(), dims);
}

std::optional<TileAttr> toScatterTile(const dist::Layout &from, const dist::Layout &to, ArrayRef<StringAttr> axes,
                                      const dist::MeshShape &mesh, MLIRContext *context) {
  auto isReduced = [&](StringAttr axis) { return llvm::is_contained(axes, axis); };
  if (!llvm::all_of(axes, [&](StringAttr axis) { return to.uses(axis); }))
    return std::nullopt;
  dist::Layout before = to;
  SmallVector<TileDimAttr> dims;
  for (dist::DimParts &parts : before.dims)
    for (dist::Part &part : parts) {
      dist::Part whole = part;
      auto scattered = llvm::find_if(part.axes, isReduced);
      size_t kept = scattered - part.axes.begin();
      if (part.reach || !part.shifts.empty() || !std::all_of(scattered, part.axes.end(), isReduced))
        return std::nullopt;
      part.axes.truncate(kept);
      dims.push_back(TileDimAttr::get(context, part.localSize(mesh),
                                      axisIndices(ArrayRef(whole.axes).drop_front(kept), mesh),
                                      ArrayRef(whole.blocks(mesh)).drop_front(kept), whole.localSize(mesh), 1, 0));
    }
  // Without the scattered axes the result lies as the operand does.
  dist::Layout operand = from;
  before.canonicalize(mesh);
  operand.canonicalize(mesh);
  if (before.dims != operand.dims)
    return std::nullopt;
  return TileAttr::get(context, dims);
}

/// Whether a device has another block of the same ones.
static bool isRotated(TileDimAttr source, TileDimAttr target) {
  return source.getAxes() == target.getAxes() && source.getBlocks() == target.getBlocks() &&
         source.getShifts() != target.getShifts();
}

/// The elements of `target`'s buffer that the device has in `source`'s already, in one dimension.
static double ownElements(TileDimAttr source, TileDimAttr target) {
  size_t common = std::min(source.getAxes().size(), target.getAxes().size());
  if (isRotated(source, target))
    return 0;
  // Blocks of blocks, and windows around blocks, lie in each other.
  if (source.getAxes().take_front(common) == target.getAxes().take_front(common))
    return static_cast<double>(std::min(source.getLength(), target.getLength()));
  return static_cast<double>(source.getLength()) * static_cast<double>(target.getLength()) /
         static_cast<double>(std::max<int64_t>(1, target.getSize()));
}

static TileAttr wholeLike(TileAttr tile) {
  SmallVector<TileDimAttr> dims;
  for (TileDimAttr dim : tile.getDims())
    dims.push_back(TileDimAttr::get(tile.getContext(), dim.getSize(), {}, {}, dim.getSize(), 1, 0));
  return TileAttr::get(tile.getContext(), dims);
}

/// The whole tensor as one dimension, cut by all axes.
static TileDimAttr flat(TileAttr tile) {
  SmallVector<int64_t> axes, blocks;
  for (TileDimAttr dim : tile.getDims()) {
    llvm::append_range(axes, dim.getAxes());
    llvm::append_range(blocks, dim.getBlocks());
  }
  return TileDimAttr::get(tile.getContext(), tile.getTensorElements(), axes, blocks, tile.getBufferElements(), 1, 0);
}

ExchangeTraffic trafficOf(TileAttr source, TileAttr target, ArrayRef<int64_t> axisSizes) {
  if (source == target)
    return {};
  if (!source)
    source = wholeLike(target);
  if (!target)
    target = wholeLike(source);
  SmallVector<TileDimAttr> from(source.getDims()), to(target.getDims());
  bool alike = from.size() == to.size() && llvm::all_of(llvm::zip(from, to), [](auto pair) {
                 return std::get<0>(pair).getSize() == std::get<1>(pair).getSize();
               });
  if (!alike) {
    from = {flat(source)};
    to = {flat(target)};
  }
  double own = 1, devices = 1;
  for (auto [before, after] : llvm::zip_equal(from, to)) {
    own *= ownElements(before, after);
    // Another one of the same blocks comes from one other device.
    if (isRotated(before, after))
      devices *= 2;
    else if (before != after)
      for (int64_t axis : before.getAxes())
        devices *= static_cast<double>(axisSizes[static_cast<size_t>(axis)]);
  }
  double elements = static_cast<double>(target.getBufferElements()) - own;
  if (elements <= 0)
    return {};
  return {elements, std::max<int64_t>(1, static_cast<int64_t>(devices) - 1)};
}

} // namespace cleave::plan
