// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts every operator of a module's graphs on a device or mesh, and splits it there.

#ifndef CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H
#define CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H

#include "passes/cost/Machine.h"
#include "passes/planner/Degrees.h"
#include "passes/planner/PlaceByDecision.h"
#include "passes/planner/PlacementFile.h"
#include "passes/planner/PlanReport.h"
#include "passes/planner/search/Search.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace cleave {

/// How operators find their device.
enum class PlaceStrategy {
  Single,    ///< All on device 0.
  Place,     ///< By hand: pins and splits, and what follows from them.
  Data,      ///< The batch in parts.
  Tensor,    ///< Layers in parts, by columns and rows.
  Alternate, ///< Model node i on device i mod N; for tests.
  Split,     ///< Every operator in parts, by its factors in turn; for tests.
  Auto,      ///< As the search finds best.
};

/// "single", "place", ….
llvm::StringRef strategyName(PlaceStrategy strategy);
/// The axis over which strategies Data and Tensor split by themselves.
llvm::StringRef axisOf(PlaceStrategy strategy);
/// The strategy of that name; none where there is none.
std::optional<PlaceStrategy> findStrategy(llvm::StringRef name);

struct PlaceOptions {
  PlaceStrategy strategy = PlaceStrategy::Single;
  /// As it was given: what measured steps have said of it, and what libraries round, is applied where it is costed.
  Machine machine;
  /// Libraries of its GPUs may round the float32 that they multiply to TF32.
  bool roundsProducts = false;
  /// Whether libraries may compute attention by one kernel.
  bool fusesAttention = true;
  /// Whether libraries of processors compute windows of 3 x 3 by Winograd's algorithm.
  bool winograd = true;
  /// What PlaceStrategy::Place asks for, and what PlaceStrategy::Auto has to keep to; nothing else takes it.
  std::optional<Placement> placement;
  /// Into how many parts Data and Tensor split; nothing else takes it. Auto has its own in `search`.
  Degrees degrees;
  /// What PlaceStrategy::Auto has to take as it is, instead; null: nothing.
  const Decision *decision = nullptr;
  /// What PlaceStrategy::Auto searches for.
  search::SearchRequest search;
};

/// Why nothing was placed, where the search says so: a request that makes no sense, or that nothing fits.
enum class PlaceFailure { Diagnosed, Usage, Infeasible };

/// Writes `dist.place` on every operator of the module's graphs, `dist.machine` and `dist.devices` for later stages, a
/// `dist.mesh @dK` for every single device K in use, and a `dist.mesh` for every grid of several. All operators of one
/// model node are on one mesh; splits are the operators' own. Reads of parameters and constants get none: they are
/// copied to whoever needs them. Errors are diagnostics at the module or at the placement file's line. With
/// PlaceStrategy::Auto, `report` (which may be null) is set to what the search expects, and `failure` to why it failed.
llvm::LogicalResult placeOperators(mlir::ModuleOp module, PlaceOptions options,
                                   std::optional<PlanReport> *report = nullptr, PlaceFailure *failure = nullptr);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEOPERATORS_H
