// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one operator costs a device that has its part of it: a kernel forward, what the backward pass adds, and what its
// parameters take in every step.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_OPERATORWORK_H
#define CLEAVE_PASSES_PLANNER_SEARCH_OPERATORWORK_H

#include "passes/cost/KeyExchangeCost.h"
#include "passes/planner/search/Piece.h"

#include <tuple>

namespace cleave::search {

/// By axis of a grid the factor of an operator that it cuts, or none.
using Factors = std::array<unsigned, mostAxes>;

/// How a tensor lies, and its gradient.
struct TensorState {
  State state = {}, gradient = {};
  bool operator<(const TensorState &other) const {
    return std::tie(state, gradient) < std::tie(other.state, other.gradient);
  }
};

/// An operator's in a choice.
struct OperatorStates {
  llvm::SmallVector<TensorState, 3> operands;
  llvm::SmallVector<State, 1> results;
};

class OperatorWork {
public:
  OperatorWork(const SearchGraph &graph, const Grid &grid, const OperatorCost &cost, const PieceOptions &options)
      : graph(graph), grid(grid), cost(cost), options(options), numAxes(grid.numAxes()) {}

  /// Operators from here to the end of the piece are not computed again; none: all are.
  void setRepeatedEnd(unsigned index) { repeatedEnd = index; }

  double scaleOf(const Operator &op) const { return op.batch == none ? 1 : options.batchScale; }
  double bytesOf(const Tensor &tensor) const {
    return tensor.bytes * (tensor.batched ? options.batchScale : 1) *
           (tensor.isFloat ? options.precision.activation : 1);
  }
  /// Elements of a factor in a microbatch.
  double sizeOf(const Operator &op, unsigned factor) const {
    return static_cast<double>(op.rule.factors[factor].size) * (factor == op.batch ? options.batchScale : 1);
  }

  /// Adds what the operator of that number takes and keeps where it is cut so.
  void add(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const;
  /// Both ways for keys and values to come to the attention that begins with this product.
  dist::KeyExchange decisionOf(const Operator &op, const Factors &factors, const OperatorStates &state,
                               bool isRing) const;
  /// Adds what the backward pass reads of the other devices' keys or values, which an attention's product has gathered:
  /// they are kept, as the device's own are.
  void addGathered(const Operator &op, const OperatorStates &state, Sums &sums) const;

private:
  /// What our kernels of batch normalization read and write in training, in tensors of its result. Forward they read
  /// the operand for the mean and for the variance, and read and write it. Backward there are two sums, of the gradient
  /// and of its product with the operand, a gradient made of both, the sum of that, and it once more less its mean.
  static constexpr double statisticsPasses = 4, statisticsGradientPasses = 10;

  /// Without what is told apart of attention.
  void addAlone(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const;
  /// The part of the work that a device does; blocks are rounded up.
  double partOf(const Operator &op, const Factors &factors) const;
  KeyTimes keyTimesOf(const Operator &op, const Factors &factors, const OperatorStates &gathered) const;
  /// As `add`, of an operator of attention whose keys go around. What its operators take with all keys is counted for
  /// each of them, and what the ring takes more for the first.
  void addInRing(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const;
  const State &scoresState(const Operator &op, const OperatorStates &state) const;
  /// Whether the operator is a part of attention whose scores the device does not have in memory: its kernel computes
  /// them by blocks of keys, of which it has all.
  bool streamsScores(const Operator &op, const OperatorStates &state) const;
  bool hasAllQueries(const Operator &op, const OperatorStates &state) const;
  double localElements(const Tensor &tensor, const State &state) const;
  double localElements(const Operand &operand, const State &state) const;
  /// An operator as part of a kernel: forward, backward, what is kept.
  void addKernel(const Operator &op, const KernelWork &work, const OperatorStates &state, double resultBytes,
                 bool isLast, Sums &sums) const;
  /// A streamed product has neither scores nor their gradients in memory, so that it is bound by what it computes.
  double streamedSeconds(const KernelWork &work, double products, double share) const;
  /// A product's part of the one that it is joined with.
  double productSeconds(KernelWork work, double share) const;
  /// How many devices of the grid have the same part of a tensor.
  double copiesOf(const State &state) const;
  /// Seconds to round elements of `bytes` each for the product of a linear layer, or for the part of it that is the
  /// operator's: each element is rounded where it lies before devices bring all of them together.
  double castSeconds(const KernelUse &use, double elements, double bytes) const;
  double movedSeconds(CostClass costClass, double flops, double bytes, bool launches) const;
  double forwardBytes(const Operator &op, const OperatorStates &state, double resultBytes) const;
  /// What a kernel has in memory while it runs.
  double touchedBytes(const Operator &op, const OperatorStates &state, double resultBytes) const;
  double maskBytes(const Operator &op, const OperatorStates &state) const;
  double operandBytes(const Operand &operand, const State &state) const;
  void addHalo(const Operator &op, const Factors &factors, const OperatorStates &state, Sums &sums) const;
  /// A parameter's share of the all-reduce of the bucket that it is in.
  double joinSeconds(double bytes, llvm::ArrayRef<unsigned> axes) const;
  void addParameters(unsigned index, const OperatorStates &state, Sums &sums) const;

  //===-- backward --------------------------------------------------------------------------------------------===//

  /// The gradient of an operand of a product is a product itself, of the result's gradient and the other operand.
  static KernelWork gradientOf(const KernelWork &work, unsigned operand);
  /// Of a tensor that the backward pass reads.
  double keptBytes(const Tensor &tensor, const State &state) const;
  void addKernelBackward(const Operator &op, const KernelWork &work, const OperatorStates &state, double resultBytes,
                         Sums &sums) const;
  void addProductGradients(const Operator &op, const KernelWork &work, const OperatorStates &state, double resultBytes,
                           Sums &sums) const;
  /// A contraction has a product as large as itself for each operand that learns; other operators read and write about
  /// as much as forward.
  void addBackward(unsigned index, const KernelWork &work, const OperatorStates &state, double forward,
                   double resultBytes, Sums &sums) const;

  const SearchGraph &graph;
  const Grid &grid;
  const OperatorCost &cost;
  const PieceOptions &options;
  unsigned numAxes, repeatedEnd = none;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_OPERATORWORK_H
