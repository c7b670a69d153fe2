// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What instructions check of the tiles that they refer to.

#ifndef CLEAVE_DIALECTS_PLAN_TILEVERIFICATION_H
#define CLEAVE_DIALECTS_PLAN_TILEVERIFICATION_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

namespace cleave::plan {

/// Data is read from a tile's buffer, or written to it.
enum class TileRole { Source, Target };

/// Verifies that a tile, if there is one, fits the mesh and, if it is known, the buffer.
llvm::LogicalResult verifyTile(mlir::Operation *op, TileAttr tile, dist::MeshOp mesh, mlir::Value buffer,
                               TileRole role);

/// Verifies that two tiles, where both are there, are of tensors of one size.
llvm::LogicalResult verifySameTensor(mlir::Operation *op, TileAttr source, TileAttr target);

} // namespace cleave::plan

#endif // CLEAVE_DIALECTS_PLAN_TILEVERIFICATION_H
