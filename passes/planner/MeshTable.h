// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `dist.mesh` operations of a module that is being placed.

#ifndef CLEAVE_PASSES_PLANNER_MESHTABLE_H
#define CLEAVE_PASSES_PLANNER_MESHTABLE_H

#include "dialects/dist/Dist.h"
#include "passes/planner/MeshSpec.h"

#include <map>

namespace cleave {

/// Meshes by what they are, made when first asked for. Single devices are called @d0, @d1, …; grids by the name that
/// their specification wishes, with an ending where another symbol has it.
class MeshTable {
public:
  explicit MeshTable(mlir::ModuleOp module) : module(module) {}

  /// The mesh's name; null, with an error, where another symbol has the name of a single device.
  mlir::FlatSymbolRefAttr get(const MeshSpec &mesh);

  /// Adds the meshes that the module lacks at its beginning: single devices by index, then grids as they were asked
  /// for.
  void write();

private:
  mlir::FlatSymbolRefAttr getDevice(unsigned device);
  mlir::FlatSymbolRefAttr getGrid(const MeshSpec &mesh);
  bool isFree(llvm::StringRef name, const MeshSpec &mesh);

  mlir::ModuleOp module;
  std::map<unsigned, mlir::FlatSymbolRefAttr> devices;
  std::vector<std::pair<MeshSpec, mlir::FlatSymbolRefAttr>> grids;
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_MESHTABLE_H
