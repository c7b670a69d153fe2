// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a piece: the choices of its operators, with what each costs, and tensors between them.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_PIECEBUILDER_H
#define CLEAVE_PASSES_PLANNER_SEARCH_PIECEBUILDER_H

#include "passes/planner/search/OperatorWork.h"

#include "llvm/ADT/UniqueVector.h"

#include <map>

namespace cleave::search {

class Piece::Builder {
public:
  Builder(Piece &piece, const SearchGraph &graph, unsigned entry, unsigned exit, const Grid &grid,
          const OperatorCost &cost, const PieceOptions &options, const FixedFactors &fixed)
      : piece(piece), graph(graph), entry(entry), exit(exit), grid(grid), options(options), fixed(fixed),
        numAxes(grid.numAxes()), work(graph, grid, cost, options) {}

  void run();

private:
  /// Whether an operator is the grid's, and runs in every step.
  bool isHere(unsigned index) const {
    return !graph.operators[index].once && (!options.included || (*options.included)[index]);
  }

  //===-- what is computed again ---------------------------------------------------------------------------------===//

  /// Where those operators begin that are not.
  unsigned findUnrepeated();
  /// Whether a backward pass reads what an operator makes; the piece's own result lies in memory.
  bool isReadBackward(const Operator &op) const;

  //===-- choices ------------------------------------------------------------------------------------------------===//

  void assign(unsigned index);
  static bool hasWeights(const Operator &op);
  static bool mayPlay(const Operator &op, AxisRole role, unsigned factor);
  bool mayCut(const Operator &op, unsigned axis, unsigned factor, double ways) const;
  /// The choices of a variable: every way in which axes cut factors of its first operator.
  void enumerate(unsigned variable);
  void enumerate(unsigned variable, const Operator &op, Factors &factors, unsigned axis);
  /// Those with these factors: keys of attention may come in two ways.
  void addChoices(unsigned variable, const Operator &op, const Factors &factors);
  OperatorStates statesOf(const Operator &op, const Factors &factors) const;
  void addChoice(unsigned variable, const Factors &factors, bool isRing = false);
  /// A follower's factors: those at the places where its operand is cut. What it cannot follow is gathered.
  Factors follow(const Variable &made, const Operator &op, const std::vector<OperatorStates> &chosen, Sums &sums) const;

  //===-- rings ------------------------------------------------------------------------------------------------===//

  /// Whether keys of the attention of which the operator is a part can go around where it is cut so: along queries, of
  /// which the devices have as many keys each, and apart from them only along what scores and keys have in common.
  bool mayBeRing(const Operator &op, const Factors &factors) const;
  /// Marks the keys or values that the operator reads, and scores.
  void letGoAround(const Operator &op, OperatorStates &made) const;

  //===-- tensors ------------------------------------------------------------------------------------------------===//

  const State *resultState(unsigned tensor, unsigned choice) const;
  const TensorState &operandState(unsigned index, unsigned operand, unsigned choice) const;
  /// Uses of a tensor by other variables than its producer's.
  llvm::SmallVector<std::pair<unsigned, unsigned>, 4> usesOf(unsigned tensor) const;
  /// Every state of a tensor on its own: each axis cuts a dimension, or nothing; then the gradient is whole or partial.
  std::vector<TensorState> allStates(const Tensor &tensor) const;
  void addTensorVariable(unsigned tensor, bool isBoundary);
  void addTensorVariables();

  //===-- edges --------------------------------------------------------------------------------------------------===//

  /// Seconds to bring a tensor from each of some states to each of others, by the numbers of these lists. Many tensors
  /// are alike.
  const std::vector<double> &conversions(double bytes, unsigned from, unsigned to);
  /// Bringing a tensor from what one variable's choices make of it to what another one's read, and its gradient back.
  void addEdge(unsigned from, unsigned to, unsigned forOperator, const Tensor &tensor,
               llvm::function_ref<TensorState(unsigned)> made, llvm::function_ref<const TensorState &(unsigned)> read);
  static State joined(State state);
  /// Seconds of gathering a tensor of `bytes` that has arrived as a part for each device, until devices hold it in a
  /// state.
  double gatherSeconds(double bytes, const State &state) const;
  void addEdges();
  void connect(unsigned index);
  void connectReaders(unsigned index);
  /// What leaves the piece is no partial value.
  void finish(unsigned index, unsigned producer);

  Piece &piece;
  const SearchGraph &graph;
  unsigned entry, exit;
  const Grid &grid;
  const PieceOptions &options;
  const FixedFactors &fixed;
  unsigned numAxes;
  OperatorWork work;
  /// Equal lists of states, and of numbers of states, are known by one number.
  llvm::UniqueVector<std::vector<State>> stateLists;
  llvm::UniqueVector<std::vector<unsigned>> numberLists;
  /// By bytes of a tensor and lists of states before and after.
  std::map<std::tuple<double, unsigned, unsigned>, std::vector<double>> knownConversions;
  /// By bytes of a tensor: the seconds of Grid::Change::steps.
  std::map<double, llvm::DenseMap<uint32_t, double>> knownChanges;
  /// What the numbers of an edge follow from: conversions of a tensor and of its gradient, and by choice of either end
  /// which states they are between.
  struct EdgeTable {
    const std::vector<double> *there, *back;
    unsigned madeStates, madeGradients, readStates, readGradients;
    auto operator<=>(const EdgeTable &) const = default;
  };
  /// Those that are known, with the table of the problem.
  std::map<EdgeTable, unsigned> knownTables;
  /// By operator: its variable.
  llvm::DenseMap<unsigned, unsigned> variableOf;
  /// By tensor: its own variable, and its states by choice.
  llvm::DenseMap<unsigned, unsigned> tensorVariable;
  llvm::DenseMap<unsigned, std::vector<TensorState>> tensorStates;
  /// By variable, choice and operator of the variable: the states of operands and results.
  std::vector<std::vector<std::vector<OperatorStates>>> states;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_PIECEBUILDER_H
