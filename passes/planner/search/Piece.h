// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Consecutive operators on a grid of devices as a problem of choices: which axis cuts which factor of every operator,
// and in which state tensors are that several operators read.
//
//   operator ──▶ operator                 an edge: converting the tensor, and its gradient on the way back
//   operator ──▶ [tensor] ──▶ operator    a tensor with several readers is a variable of its own: what one of them
//                        └──▶ operator    gathers, the others need not, and partial gradients are joined once
//
// What follows from an axis that cuts a factor of an operator is the same for all operators: an operand or result that
// has the factor is cut; a result that lacks a reduction factor is partial; the gradient of an operand that lacks the
// factor is partial.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_PIECE_H
#define CLEAVE_PASSES_PLANNER_SEARCH_PIECE_H

#include "dialects/dist/KeyExchange.h"
#include "passes/cost/OperatorCost.h"
#include "passes/planner/search/Grid.h"
#include "passes/planner/search/SearchGraph.h"
#include "passes/planner/solver/ChoiceProblem.h"

namespace cleave::search {

/// What an axis may cut.
enum class AxisRole {
  Any,
  Batch,    ///< The batch, of every operator that has one; nothing else.
  NotBatch, ///< Anything but the batch; of contractions with weights what the weights have.
  Sequence, ///< The dimension of inputs beside the batch, where operators have it.
  /// What numbers the matrices of products that have several (Operator::experts), else the batch: devices have samples
  /// and experts of their own.
  Experts
};
/// What a degree of this name cuts.
AxisRole roleOf(llvm::StringRef degree);
/// Whether the batch is what an axis of this role cuts of most operators.
inline bool cutsBatch(AxisRole role) { return role == AxisRole::Batch || role == AxisRole::Experts; }

/// What somebody fixed about an operator.
struct FixedSplit {
  /// Axes and the factors that they cut; the others are free unless `closed`.
  llvm::SmallVector<std::pair<unsigned, unsigned>, 2> axes;
  llvm::SmallVector<unsigned, 1> whole; ///< Factors that stay whole.
  bool closed = false;                  ///< What `axes` does not say stays whole.
  /// Of attention whose keys may go around: whether they do.
  std::optional<bool> isRing;
};
/// By operator.
using FixedFactors = llvm::DenseMap<unsigned, FixedSplit>;

/// How keys and values of attention come to devices that have a part of the queries: as is best, in a ring wherever
/// that can be, or gathered.
enum class Keys { Auto, Ring, Gather };
/// By "auto", "ring", "gather".
std::optional<Keys> findKeys(llvm::StringRef name);

/// How tensors are stored and trained: bytes for each byte of the model's float32.
struct Precision {
  double activation = 1, parameter = 1, gradient = 1;
  double optimizer = 0; ///< State of the optimizer, and master weights.
  /// Copies of parameters that operators read rounded; a step keeps them from the forward to the backward pass.
  double rounded = 0;
};

struct PieceOptions {
  bool training = false;
  /// The size of a microbatch in terms of the model's batch, and how many make a step.
  double batchScale = 1, microbatches = 1;
  Precision precision;
  /// Gradients are joined in buckets of so many bytes of a device, several small parameters at once; 0: one by one.
  double bucketBytes = 0;
  Executor executor;
  /// What a second of communication costs that computation hides.
  double hidden = 0;
  Keys keys = Keys::Auto;
  /// Seconds in which a device moves a byte to the host's memory, or back; 0: activations are not kept there.
  double offload = 0;
  /// The same, of the optimizer's state; 0: it is kept on the device.
  double offloadOptimizer = 0;
  /// By axis; missing ones are AxisRole::Any.
  llvm::SmallVector<AxisRole, 3> roles;
  /// The first of the operators that are in the same stage (SearchGraph::isSummedEarlier); none: the piece's.
  unsigned stageStart = none;
  /// By operator of the graph: whether it is on this grid. Null: all are.
  const std::vector<bool> *included = nullptr;
};

/// What choices amount to. Seconds are a microbatch's but for `reduction`; bytes are a device's.
struct Sums {
  double seconds() const { return forward + backward; }
  double forward = 0, backward = 0;
  double forwardExchange = 0, backwardExchange = 0; ///< Of these, communication.
  double backwardWeights = 0;                       ///< Of `backward`, gradients of parameters.
  double forwardHost = 0, backwardHost = 0;         ///< Seconds of the host, which a pass takes at least.
  double unrepeated = 0;                            ///< Of `forward`, what no backward pass computes again.
  double contractions = 0;                          ///< Of `forward`, what selective recomputation does not repeat.
  double reduction = 0;                             ///< Seconds a step: joining gradients of parameters.
  /// Gradients are joined one after the other as the backward pass computes them, those of the first operators last: of
  /// `reduction`, what is left from one operator on before whose gradients joining never waits, and of `backward`, what
  /// runs meanwhile. Of all operators the one for which their difference is largest.
  double lateReduction = 0, lateBackward = 0;
  double update = 0;    ///< Seconds a step: the optimizer.
  double gathering = 0; ///< Seconds a microbatch if parameters are sharded (ZeRO 3), one way.
  /// Seconds a step if only the optimizer's state is: replicas whose gradients are equal without being joined, so that
  /// joining them counts nothing, send each other what they have updated.
  double regathering = 0;
  double parameters = 0, gradients = 0, optimizer = 0;
  /// The same where devices that hold replicas share them (ZeRO).
  double parametersShared = 0, gradientsShared = 0, optimizerShared = 0;
  double inHost = 0, inHostShared = 0; ///< The optimizer's state where the host keeps it, and the same shared.
  double saved = 0;                    ///< Activations of a microbatch that the backward pass reads.
  double savedProducts = 0;            ///< Of these, the results of contractions.
  double unmoved = 0;                  ///< Of `saved`, what stays on the device wherever the rest is kept.
  double transient = 0;                ///< The largest operator's operands and results; the greater of two when added.

  /// Of operators behind these.
  void add(const Sums &other);
  /// Seconds a step for which gradients are still joined when the backward pass ends, whose `seconds` are those of
  /// `backward` and what is spread evenly over it.
  double joinedAfter(double seconds) const;
  /// Of parameters, gradients and the optimizer, with as much of it shared as a level of ZeRO says.
  double stateBytes(unsigned zero) const {
    return (zero >= 3 ? parametersShared : parameters) + (zero >= 2 ? gradientsShared : gradients) +
           (zero >= 1 ? optimizerShared : optimizer);
  }
  /// The same in the host's memory.
  double hostBytes(unsigned zero) const { return zero >= 1 ? inHostShared : inHost; }
};

/// Seconds of the optimizer for parameters of `bytes` of float32 on a device.
double updateSeconds(double bytes, const OperatorCost &cost, const Precision &precision, const Executor &executor,
                     bool isFloat = true);

/// What one operator takes in a microbatch, forward and backward.
struct OperatorTime {
  double seconds = 0;  ///< With communication.
  double exchange = 0; ///< Bringing its operands into place, and joining its result where several read it.
};

/// Operators [first, last) on a grid.
class Piece {
public:
  Piece(const SearchGraph &graph, unsigned first, unsigned last, unsigned entry, unsigned exit, const Grid &grid,
        const OperatorCost &cost, const PieceOptions &options, const FixedFactors &fixed);

  /// Seconds of a choice or pair are those of a microbatch, forward and backward, with its share of the optimizer;
  /// bytes those of parameters, gradients, optimizer state and activations.
  solver::ChoiceProblem problem;
  /// Seconds a step of a variable's choice, in the form of the problem's domains: joining gradients.
  std::vector<std::vector<double>> reductions;
  /// The variables of the tensors at the two ends; none where the piece does not begin or end at a single tensor. Their
  /// domains depend on the tensor's type alone.
  unsigned entryVariable = none, exitVariable = none;
  /// By choice of the entry's variable: the bytes that a device holds of it.
  std::vector<double> entryBytes;
  /// What a stage adds to its pieces at its beginning, where the piece is its first one, and at its end, by choice of
  /// the entry's or the exit's variable: what other stages send comes as a part for each device, and is gathered where
  /// devices hold more; partial gradients are joined.
  const Sums &entryOf(unsigned choice) const { return entries[choice]; }
  const Sums &exitOf(unsigned choice) const { return exits[choice]; }

  Sums sumsOf(const std::vector<unsigned> &choices) const;
  /// Of one variable's choice; of choices of the two variables of an edge.
  const Sums &sumsOf(unsigned variable, unsigned choice) const { return variables[variable].sums[choice]; }
  Sums exchangeOf(unsigned edge, unsigned a, unsigned b) const;
  /// By operator of the piece and axis: the factor that is cut, or none.
  std::vector<std::array<unsigned, mostAxes>> factorsOf(const std::vector<unsigned> &choices) const;
  /// By operator of the piece: of an attention's first product how its keys come, where devices have a part each of
  /// them and of the queries.
  std::vector<std::optional<dist::KeyExchange>> keysOf(const std::vector<unsigned> &choices) const;
  /// Whether in a choice attention has its keys gathered that could have them go around.
  bool gathersKeys(unsigned variable, unsigned choice) const {
    return choice < variables[variable].assignments.size() && variables[variable].assignments[choice].gathersKeys;
  }
  /// By operator of the piece.
  std::vector<OperatorTime> timesOf(const std::vector<unsigned> &choices) const;
  /// The operator whose choice a variable is, relative to the piece; none for a tensor's.
  unsigned operatorOf(unsigned variable) const {
    return variables[variable].operators.empty() ? none : variables[variable].operators.front() - first;
  }
  /// By axis, the factors of that operator in a choice.
  const std::array<unsigned, mostAxes> &factorsOf(unsigned variable, unsigned choice) const {
    return variables[variable].assignments[choice].factors.front();
  }

  const PieceOptions &getOptions() const { return options; }

private:
  class Builder;
  struct Assignment {
    /// By operator of the variable: first, then followers.
    std::vector<std::array<unsigned, mostAxes>> factors;
    std::vector<OperatorTime> times;
    std::optional<dist::KeyExchange> keys; ///< Of the first operator.
    bool gathersKeys = false;
  };
  struct Variable {
    /// Relative to the piece; empty for a tensor's variable.
    std::vector<unsigned> operators;
    std::vector<Assignment> assignments;
    std::vector<Sums> sums;
  };
  unsigned first = 0, last = 0;
  PieceOptions options;
  std::vector<Variable> variables;
  std::vector<Sums> entries, exits; ///< `entryOf`, `exitOf`.
  /// By table of the problem: what is exchanged forward.
  std::vector<std::vector<double>> forwardTables;
  /// By edge: the operator for which, relative to the piece.
  std::vector<unsigned> edgeOperators;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_PIECE_H
