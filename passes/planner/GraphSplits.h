// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the operators of a graph are split over their meshes: what somebody decided, and what follows from it.
//
// An operator's state says which axes cut which of its factors. Whoever decides calls `cut`; `propagate` lets the rest
// follow, axis by axis, in sweeps over the operators until nothing changes:
//
//   forward   an operator cuts by an axis what its operands are cut by, in the order of their bytes. It follows along
//             parallel and window factors. It follows along a reduction factor where gathering would bring a tensor
//             that is larger than the result whose partial values are joined instead. It never follows along others.
//   backward  an operator whose operands leave an axis open cuts by it what the first of its users cuts.
//
// An axis is open at an operator as long as nothing before it decided on it: what comes out of a reduction over an axis
// is whole on purpose, and no user further down divides it again. `fc1.n` and `fc2` unsplit but for `fc2.k` becomes
//
//   fc1 ──▶ relu ──▶ fc2                        fc1 ──▶ relu ──▶ fc2 ──▶ softmax
//                    k:x        backward:       n:x     d1:x     k:x     (whole)
//
// A cut remembers the extent of the finest factor it went through, so that a batch of 6 that a reshape merges into 48
// rows is found again behind the next reshape, and hidden columns become heads where they are a product of both.

#ifndef CLEAVE_PASSES_PLANNER_GRAPHSPLITS_H
#define CLEAVE_PASSES_PLANNER_GRAPHSPLITS_H

#include "dialects/interfaces/SplitRule.h"
#include "passes/planner/PlaceByHand.h"

#include <deque>

namespace cleave {

/// Who cut something, as `dist.place` tells it. `node` is the node that was meant; what follows it elsewhere is
/// "propagation from" it. Decisions about no node, or about all, are quoted by everything that follows.
struct SplitDecision {
  static constexpr unsigned everywhere = ~0u;
  std::string text;
  unsigned node = everywhere;
};

/// Axes that cut a factor, the outermost first. They refer to the mesh's text.
using AxisNames = llvm::SmallVector<llvm::StringRef, 1>;

/// How an operator is split so far.
struct OperatorSplit {
  mlir::Operation *op = nullptr;
  /// An index into the list of model nodes.
  unsigned node = 0;
  const MeshSpec *mesh = nullptr;
  /// Empty where the operator cannot be split at all.
  SplitRule rule;
  /// By factor.
  llvm::SmallVector<AxisNames, 4> axes;
  /// By factor: the finest extent of what the axes cut.
  llvm::SmallVector<int64_t, 4> extents;
  /// By factor: somebody said what cuts it, so that nothing more does.
  llvm::SmallVector<bool, 4> fixed;
  /// Somebody said that it stays as it is.
  bool closed = false;
  /// Who brought an axis in.
  llvm::SmallVector<std::pair<llvm::StringRef, const SplitDecision *>, 2> decisions;
  /// Axes about which something up to here decided.
  llvm::SmallVector<llvm::StringRef, 2> settled;

  bool uses(llvm::StringRef axis) const;
  /// The factor that an axis cuts.
  std::optional<unsigned> factorCutBy(llvm::StringRef axis) const;
  /// Into how many parts a factor is cut.
  int64_t ways(unsigned factor) const;
};

/// Axes that cut a dimension of a value from some position on: the elements before it in the dimension's mixed radix
/// number `offset`, those that are cut `extent`.
struct ValueCut {
  unsigned dim = 0;
  int64_t offset = 1, extent = 1;
  AxisNames axes;
  llvm::SmallVector<const SplitDecision *, 1> decisions;
};

/// The splits of all placed operators of a graph.
class GraphSplits {
public:
  /// `nodes` and `places` must outlive it.
  GraphSplits(dfg::GraphOp graph, llvm::ArrayRef<ModelNode> nodes, llvm::ArrayRef<NodePlace> places);

  llvm::ArrayRef<ModelNode> getNodes() const { return nodes; }
  /// All operators in the graph's order.
  llvm::MutableArrayRef<OperatorSplit> getOperators() { return operators; }
  /// Null where the operator has no place.
  OperatorSplit *find(mlir::Operation *op);
  /// A decision that lives as long as this.
  const SplitDecision *decide(std::string text, unsigned node = SplitDecision::everywhere);

  /// Cuts a factor by an axis that the operator does not use yet.
  void cut(OperatorSplit &split, unsigned factor, llvm::StringRef axis, const SplitDecision *decision,
           int64_t extent = 0);
  /// Lets an input of the graph come in parts.
  void cutInput(mlir::Value input, unsigned dim, llvm::StringRef axis, const SplitDecision *decision);

  /// How a value lies on the mesh of who makes it.
  llvm::SmallVector<ValueCut> cutsOf(mlir::Value value);
  /// The factor along which an operator would follow a cut of a tensor with those factors by `ways` devices, whether it
  /// may or not; none where the tensor has none there.
  static std::optional<unsigned> factorAt(const OperatorSplit &split, const TensorFactors &tensor, const ValueCut &cut,
                                          int64_t ways, llvm::function_ref<bool(unsigned factor)> mayFollow);
  /// Lets an operator follow its operands. Returns whether it did.
  bool followOperands(OperatorSplit &split);
  /// Lets what reads a value follow it, and what reads that, forward in the graph's order as far as anything changes,
  /// after `visit` has seen it. Ends where `visit` returns false, and returns whether it did not.
  bool followFrom(
      mlir::Value value, llvm::function_ref<bool(OperatorSplit &split)> visit = [](OperatorSplit &) { return true; });
  /// The same for an input that comes in parts along `dim`, but only to see what would follow: leaves everything as it
  /// was.
  bool tryInput(mlir::Value input, unsigned dim, llvm::StringRef axis,
                llvm::function_ref<bool(OperatorSplit &split)> visit);
  /// Lets all operators follow, forward and backward, until nothing changes.
  void propagate();

  /// Who decided where an operator is.
  llvm::StringRef placedBy(const OperatorSplit &split) const { return places[split.node].by; }
  /// Who decided: the splits' deciders, or the place's where nothing splits it.
  std::string decidersOf(const OperatorSplit &split) const;

private:
  bool follow(OperatorSplit &split, const TensorFactors &tensor, const ValueCut &cut, bool onlyOpen);
  bool followUsers(OperatorSplit &split);
  void settle(OperatorSplit &split);

  llvm::ArrayRef<ModelNode> nodes;
  llvm::ArrayRef<NodePlace> places;
  std::vector<OperatorSplit> operators;
  llvm::DenseMap<mlir::Operation *, unsigned> indices;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<ValueCut>> inputCuts;
  std::deque<SplitDecision> decisions;
};

/// The operator of a node that does most of its work.
mlir::Operation *mainOperator(const ModelNode &node);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_GRAPHSPLITS_H
