// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order variables are eliminated.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATIONORDER_H
#define CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATIONORDER_H

#include <utility>
#include <vector>

namespace cleave::solver {

/// An undirected graph of variables, each with the number of its choices; `isEliminated` are those that an order is
/// wanted for.
struct VariableGraph {
  std::vector<unsigned> sizes;
  std::vector<bool> isEliminated;
  std::vector<std::pair<unsigned, unsigned>> edges;
};

struct EliminationOrder {
  std::vector<unsigned> variables;
  /// The most neighbours that a variable has when it is eliminated.
  unsigned width = 0;
  /// The entries of all tables that remain, and the combinations looked at to fill them.
  double entries = 0, work = 0;
};

/// The better of two greedy orders: by fewest edges to add (min-fill), and by fewest combinations (min-weight). Ties go
/// to the lower index.
EliminationOrder findEliminationOrder(const VariableGraph &graph);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_ELIMINATIONORDER_H
