// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From layouts to tiles: what `#dist.layout` says of a tensor in terms of a mesh's axis names, `#plan.tile` says in
// terms of coordinates.

#ifndef CLEAVE_DIALECTS_PLAN_TILE_H
#define CLEAVE_DIALECTS_PLAN_TILE_H

#include "dialects/dist/Layout.h"
#include "dialects/plan/Plan.h"

namespace cleave::plan {

/// The tile of a layout: a dimension a part, in order. Each axis over which the layout is partial comes before them as
/// a dimension of its own, of which every device holds its one element: devices that differ there do not hold the same,
/// and two layouts that are partial over the same axes show the same larger tensor.
TileAttr toTile(const dist::Layout &layout, const dist::MeshShape &mesh, mlir::MLIRContext *context);

/// The same; null where every device holds the whole tensor.
TileAttr toTileUnlessWhole(const dist::Layout &layout, const dist::MeshShape &mesh, mlir::MLIRContext *context);

/// Where a part of that shape lies in a tensor, an input or output: a tile as long as the tensor.
TileAttr toTile(dist::WithinAttr within, mlir::ArrayRef<int64_t> partShape);

/// Which part of its operand, a buffer of its own, a device keeps in a reduction over `axes` from layout `from` to
/// `to`. None where the result is not the operand, cut further by these axes.
std::optional<TileAttr> toScatterTile(const dist::Layout &from, const dist::Layout &to,
                                      llvm::ArrayRef<mlir::StringAttr> axes, const dist::MeshShape &mesh,
                                      mlir::MLIRContext *context);

/// What a device receives from others in an exchange within a mesh, on average: exact where each axis cuts one
/// dimension of each tile into blocks without padding.
struct ExchangeTraffic {
  double elements = 0;
  int64_t peers = 0; ///< devices that it receives from, at most
};
ExchangeTraffic trafficOf(TileAttr source, TileAttr target, llvm::ArrayRef<int64_t> axisSizes);

/// The axes' places in the mesh.
llvm::SmallVector<int64_t> axisIndices(llvm::ArrayRef<mlir::StringAttr> axes, const dist::MeshShape &mesh);

} // namespace cleave::plan

#endif // CLEAVE_DIALECTS_PLAN_TILE_H
