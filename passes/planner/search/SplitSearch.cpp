// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One problem of choices a mesh.

#include "passes/planner/search/SplitSearch.h"

#include "passes/cost/HostSharing.h"

#include "llvm/ADT/MapVector.h"

namespace cleave::search {

std::optional<FoundSplits> findSplits(const SearchGraph &graph, const Machine &machine,
                                      llvm::ArrayRef<const MeshSpec *> meshes, const FixedFactors &fixed, Keys keys,
                                      const solver::SolveOptions &options) {
  std::array<unsigned, mostAxes> unsplit;
  unsplit.fill(none);
  FoundSplits found;
  found.splits.assign(graph.operators.size(), unsplit);
  found.keys.resize(graph.operators.size());
  Topology topology(machine);
  HostSharing sharing(machine);
  llvm::MapVector<const MeshSpec *, std::vector<bool>> members;
  for (auto [index, mesh] : llvm::enumerate(meshes))
    if (!mesh->axes.empty()) {
      std::vector<bool> &included = members[mesh];
      included.resize(meshes.size(), false);
      included[index] = true;
    }
  for (auto &[mesh, included] : members) {
    llvm::SmallVector<int64_t, 3> sizes;
    for (const MeshAxis &axis : mesh->axes)
      sizes.push_back(axis.size);
    if (sizes.size() > mostAxes)
      return std::nullopt;
    Grid grid(topology, mesh->devices, sizes);
    OperatorCost cost(machine, mesh->devices, "f32", sharing.slowdown(mesh->devices, mesh->devices));
    PieceOptions pieceOptions;
    pieceOptions.included = &included;
    pieceOptions.keys = keys;
    if (mesh->axesAreDegrees)
      for (const MeshAxis &axis : mesh->axes)
        pieceOptions.roles.push_back(roleOf(axis.name));
    Piece piece(graph, 0, graph.operators.size(), none, none, grid, cost, pieceOptions, fixed);
    if (double limit = static_cast<double>(machine.devices[mesh->devices.front()].memoryLimit); limit > 0)
      piece.problem.memoryLimit = limit;
    solver::ChoiceSolution solution = solver::solve(piece.problem, options);
    if (!solution.isFeasible())
      return std::nullopt;
    auto factors = piece.factorsOf(solution.choices);
    auto ownKeys = piece.keysOf(solution.choices);
    for (unsigned index = 0; index != factors.size(); ++index)
      if (included[index])
        std::tie(found.splits[index], found.keys[index]) = std::pair(factors[index], ownKeys[index]);
  }
  return found;
}

} // namespace cleave::search
