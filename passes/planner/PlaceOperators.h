// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts every operator of a module's graphs on a device.

#ifndef CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H
#define CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H

#include "passes/planner/Machine.h"
#include "passes/planner/PlacementFile.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace cleave {

/// How operators find their device.
enum class PlaceStrategy {
  Single,   ///< All on device 0.
  Place,    ///< By hand: pins, and what follows from them.
  Alternate ///< Model node i on device i mod N; for tests.
};

struct PlaceOptions {
  PlaceStrategy strategy = PlaceStrategy::Single;
  Machine machine;
  /// What PlaceStrategy::Place asks for; nothing else takes it.
  std::optional<Placement> placement;
};

/// Writes `dist.place` on every operator of the module's graphs, `dist.devices` on the module, and a `dist.mesh @dK`
/// for every device K in use. All operators of one model node get one place. Reads of parameters and constants get
/// none: they are copied to whoever needs them. Errors are diagnostics at the module or at the placement file's line.
llvm::LogicalResult placeOperators(mlir::ModuleOp module, const PlaceOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H
