// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine of the split test, its meshes, and all the ways to divide an operator over one of them.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_PLACEMENTS_H
#define CLEAVE_TEST_PROPERTY_SPLIT_PLACEMENTS_H

#include "test/property/split/Dice.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave::test {

/// Gives the module `count` processor devices of one core.
void addDevices(mlir::ModuleOp module, unsigned count);

/// As many as the largest mesh has.
inline constexpr unsigned numDevices = 8;

/// Gives the module `numDevices` devices, meshes of one, two, three, four, two by two and two by two by two of them,
/// which overlap, and some of them by themselves.
std::vector<dist::MeshOp> addMeshes(mlir::ModuleOp module, Dice &dice);

/// All splits of the operator on the mesh; the one that divides nothing is null and comes first. Every axis divides a
/// factor that can be divided, or none; several axes divide one factor in each order. Operators that are copied to
/// their users, and those that cannot be divided, have the first only.
std::vector<dist::SplitAttr> allSplits(mlir::Operation *op, dist::MeshOp mesh);

/// Whether the operator is placed, other than what is copied to its users.
bool isPlaced(mlir::Operation *op);
/// Says where the operator runs. Takes no notice of what is copied to its users.
void place(mlir::Operation *op, dist::MeshOp mesh, dist::SplitAttr split);
void placeAtRandom(mlir::Operation *op, dist::MeshOp mesh, Dice &dice);

/// Takes meshes that no operator uses out of the module, but for the last.
void removeUnusedMeshes(mlir::ModuleOp module);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_PLACEMENTS_H
