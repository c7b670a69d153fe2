// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph as the search sees it: operators with their split rules and work, the tensors between them, which factors
// and tensors carry the batch, and where the graph is narrow.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_SEARCHGRAPH_H
#define CLEAVE_PASSES_PLANNER_SEARCH_SEARCHGRAPH_H

#include "dialects/dfg/PlainScores.h"
#include "passes/cost/Executor.h"
#include "passes/planner/ModelNode.h"

#include <limits>
#include <string>
#include <vector>

namespace cleave::search {

inline constexpr unsigned none = std::numeric_limits<unsigned>::max();

/// A value that operators pass on, or an input of the graph. Bytes are those of the whole tensor.
struct Tensor {
  mlir::Value value;
  double bytes = 0;
  bool batched = false;     ///< A dimension of it is the batch.
  bool learns = false;      ///< Depends on a parameter or, through operators, passes gradients on to one.
  bool isFloat = false;     ///< Integers have no gradients, and keep their size in narrower arithmetic.
  unsigned producer = none; ///< An index into the operators; none for an input of the graph.
  unsigned result = 0;
  /// Of what runs before the first step (Operator::once): the operator that answers for its memory and gradient among
  /// those that read it in steps, as for a parameter's.
  unsigned firstUse = none;
  /// (operator, operand), in the graph's order.
  llvm::SmallVector<std::pair<unsigned, unsigned>, 2> uses;
  bool isOutput = false;
  bool kept = false;        ///< The backward pass reads it (Kernels.h).
  bool keptRounded = false; ///< But for linear layers, as they multiply it, nothing does.
  double gradientSums = 0;  ///< The number of its gradients that are added to the first one.
};

/// An operand: a tensor, or a parameter or constant, of which every device loads the part that it needs.
struct Operand {
  unsigned tensor = none;
  unsigned parameter = none;
  /// Of a shared parameter, or what is prepared of it, where the operator answers for that: an index into
  /// SearchGraph::shared.
  unsigned shared = none;
  double bytes = 0;
  bool isFloat = false;
  bool isRounded = false; ///< In arithmetic of mixed precision the operator reads it in bfloat16.
};

/// A parameter that operators read.
struct Parameter {
  std::string name;
  double bytes = 0;
  bool trained = false;     ///< Neither state nor a constant.
  unsigned firstUse = none; ///< The operator that answers for its memory and gradient.
};

/// A trained parameter that several operators read in steps, by itself or as something prepared before the first step.
/// Where these are in several stages, it is sent there in each step, and gradients of it are sent back.
struct SharedParameter {
  double bytes = 0;
  llvm::SmallVector<unsigned> readers; ///< Operators, ascending, each once.
  /// Of these, those that answer for it or for something prepared of it. In one stage its gradients are one sum, which
  /// is there when the first of them has run backward: that one answers for it, and for the optimizer.
  llvm::SmallVector<unsigned> holders;
};

/// An operator's part of a kernel (Kernels.h): what is read and written of tensors in memory.
struct KernelUse {
  bool isFree = false;     ///< It costs nothing by itself.
  bool isEpilogue = false; ///< The bias of a product, added as it is written.
  bool isStreamed = false; ///< Part of attention as one kernel.
  bool isLinear = false;   ///< A product of a linear layer, as Executor::linearLayers has them.
  bool launches = true, launchesBackward = false;
  bool writes = true;                        ///< The result.
  llvm::SmallVector<bool, 3> reads;          ///< By operand.
  bool passesOn = false;                     ///< Its operands' gradients are its result's.
  double gradientReads = 0;                  ///< How often the result's gradient is read.
  llvm::SmallVector<bool, 3> readsAgain;     ///< By operand, backward.
  llvm::SmallVector<bool, 3> writesGradient; ///< By operand.
  bool readsResultAgain = false;             ///< Backward.
  bool masks = false;                        ///< A byte of each element is made, kept and read again.
  double share = 1;                          ///< Its columns among those of the joined product that it is part of.
  /// Between the products of attention: what its kernels read and write together, in tensors of this one's result.
  double passes = 0, backwardPasses = 0;
  double trainingPasses = 0; ///< What training reads and writes more forward, in tensors of its result.
  bool isCounted = false;    ///< It is part of such kernels, which these passes say all of.
  /// Streamed products: as how many of its own size it counts.
  double forwardProducts = 1, backwardProducts = 2;
};

struct Operator {
  mlir::Operation *op = nullptr;
  unsigned node = 0; ///< An index into SearchGraph::nodes.
  SplitRule rule;
  OpCost cost;
  unsigned batch = none;    ///< The factor that is the batch.
  unsigned sequence = none; ///< The factor that is the dimension of an input beside the batch.
  /// The factor that numbers the matrices of a product, each a weight of rows of its own, as experts of a mixture are;
  /// of later operators what follows from it.
  unsigned experts = none;
  llvm::SmallVector<Operand, 2> operands;
  llvm::SmallVector<unsigned, 1> results; ///< Indices of tensors.
  bool slides = false;                    ///< A convolution.
  bool once = false;                      ///< Depends on no input of the graph: it runs before the first step.
  bool fused = false; ///< Elementwise work in the kernel that makes its operand: no bytes of its own.
  /// The last fused work behind a product that computes something of a gradient: backward, a kernel does all of it.
  bool endsFused = false;
  /// Elementwise work that a sum does as it reads, or other such work on the way to it: the result is not stored.
  bool joinsReader = false;
  /// The same in inference, in a product's: batch normalization is folded into its weights, and what follows is done as
  /// the result is written, the sum with another tensor, too.
  bool endsProduct = false;
  /// In training its kernels find statistics of the batch.
  bool findsStatistics = false;
  /// Of attention that processors may compute without its scores in memory (dfg/Attention.h): which operand these are,
  /// none of the first product's, their last dimension, the sizes of that before it and of it, and whether their
  /// gradient is in memory no more than they are.
  struct Scores {
    unsigned operand = none;
    bool isResult = true;
    unsigned keysDim = 0;
    int64_t queries = 0, keys = 0;
    bool streamsGradient = false;
    unsigned attention = none; ///< An index into SearchGraph::attentions.
    /// Where a library's kernel can compute it.
    std::optional<dfg::PlainScores> plain = std::nullopt;
    /// The share of scores that kernels for processors compute of all queries: masks hide the other blocks of keys.
    double share = 1;
    /// The dimension before the keys'.
    unsigned queriesDim() const { return keysDim - 1; }
  };
  std::optional<Scores> scores;
  /// It makes queries, keys or values of attention.
  bool isForAttention = false;
  /// It has no choice of its own: it is split as the result of this operator is. Its own index where it has.
  unsigned leader = 0;
  /// What somebody pinned its node to: a number that the caller of readGraph gave it. None where nobody did, and of
  /// what runs once.
  unsigned pin = none;
  /// Where the executor's kernels are known; else operators count one by one.
  std::optional<KernelUse> use;
  /// By factor: whether it may be cut where only what lies between split products is; empty: all may.
  llvm::SmallVector<bool, 4> inner;
  /// What it computes and what that costs, as a digest, without how it is connected; empty until all of it is known.
  std::string digest;
};

/// Operators that compute scores of queries and keys, weights of them and a sum of values (dfg/Attention.h).
struct AttentionRow {
  /// From the product with the keys to that with the values, each of which is the right operand of its product.
  llvm::SmallVector<unsigned> operators;
  unsigned softmax = none;
  /// Whether steps make keys and values, and nothing but the products reads them, so that these can go around in a
  /// ring.
  bool mayBeRing = false;

  unsigned scores() const { return operators.front(); }
  unsigned result() const { return operators.back(); }
};

/// Whether the search looks at rings by itself for attention with that many keys. In 16 bits no plan of
/// docs/planning.md is faster with rings of fewer, and each choice that is open takes time and loosens the bound of all
/// plans.
inline bool mayPayInRing(const Operator::Scores &scores, bool isNarrow) {
  constexpr int64_t fewestKeys = 8192;
  return !isNarrow || scores.keys >= fewestKeys;
}

/// Between operators `at - 1` and `at`.
struct Boundary {
  unsigned at = 0;
  /// The only tensor that crosses; none where several do.
  unsigned single = none;
  /// Of all tensors that cross: bytes that carry the batch, and others.
  double batchedBytes = 0, otherBytes = 0;
};

struct SearchGraph {
  std::vector<ModelNode> nodes;
  std::vector<Operator> operators;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
  std::vector<SharedParameter> shared;
  std::vector<AttentionRow> attentions;
  /// Where the graph can be cut into stages, ascending; the first is before all operators, the last behind them.
  std::vector<Boundary> boundaries;
  /// Elements of the batch as the model has it; 1 where no input has one.
  int64_t batch = 1;
  /// Names of float inputs whose first dimension is 1, so that nothing tells the batch.
  std::vector<std::string> singleSample;
  bool hasExperts = false; ///< Products number their matrices (Operator::experts).

  /// Whether an earlier operator from `first` on, of those `included` if that is given, answers for the gradient of a
  /// shared parameter, and not the one of that number.
  bool isSummedEarlier(const Operand &operand, unsigned index, unsigned first,
                       const std::vector<bool> *included = nullptr) const;
  /// The operator that stands where this one has to: of what runs once the first that reads it in steps, else itself.
  unsigned placedWith(unsigned index) const;
  /// Floating-point operations of a step, forward, on the model's batch.
  double flops() const;
  /// A lower bound of those of a step on `batches` times the model's batch, in training backward as well: each product
  /// once, and once more for each of its two factors that has a gradient.
  double leastFlops(double batches, bool training) const;
  /// Whether training makes a gradient of the operand.
  bool learns(const Operand &operand) const;
  /// Whether the operator of that number is the one that answers for the operand's memory and gradient.
  bool isFirstUse(const Operand &operand, unsigned index) const;
  /// Whether it is a parameter, or made of parameters before the first microbatch.
  bool isPrepared(const Operand &operand) const;
  bool isPrepared(const Tensor &tensor) const;
  /// Whether the operand is made by the operator's own kernel (Operator::joinsReader).
  bool isJoined(const Operator &op, const Operand &operand) const;
  double parameterBytes() const;
  /// What an operator is, apart from where its operands come from, as structureOf.
  std::string digestOf(const Operator &op) const;
  /// What operators [first, last) compute and how they are connected, as a digest of 16 bytes (XXH3): equal for equal
  /// layers.
  /// `stageStart` is the first of the stage's operators (isSummedEarlier); none: `first`.
  std::string structureOf(unsigned first, unsigned last, unsigned stageStart = none) const;
};

/// How many boundaries are kept where nothing else is said.
inline constexpr unsigned mostBoundaries = 128;

/// Reads a graph whose operators have not been placed. At most `most` boundaries are kept: all single ones
/// that repeat in the same way, and of the others the narrowest. `pins` says by node (of collectModelNodes) what it is
/// pinned to, if anything is: there are boundaries between what is pinned to one and to another, too. `executor`: what
/// decides about kernels.
SearchGraph readGraph(dfg::GraphOp graph, llvm::ArrayRef<unsigned> pins = {}, unsigned most = mostBoundaries,
                      const Executor &executor = Executor());

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_SEARCHGRAPH_H
